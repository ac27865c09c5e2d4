"""A store in one SQLite file, for one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from .._stored import StoredSession
from ..errors import StoreError
from ._base import conflict, foreign_errors, key_of, key_text, record_of, record_text

_SCHEMA = "CREATE TABLE IF NOT EXISTS pkv_sessions (key TEXT PRIMARY KEY, version INTEGER NOT NULL, data TEXT NOT NULL)"
_PAUSE = 0.02  # seconds between two tries to open a busy file


class SQLiteStore:
    """A store in one SQLite file (write-ahead log), safe from several threads and processes of one machine.

    The file must lie on a local disk: network file systems do not lock reliably. A process that forks may go on using
    its store in the child, which opens the file anew. The store is a context manager that closes itself.

    Args:
        path: The file; it is made when it does not exist, its folder is not. `:memory:` keeps the sessions in this
            process, for tests.
        timeout: Seconds to wait for another process that is writing.

    Raises:
        StoreError: The file cannot be opened, cannot be written, or is no database.
    """

    def __init__(self, path: str | Path, *, timeout: float = 10.0) -> None:
        self.path = str(path)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._closed = False
        if not self.path:
            raise StoreError("path: a file, for instance 'sessions.db'; SQLite would forget an unnamed one")
        if self.path != ":memory:" and not Path(self.path).absolute().parent.is_dir():
            raise StoreError(f"the folder of {self._name} does not exist; make it first")
        with self._database():
            _LIVE.add(self)

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None.

        Raises:
            LedgerError: The record is damaged.
            StoreError: The file cannot be read.
        """
        with self._database() as db:
            row = db.execute("SELECT data, version FROM pkv_sessions WHERE key = ?", (key_text(key),)).fetchone()
        return record_of(key, *row) if row is not None else None

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record; see `SessionStore.save`."""
        name, text = key_text(key), record_text(key, data)
        # One statement is one transaction, so there is no moment at which another process could come between.
        with self._database() as db:
            if expected_version == 0:
                done = db.execute("INSERT INTO pkv_sessions VALUES (?, 1, ?) ON CONFLICT DO NOTHING", (name, text))
            else:
                done = db.execute(
                    "UPDATE pkv_sessions SET version = version + 1, data = ? WHERE key = ? AND version = ?",
                    (text, name, expected_version),
                )
            if done.rowcount == 1:
                return expected_version + 1
            row = db.execute("SELECT version FROM pkv_sessions WHERE key = ?", (name,)).fetchone()
        raise conflict(key, expected_version, row[0] if row is not None else 0)

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        with self._database() as db:
            return db.execute("DELETE FROM pkv_sessions WHERE key = ?", (key_text(key),)).rowcount > 0

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted."""
        with self._database() as db:
            rows = db.execute("SELECT key FROM pkv_sessions").fetchall()
        return tuple(sorted(key_of(str(row[0])) for row in rows))

    def close(self) -> None:
        """Close the file; a second time does nothing. Afterwards the store raises StoreError."""
        with foreign_errors(self._name, words=(sqlite3.Error,)), self._lock:
            self._closed = True
            if self._db is not None:
                self._db.close()
                self._db = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _name(self) -> str:
        return f"the session store {self.path}"

    @contextmanager
    def _database(self) -> Generator[sqlite3.Connection]:
        # SQLite's own messages name files and tables, never a value.
        with foreign_errors(self._name, words=(sqlite3.Error,)), self._lock:
            if self._closed:
                raise StoreError(f"{self._name} is closed")
            if self._db is None:
                self._db = self._open()
            yield self._db

    def _open(self) -> sqlite3.Connection:
        """Open the file; a busy one is tried again, since the switch to a write-ahead log does not wait by itself."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._try_to_open()
            except sqlite3.OperationalError as error:
                # The low byte is the kind of error, the others its details.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    def _try_to_open(self) -> sqlite3.Connection:
        # Autocommit: each statement is a transaction. Our own lock serves instead of the check of threads.
        db = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(_SCHEMA)
        except BaseException:
            db.close()
            raise
        return db

    def _after_fork(self) -> None:
        """In a child: a new lock (another thread of the parent may have held it) and a new connection."""
        self._lock = threading.Lock()
        if self._db is not None and self.path != ":memory:":
            _OF_PARENTS.append(self._db)
            self._db = None


_LIVE: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()
_OF_PARENTS: list[sqlite3.Connection] = []
"""Connections of a parent process: SQLite forbids a child to use them, and even to close them."""


def _after_fork() -> None:
    for store in list(_LIVE):
        store._after_fork()  # pyright: ignore[reportPrivateUsage] (this module's own class)


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_after_fork)
