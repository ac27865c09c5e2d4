"""A store in this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from .._stored import StoredSession
from ._base import conflict, key_text, record_of, record_text


class MemoryStore:
    """A store in this process, for tests and short-lived sessions; safe from several threads."""

    def __init__(self) -> None:
        self._records: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None."""
        with self._lock:
            found = self._records.get(key)
        return record_of(key, *found) if found is not None else None

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record; see `SessionStore.save`."""
        key_text(key)  # the same keys are refused as elsewhere, so a test in memory shows it
        text = record_text(key, data)
        with self._lock:
            found = self._records[key][1] if key in self._records else 0
            if found != expected_version:
                raise conflict(key, expected_version, found)
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
