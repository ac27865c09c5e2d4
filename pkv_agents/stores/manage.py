"""Sessions as a whole, in any store: list, export, import, reset and delete them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from .._stored import SessionStore, StoredSession, decode_record, encode_record, shown
from ..errors import ConflictError, LedgerError, SessionError
from ..usage import Usage
from ._base import record_text

EXPORT_FORMAT = "pkv-agents/export"
EXPORT_VERSION = 1
_TRIES = 16  # a reset is repeated when a turn was recorded meanwhile


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list.

    Attributes:
        key: The session.
        version: How often it was saved; 0 when the record is too damaged to tell.
        turns: How many turns were recorded.
        epoch: The number of the latest epoch; None when nothing was told yet.
        usage: The sum over all turns.
        problem: Why the record cannot be read; empty when it can.
    """

    key: str
    version: int
    turns: int = 0
    epoch: int | None = None
    usage: Usage = field(default_factory=Usage)
    problem: str = ""


def list_sessions(store: SessionStore) -> tuple[SessionInfo, ...]:
    """All sessions of a store, sorted by key. A record that cannot be read is listed with its problem.

    Args:
        store: The store.

    Raises:
        StoreError: The store failed.
    """
    found = (_info(store, key) for key in store.keys())  # noqa: SIM118 (a store is no mapping)
    return tuple(info for info in found if info is not None)


def export_session(store: SessionStore, key: str) -> dict[str, object]:
    """A session's record, complete and as plain JSON data; `import_session` takes it.

    It holds what the model was told of the state, so treat it like the state. A record of a newer version is exported
    as it is.

    Args:
        store: The store.
        key: The session.

    Raises:
        SessionError: There is no such session.
        LedgerError: The record is damaged beyond reading.
        StoreError: The store failed.
    """
    stored = _load(store, key)
    record = json.loads(record_text(key, stored.data))
    return {"format": EXPORT_FORMAT, "version": EXPORT_VERSION, "key": key, "saved": stored.version, "record": record}


def import_session(store: SessionStore, exported: Mapping[str, object], *, key: str | None = None) -> str:
    """Put an exported session into a store in which it is not yet. Its count of saves begins anew.

    Args:
        store: The store.
        exported: What `export_session` gave, perhaps through JSON.
        key: The session's key here; its own when left out.

    Returns:
        The key.

    Raises:
        LedgerError: This is no export, or one that this library cannot read; nothing was written.
        ConflictError: There is a session with this key; nothing was written.
        StoreError: The store failed.
    """
    if not isinstance(exported, Mapping) or exported.get("format") != EXPORT_FORMAT:  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise LedgerError(f"this is no exported session (format {EXPORT_FORMAT!r} expected); nothing was written")
    if exported.get("version") != EXPORT_VERSION:
        raise LedgerError(
            f"this export is of another version than {EXPORT_VERSION}; update pkv-agents; nothing was written"
        )
    name = key if key is not None else exported.get("key")
    if not isinstance(name, str) or not name:
        raise LedgerError("this export names no session; pass key=; nothing was written")
    record = cast("Mapping[str, object]", exported.get("record"))
    decode_record(name, StoredSession(record, 0))
    store.save(name, record, expected_version=0)
    return name


def reset_session(store: SessionStore, key: str) -> bool:
    """Forget what a session's model was told, so that the next turn tells everything in a new baseline.

    For a conversation that begins anew under the same key. The account stays: usage, number of turns, and whatever else
    the record holds beside the ledger. The count of saves goes on, so a process that still holds the session takes over
    the reset before its next plan, or is told of it (ConflictError) when it commits an earlier one.

    Args:
        store: The store.
        key: The session.

    Returns:
        Whether there was one.

    Raises:
        LedgerError: The record cannot be read; nothing was changed. `delete_session` forgets it.
        ConflictError: Others kept saving meanwhile; nothing was changed.
        StoreError: The store failed.
    """
    for left in reversed(range(_TRIES)):
        stored = store.load(key)
        if stored is None:
            return False
        record = replace(decode_record(key, stored), ledger=None)
        try:
            store.save(key, encode_record(record), expected_version=stored.version)
        except ConflictError:
            if not left:
                raise
        else:
            return True
    raise AssertionError("unreachable")


def delete_session(store: SessionStore, key: str) -> bool:
    """Forget a session and its account, whatever its record holds. For a conversation that has ended.

    The count of saves begins anew after this, so a process that still holds the old session could take a new one under
    the same key for its own. Where that can be, use `reset_session`.

    Args:
        store: The store.
        key: The session.

    Returns:
        Whether there was one.

    Raises:
        StoreError: The store failed.
    """
    return store.delete(key)


def _info(store: SessionStore, key: str) -> SessionInfo | None:
    version = 0
    try:
        stored = store.load(key)
        if stored is None:  # deleted since the keys were listed
            return None
        version = stored.version
        record = decode_record(key, stored)
    except LedgerError as error:
        return SessionInfo(key, version, problem=str(error))
    epoch = record.ledger.epochs[-1].number if record.ledger is not None and record.ledger.epochs else None
    return SessionInfo(key, version, record.turns, epoch, record.usage)


def _load(store: SessionStore, key: str) -> StoredSession:
    stored = store.load(key)
    if stored is None:
        raise SessionError(f"there is no session {shown(key)} in the store")
    return stored
