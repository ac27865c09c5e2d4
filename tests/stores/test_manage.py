"""Sessions as a whole: listed, exported, imported, reset, deleted, in any store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pkv_agents import (
    AgentSession,
    ConflictError,
    LedgerError,
    MemoryStore,
    SessionError,
    SessionInfo,
    StoreError,
    Usage,
    delete_session,
    export_session,
    import_session,
    list_sessions,
    reset_session,
    wire,
)
from pkv_agents._stored import decode_record
from tests.core.shop import HELLO, LATER, Shop, make
from tests.stores.backends import BACKENDS, MakeStore


def talked(store: Any, key: str = "user-42") -> AgentSession[Shop]:
    """A session of two turns."""
    session = make(store=store, key=key)
    session.commit(session.plan(HELLO), Usage(fresh=7))
    session.state.mode = "auto"
    session.commit(session.plan(LATER), Usage(cache_read=3))
    return session


@pytest.mark.parametrize("make_store", BACKENDS, indirect=True)
def test_in_every_store(make_store: MakeStore) -> None:
    store = make_store()
    session = talked(store)
    sent = wire(session.plan(LATER), LATER)
    exported = json.loads(json.dumps(export_session(store, "user-42")))
    assert delete_session(store, "user-42") and not delete_session(store, "user-42")
    assert list_sessions(store) == ()
    assert import_session(store, exported) == "user-42"
    again = make(session.state, store=make_store())
    assert wire(again.plan(LATER), LATER) == sent
    assert reset_session(store, "user-42") and not reset_session(store, "user-43")
    assert [info.version for info in list_sessions(store)] == [2]


def test_a_list() -> None:
    store = MemoryStore()
    session = talked(store)
    session.rebase()
    session.commit(session.plan(LATER))
    make(store=store, key="b").commit(make(store=store, key="b").plan(HELLO))
    assert session.ledger is not None
    epoch = session.ledger.epochs[-1].number
    usage = Usage(fresh=7, cache_read=3, cache_reported_input=3)
    first, second = list_sessions(store)
    assert first == SessionInfo("b", 1, 1, epoch - 1)
    assert second == SessionInfo("user-42", 3, 3, epoch, usage)


def test_a_list_with_records_that_cannot_be_read() -> None:
    store = MemoryStore()
    talked(store)
    store.save("future", {"format": "pkv-agents/session", "version": 99}, expected_version=0)
    store._records["broken"] = ("{", 5)
    broken, future, sound = list_sessions(store)
    assert (broken.key, broken.version) == ("broken", 0) and "damaged" in broken.problem
    assert (future.key, future.version) == ("future", 1) and "version 99" in future.problem
    assert (sound.key, sound.problem) == ("user-42", "")


def test_a_session_that_goes_while_it_is_listed() -> None:
    class Vanishing(MemoryStore):
        def keys(self) -> tuple[str, ...]:
            return (*super().keys(), "gone")

    store = Vanishing()
    talked(store)
    assert [info.key for info in list_sessions(store)] == ["user-42"]


def test_an_export_is_complete_and_plain() -> None:
    store = MemoryStore()
    talked(store)
    found = store.load("user-42")
    assert found is not None
    exported = export_session(store, "user-42")
    assert exported == {
        "format": "pkv-agents/export",
        "version": 1,
        "key": "user-42",
        "saved": 2,
        "record": dict(found.data),
    }
    assert import_session(store, exported, key="copy") == "copy"
    copy = store.load("copy")
    assert copy is not None and (copy.data, copy.version) == (found.data, 1)
    with pytest.raises(ConflictError):
        import_session(store, exported)
    with pytest.raises(SessionError, match="'nobody'"):
        export_session(store, "nobody")


def test_an_export_keeps_what_it_cannot_read() -> None:
    store = MemoryStore()
    future: Mapping[str, object] = {"format": "pkv-agents/session", "version": 99, "new": ["é"]}
    store.save("a", future, expected_version=0)
    exported = export_session(store, "a")
    assert exported["record"] == future
    with pytest.raises(LedgerError, match="version 99"):
        import_session(store, exported, key="b")
    with pytest.raises(LedgerError, match="version 99"):
        reset_session(store, "a")
    assert store.keys() == ("a",)


@pytest.mark.parametrize(
    "change",
    [{"format": "other"}, {"version": 2}, {"key": ""}, {"key": None}, {"record": None}, {"record": {"turns": 1}}],
)
def test_what_is_no_export_is_not_imported(change: dict[str, object]) -> None:
    store = MemoryStore()
    talked(store)
    exported = export_session(store, "user-42")
    other = MemoryStore()
    with pytest.raises(LedgerError):
        import_session(other, {**exported, **change})
    with pytest.raises(LedgerError):
        import_session(other, [])  # pyright: ignore[reportArgumentType] (the mistake under test)
    assert other.keys() == ()


def test_a_reset_tells_everything_anew_and_keeps_the_account() -> None:
    store = MemoryStore()
    old = talked(store)
    slow = old.plan([*LATER, *HELLO])
    before = store.load("user-42")
    assert reset_session(store, "user-42")
    fresh = make(old.state, store=store)
    assert fresh.ledger is None
    turn = fresh.plan(LATER)
    assert turn.erratum is None and '"auto"' in wire(turn, LATER)[0].text
    assert (fresh.usage, fresh.report().total_turns) == (Usage(fresh=7, cache_read=3, cache_reported_input=3), 2)
    found = store.load("user-42")
    assert before is not None and found is not None
    assert decode_record("", found) == replace(decode_record("", before), ledger=None)
    with pytest.raises(ConflictError):  # whoever still holds the session is told
        old.commit(slow)
    old.commit(old.plan(LATER))
    assert [info.turns for info in list_sessions(store)] == [3]


def test_a_reset_while_others_save() -> None:
    class Busy(MemoryStore):
        left = 3

        def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
            if self.left > 0:
                self.left -= 1
                super().save(key, {**data}, expected_version=expected_version)
            return super().save(key, data, expected_version=expected_version)

    store = Busy()
    store.left = 0
    talked(store)
    store.left = 3
    assert reset_session(store, "user-42")
    store.left = 1000
    with pytest.raises(ConflictError):
        reset_session(store, "user-42")


def test_a_store_that_fails_is_not_a_damaged_record() -> None:
    class Down(MemoryStore):
        def load(self, key: str) -> Any:
            raise StoreError("down")

    store = Down()
    store.save("a", {}, expected_version=0)
    with pytest.raises(StoreError, match="down"):
        list_sessions(store)
