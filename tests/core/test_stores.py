"""Stores: atomic, versioned, and clear about what they cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pkv_agents import (
    OPENAI,
    AgentSession,
    ConflictError,
    Ledger,
    LedgerError,
    MemoryStore,
    SessionStore,
    SQLiteStore,
    StoreError,
    Usage,
    wire,
)
from tests.core.shop import HELLO, LATER, make


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "sessions.db")


class TestStores:
    def test_save_load_delete(self, store: SessionStore) -> None:
        assert isinstance(store, SessionStore)
        assert store.load("a") is None and store.keys() == ()
        assert store.save("a", {"x": [1, "\u00e9", None]}, expected_version=0) == 1
        assert store.save("b", {}, expected_version=0) == 1
        assert store.save("a", {"x": 2}, expected_version=1) == 2
        found = store.load("a")
        assert found is not None and (found.data, found.version) == ({"x": 2}, 2)
        with pytest.raises(ConflictError, match="version 2, expected 1"):
            store.save("a", {}, expected_version=1)
        assert store.load("a") == found
        assert store.keys() == ("a", "b") and store.delete("a") and not store.delete("a")

    def test_r31_a_session_goes_on_elsewhere(self, store: SessionStore) -> None:
        one = make(store=store)
        one.commit(one.plan(HELLO), Usage(fresh=7))
        one.state.mode = "auto"
        turn = one.plan(LATER)
        one.commit(turn)
        two = AgentSession(one.state, key="user-42", instructions="Be kind.", store=store, profile=OPENAI)
        assert wire(two.plan(LATER), LATER) == wire(one.plan(LATER), LATER)
        assert two.usage.fresh == 7 and two.report().total_turns == 2
        found = store.load("user-42")
        assert found is not None and "hush" not in json.dumps(found.data)

    def test_two_processes_on_one_session(self, store: SessionStore) -> None:
        one, two = make(store=store), make(store=store)
        slow = two.plan(HELLO)
        one.state.mode = "auto"
        one.commit(one.plan(HELLO))
        with pytest.raises(ConflictError):
            two.commit(slow)
        two.commit(two.plan(HELLO))  # it has taken over what was recorded
        assert one.ledger is not None and two.ledger is not None
        assert two.ledger.epochs[0].baseline_text == one.ledger.epochs[0].baseline_text

    def test_an_unknown_format_is_refused_and_kept(self, store: SessionStore) -> None:
        one = make(store=store)
        one.commit(one.plan(HELLO))
        assert one.ledger is not None
        future = {"ledger": {**one.ledger.to_dict(), "version": 99}}
        store.save("user-42", future, expected_version=1)
        with pytest.raises(LedgerError, match="version 99"):
            make(store=store)
        found = store.load("user-42")
        assert found is not None and found.data == future


def test_sqlite_errors_are_ours(tmp_path: Path) -> None:
    broken = tmp_path / "x.db"
    broken.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"x\.db"):
        SQLiteStore(broken)
    store = SQLiteStore(tmp_path / "y.db")
    store.close()
    with pytest.raises(StoreError):
        store.load("a")
    session = make(store=MemoryStore())
    session._saved.store = store
    turn = session.plan(HELLO)
    with pytest.raises(StoreError):
        session.commit(turn)
    session.commit(turn, on_conflict="report")
    assert session.ledger is not None
    assert [notice.code for notice in session.report().notices] == ["store_failed", "store_failed"]


@pytest.mark.parametrize(
    "damage",
    [
        {"format": "other"},
        {"version": "1"},
        {"revision": None},
        {"epochs": {}},
        {"epochs": [1]},
        {"epochs": [{"number": True}]},
    ],
)
def test_a_damaged_ledger_is_our_error(damage: dict[str, object]) -> None:
    session = make()
    session.commit(session.plan(HELLO))
    assert session.ledger is not None
    data = session.ledger.to_dict()
    assert Ledger.from_dict(json.loads(json.dumps(data))) == session.ledger
    with pytest.raises(LedgerError, match="ledger"):
        Ledger.from_dict({**data, **damage})
