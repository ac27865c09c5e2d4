"""Our keys in the store of a workflow's context, and the session that is made of them for one model call."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from pkv_agents import AgentSession, ConflictError, SessionError, SessionReport, StoredSession

STATE_KEY = "pkv_state"
SESSION_KEY = "pkv_session"
_FORMAT = "pkv-llama-index/1"


@dataclass(frozen=True, slots=True)
class ContextTurn:
    """The session of a context for one model call.

    Attributes:
        store: The context's store.
        id: The context's name in messages.
        agent: Whose ledger it is.
        held: That ledger's record, between loading and saving.
        session: The session over it.
        note: Told the session's report after the call was recorded: the session ends with the call.
    """

    store: Any
    id: str
    agent: str
    held: HeldRecord
    session: AgentSession[Any]
    note: Callable[[SessionReport], None]

    @asynccontextmanager
    async def saving(self) -> AsyncGenerator[None]:
        """Around a commit: it sees what others recorded meanwhile, and what it records is written."""
        async with lock_of(self.store):
            saved = await saved_in(self.store, self.id)
            self.held.record = record_of(saved, self.agent)
            yield
            if self.held.record is not None:
                data = {"version": self.held.record.version, "data": self.held.record.data}
                rebases = {name: why for name, why in saved.get("rebase", {}).items() if name != self.agent}
                ledgers = {**saved["ledgers"], self.agent: data}
                await put(self.store, SESSION_KEY, {**saved, "ledgers": ledgers, "rebase": rebases})
        self.note(self.session.report())


class HeldRecord:
    """A `SessionStore` of one record, loaded from a context before and written to it afterwards."""

    def __init__(self, record: StoredSession | None) -> None:
        self.record = record

    def load(self, key: str) -> StoredSession | None:
        """The record."""
        return self.record

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace it."""
        found = self.record.version if self.record is not None else 0
        if found != expected_version:
            raise ConflictError("another call recorded a turn of this context meanwhile")
        self.record = StoredSession(data, found + 1)
        return found + 1

    def delete(self, key: str) -> bool:
        """Forget it."""
        had, self.record = self.record is not None, None
        return had

    def keys(self) -> tuple[str, ...]:
        """There is one, and its key is the context's."""
        return ()


_locks: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()


def lock_of(store: Any) -> asyncio.Lock:
    """One writer of our keys at a time: stores that wait in between would lose one of two changes."""
    return _locks.setdefault(store, asyncio.Lock())


async def saved_in(store: Any, name: str | None = None) -> dict[str, Any]:
    """What a context holds under our key.

    Args:
        store: The context's store.
        name: The name that it already has; without one, a context that holds nothing gets a new one.

    Raises:
        SessionError: It was written by a newer version.
    """
    found = await store.get(SESSION_KEY, default=None)
    if isinstance(found, dict):
        kept = cast("dict[str, Any]", found)
        if kept.get("format") != _FORMAT:
            raise SessionError(f"{SESSION_KEY}: a form that this version does not know; update llama-index-llms-pkv")
        return kept
    fresh: dict[str, Any] = {"format": _FORMAT, "id": name or f"context-{uuid.uuid4().hex[:12]}", "ledgers": {}}
    if name is None:
        with suppress(SessionError):  # inside an edit of the store; the call's end says so
            await put(store, SESSION_KEY, fresh)
    return fresh


async def put(store: Any, key: str, value: Mapping[str, object]) -> None:
    """Write one of our keys.

    Raises:
        SessionError: It cannot be written: an edit of the store is open, or its state is typed and has no such field.
    """
    try:
        await store.set(key, dict(value))
    except RuntimeError as error:
        raise SessionError(
            f"{key} cannot be written inside ctx.store.edit_state(): leave that block first, then change the state or "
            "call the model"
        ) from error
    except (AttributeError, ValueError, TypeError) as error:
        raise SessionError(
            f"{key} cannot be written: the context's typed state needs the fields {STATE_KEY} and {SESSION_KEY}, both "
            "dict | None = None"
        ) from error


def record_of(saved: Mapping[str, Any], agent: str) -> StoredSession | None:
    """The ledger's record of one agent, or None."""
    kept = saved["ledgers"].get(agent)
    return StoredSession(kept["data"], kept["version"]) if kept is not None else None
