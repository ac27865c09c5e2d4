"""How a check says what it saw: not by `assert`, since it must also work under `python -O`."""

from __future__ import annotations

from collections.abc import Mapping

from .._stored import SessionStore, StoredSession
from ..errors import ConflictError, ConformanceError


def expect(holds: bool, message: str) -> None:
    """Raise a ConformanceError unless something holds."""
    if not holds:
        raise ConformanceError(message)


def expect_conflict(store: SessionStore, key: str, data: Mapping[str, object], expected_version: int) -> None:
    """A save with the wrong version must raise ConflictError."""
    try:
        got = store.save(key, data, expected_version=expected_version)
    except ConflictError:
        return
    raise ConformanceError(f"a save with expected_version={expected_version} gave {got} instead of a ConflictError")


def must_load(store: SessionStore, key: str) -> StoredSession:
    """The record of a session that must be there."""
    found = store.load(key)
    if found is None:
        raise ConformanceError("a record that was saved is not there")
    return found
