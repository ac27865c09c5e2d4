"""Session stores: where a session's record lives between two processes.

A store keeps one JSON document a key, with a version that counts its saves. A save names the version that it replaces,
so that of two processes on one session one is told (`ConflictError`) instead of losing the other's turn.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ._stored import StoredSession
from .errors import ConflictError, StoreError


def _conflict(key: str, expected: int, found: int) -> ConflictError:
    return ConflictError(
        f"session {key!r} was saved elsewhere (version {found}, expected {expected}); load it again and plan anew"
    )


class MemoryStore:
    """A store in this process, for tests and short-lived sessions; safe from several threads."""

    def __init__(self) -> None:
        self._records: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None."""
        with self._lock:
            found = self._records.get(key)
        return StoredSession(json.loads(found[0]), found[1]) if found is not None else None

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record; see `SessionStore.save`."""
        text = json.dumps(data)
        with self._lock:
            found = self._records[key][1] if key in self._records else 0
            if found != expected_version:
                raise _conflict(key, expected_version, found)
            self._records[key] = (text, found + 1)
        return found + 1

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        with self._lock:
            return self._records.pop(key, None) is not None

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted."""
        with self._lock:
            return tuple(sorted(self._records))


class SQLiteStore:
    """A store in one SQLite file (write-ahead log), safe from several threads and processes.

    Args:
        path: The file; it is made when it does not exist.

    Raises:
        StoreError: The file cannot be opened or is no database.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._lock = threading.Lock()
        with self._errors():
            # Autocommit, so that BEGIN IMMEDIATE below is the only transaction there is.
            self._db = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS pkv_sessions "
                "(key TEXT PRIMARY KEY, version INTEGER NOT NULL, data TEXT NOT NULL)"
            )

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"the session store {self.path} failed: {error}") from error

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None.

        Raises:
            StoreError: The file or the record cannot be read.
        """
        with self._errors(), self._lock:
            row = self._db.execute("SELECT data, version FROM pkv_sessions WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return StoredSession(json.loads(row[0]), row[1])
        except ValueError:
            raise StoreError(f"the record of session {key!r} in {self.path} is damaged; export and delete it") from None

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record; see `SessionStore.save`."""
        text = json.dumps(data)
        with self._errors(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                row = self._db.execute("SELECT version FROM pkv_sessions WHERE key = ?", (key,)).fetchone()
                found = int(row[0]) if row is not None else 0
                if found != expected_version:
                    raise _conflict(key, expected_version, found)
                self._db.execute("INSERT OR REPLACE INTO pkv_sessions VALUES (?, ?, ?)", (key, found + 1, text))
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        return found + 1

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        with self._errors(), self._lock:
            return self._db.execute("DELETE FROM pkv_sessions WHERE key = ?", (key,)).rowcount > 0

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted."""
        with self._errors(), self._lock:
            rows = self._db.execute("SELECT key FROM pkv_sessions ORDER BY key").fetchall()
        return tuple(str(row[0]) for row in rows)

    def close(self) -> None:
        """Close the file."""
        with self._errors(), self._lock:
            self._db.close()
