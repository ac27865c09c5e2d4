"""What a session needs from a store, and the form of the record that it keeps there; the stores are in `stores`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol, cast, runtime_checkable

from .errors import LedgerError
from .ledger import Ledger
from .usage import Usage

FORMAT = "pkv-agents/session"
RECORD_VERSION = 1
"""The version of the record around the ledger; the ledger has one of its own."""

_USAGE_TEXTS = frozenset({"estimated_by", "reported_cost"})

MAX_SHOWN = 80
"""Characters of a key that a message shows."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session's record as a store gives it back.

    Attributes:
        data: Plain JSON data.
        version: How often the record was saved.
    """

    data: Mapping[str, object]
    version: int


@runtime_checkable
class SessionStore(Protocol):
    """What a session needs from a store. Hold a store of your own to it with `check_store`."""

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None.

        Raises:
            LedgerError: There is a record, and it is damaged.
            StoreError: The store failed.
        """
        ...

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record, all or nothing.

        Args:
            key: The session.
            data: Plain JSON data.
            expected_version: The version that was loaded; 0 when there was none.

        Returns:
            The new version.

        Raises:
            ConflictError: The record has another version by now; nothing was changed.
            StoreError: The store failed.
        """
        ...

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        ...

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted."""
        ...


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What is kept of a session between two processes.

    Attributes:
        ledger: What was sent; None when nothing was told yet, or when that was reset.
        usage: The sum over all turns.
        turns: How many turns were recorded.
        extra: More plain JSON data. What a reader does not know, it keeps and writes back.
    """

    ledger: Ledger | None = None
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    extra: Mapping[str, object] = field(default_factory=dict[str, object])


def encode_record(record: SessionRecord) -> dict[str, object]:
    """A record as plain JSON data, for a store's `save`."""
    return {
        "format": FORMAT,
        "version": RECORD_VERSION,
        "ledger": record.ledger.to_dict() if record.ledger is not None else None,
        "usage": asdict(record.usage),
        "turns": record.turns,
        "extra": dict(record.extra),
    }


def decode_record(key: str, stored: StoredSession) -> SessionRecord:
    """A record from what a store gave back; nothing unknown is guessed at.

    Args:
        key: The session, for messages.
        stored: What `load` returned. One without format and version is read as the present one.

    Raises:
        LedgerError: The record is damaged or of a newer version; nothing was changed.
    """
    data = stored.data
    where = f"the stored session {shown(key)}"
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (stores are the user's)
        raise LedgerError(f"{where} is a {type(data).__name__}; nothing was changed")
    if data.get("format", FORMAT) != FORMAT:
        raise LedgerError(f"{where} is no session (format {FORMAT!r} expected); nothing was read or changed")
    version = data.get("version", RECORD_VERSION)
    if version != RECORD_VERSION or isinstance(version, bool):
        found = version if isinstance(version, int) else type(version).__name__
        raise LedgerError(
            f"{where} has version {found}, this library reads {RECORD_VERSION}; "
            "update pkv-agents, or start a new session; nothing was changed"
        )
    if "ledger" not in data:
        raise LedgerError(f"{where} is damaged: it has no ledger; nothing was changed")
    ledger, turns, extra = data["ledger"], data.get("turns", 0), data.get("extra", {})
    if not isinstance(turns, int) or isinstance(turns, bool) or turns < 0:
        raise LedgerError(f"{where} is damaged: turns is no number; nothing was changed")
    if not isinstance(extra, Mapping):
        raise LedgerError(f"{where} is damaged: extra is a {type(extra).__name__}; nothing was changed")
    return SessionRecord(
        Ledger.from_dict(cast("Mapping[str, object]", ledger)) if ledger is not None else None,
        _decode_usage(where, data.get("usage", {})),
        turns,
        cast("Mapping[str, object]", extra),
    )


def shown(key: str) -> str:
    """A key as messages show it: quoted, and no longer than a line."""
    return repr(key) if len(key) <= MAX_SHOWN else f"{key[:MAX_SHOWN]!r}... ({len(key)} characters)"


def _decode_usage(where: str, data: object) -> Usage:
    if not isinstance(data, Mapping):
        raise LedgerError(f"{where} is damaged: usage is a {type(data).__name__}; nothing was changed")
    counts = cast("Mapping[str, object]", data)
    kinds = {part.name: str if part.name in _USAGE_TEXTS else int for part in fields(Usage)}
    for name, value in counts.items():
        if name not in kinds:
            raise LedgerError(
                f"{where} counts usage that this library does not know; update pkv-agents; nothing changed"
            )
        if value is not None and (not isinstance(value, kinds[name]) or isinstance(value, bool)):
            raise LedgerError(f"{where} is damaged: usage.{name} is a {type(value).__name__}; nothing was changed")
    return Usage(**cast("dict[str, Any]", {name: value for name, value in counts.items() if value is not None}))
