"""Sessions and their ledgers in stores. The stores themselves are tested in tests/stores."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pkv_agents import (
    OPENAI,
    AgentSession,
    ConflictError,
    Ledger,
    LedgerError,
    MemoryStore,
    PostgresStore,
    RedisStore,
    SessionStore,
    SQLiteStore,
    StoreError,
    Usage,
    wire,
)
from tests.core.shop import HELLO, LATER, make


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SessionStore]:
    with SQLiteStore(tmp_path / "sessions.db") as file:
        yield MemoryStore() if request.param == "memory" else file


class TestSessionsInStores:
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


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (RedisStore, r"client: a redis\.Redis, not a str; for instance redis\.Redis\.from_url"),
        (PostgresStore, r"connect: a function, not a str; for instance lambda: psycopg\.connect"),
    ],
)
def test_an_address_is_no_client(store: Any, words: str) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        store("scheme://user:secret@127.0.0.1")
    assert "secret" not in str(caught.value)
