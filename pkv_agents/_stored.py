"""What a session needs from a store; the stores themselves are in `stores`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from .errors import LedgerError
from .ledger import Ledger
from .usage import Usage


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
    """What a session needs from a store."""

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None."""
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
        """
        ...

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        ...

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted."""
        ...


def read_record(key: str, stored: StoredSession) -> tuple[Ledger, Usage, int]:
    """The ledger, usage and number of turns in a record.

    Raises:
        LedgerError: The record is damaged or of a newer version; nothing was changed.
    """
    data = stored.data
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (stores are the user's)
        raise LedgerError(f"the stored session {key!r} is a {type(data).__name__}; nothing was changed")
    usage, turns = data.get("usage"), data.get("turns")
    counts: Mapping[str, object] = cast("Mapping[str, object]", usage) if isinstance(usage, Mapping) else {}
    return (
        Ledger.from_dict(cast("Mapping[str, object]", data.get("ledger"))),
        Usage(**{name: value for name, value in counts.items() if isinstance(value, int)}),
        turns if isinstance(turns, int) else 0,
    )
