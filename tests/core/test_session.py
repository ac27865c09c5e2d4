"""Sessions, stores, usage, profiles: where state, ledger and the outside meet."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import pytest
from pydantic import BaseModel

import pkv_agents
from pkv_agents import (
    ANTHROPIC,
    GENERIC,
    OPENAI,
    OPENAI_5_6,
    REMOVE,
    AgentSession,
    ConflictError,
    Hidden,
    KeyedList,
    Ledger,
    LedgerError,
    MemoryStore,
    Message,
    MissingSessionKeyError,
    Notice,
    ProfileError,
    SessionError,
    SessionStore,
    SQLiteStore,
    StateError,
    StoreError,
    StrictNoticeError,
    Tracked,
    TrackedState,
    Usage,
    append_text,
    normalise_usage,
    profile_for,
    wire,
)
from tests.core.strategies import TAG


class Order(BaseModel):
    id: str
    status: str = "in transit"


class Shop(TrackedState):
    orders: Annotated[KeyedList[Order], Tracked(key="id")] = KeyedList([Order(id="4471")])
    mode: str = "plan"
    token: Annotated[str, Hidden()] = "hush-8842"


def make(state: Shop | None = None, *, store: SessionStore | None = None, key: str = "user-42") -> AgentSession[Shop]:
    state = state if state is not None else Shop(orders=KeyedList([Order(id="4471")]))
    return AgentSession(state, key=key, instructions="Be kind.", store=store, profile=OPENAI, tag=TAG)


HELLO = [Message("user", "hello")]
LATER = [*HELLO, Message("assistant", "hi"), Message("user", "and now?")]


class TestSession:
    def test_the_first_lines_that_a_user_writes(self) -> None:
        session = make()
        session.commit(session.plan(HELLO), usage={"prompt_tokens": 10, "completion_tokens": 1})
        session.state.orders["4471"].status = "delivered"
        turn = session.plan(LATER)
        assert wire(turn, LATER)[-1].text.splitlines()[1] == 'orders[4471].status: "delivered"'
        session.commit(turn)
        session.update({"orders[4471]": REMOVE, "orders[N1]": {"status": "new"}})
        assert [change.path for change in session.plan(LATER).changes] == ["orders[N1].status", "orders[4471]"]
        report = str(session.report())
        assert "2 turns" in report and "orders[4471].status" in report and "not reported" in report

    def test_a_key_is_needed(self) -> None:
        with pytest.raises(MissingSessionKeyError, match="a session needs a key") as caught:
            AgentSession(Shop(), key="")
        assert isinstance(caught.value, KeyError)
        with pytest.raises(SessionError, match="four characters"):
            AgentSession(Shop(), key="k", tag="<tag>")

    def test_the_application_may_own_the_state(self) -> None:
        current = Shop()
        reads: list[int] = []

        def read() -> Shop:
            reads.append(1)
            return current

        session = AgentSession(read, key="k", profile=OPENAI)
        session.commit(session.plan(HELLO))
        assert len(reads) == 1
        current = Shop(mode="auto")
        assert [change.path for change in session.plan(LATER).changes] == ["mode"]
        with pytest.raises(SessionError, match="application owns"):
            session.update({"mode": "plan"})

    def test_a_failed_call_is_planned_anew(self) -> None:
        session = make()
        session.commit(session.plan(HELLO))
        session.state.mode = "auto"
        session.plan(LATER)  # and the call failed
        session.state.mode = "other"
        again = session.plan(LATER)
        assert [change.text for change in again.changes] == ['"other"']
        session.commit(again)
        assert session.plan(LATER).changes == ()

    def test_commit_is_idempotent_and_a_stale_plan_conflicts(self) -> None:
        session = make()
        one = session.plan(HELLO)
        session.commit(one, Usage(fresh=5))
        session.commit(one, Usage(fresh=5))
        assert session.usage.fresh == 5 and session.report().total_turns == 1
        session.state.mode = "auto"
        stale, current = session.plan(LATER), session.plan(LATER)
        session.state.mode = "x"
        other = session.plan(LATER)
        session.commit(other)
        with pytest.raises(ConflictError):
            session.commit(stale)
        session.commit(current, on_conflict="report")
        assert [notice.code for notice in session.report().notices] == ["commit_conflict"]
        assert session.report().total_turns == 2

    def test_rebase_is_asked_for_until_it_was_sent(self) -> None:
        session = make()
        session.commit(session.plan(HELLO))
        session.rebase("tidy")
        assert session.plan(LATER).rebased == "tidy"
        turn = session.plan(LATER)
        session.commit(turn)
        assert session.plan(LATER).rebased is None

    def test_notices_are_told_once_and_raised_when_strict(self, caplog: pytest.LogCaptureFixture) -> None:
        heard: list[Notice] = []
        session = AgentSession(Shop(), key="k", on_notice=heard.append, profile=GENERIC)
        session.commit(session.plan(HELLO))
        session.state.mode = "auto"
        answered = LATER[:2]
        for _ in range(3):
            session.plan(answered)
        assert [notice.code for notice in heard] == ["erratum_waits"]
        assert "erratum_waits" in caplog.text and "hush" not in caplog.text
        strict = AgentSession(Shop(), key="k", strict=True, profile=GENERIC)
        strict.commit(strict.plan(HELLO))
        strict.state.mode = "auto"
        with pytest.raises(StrictNoticeError, match="erratum_waits"):
            strict.plan(answered)
        with pytest.raises(StrictNoticeError, match="erratum_waits") as caught:
            strict.plan(answered)
        assert caught.value.notice.code == "erratum_waits"
        strict.rebase()
        assert strict.plan(HELLO).rebased == "requested"

    def test_the_transcript_marks_errata_and_records_nothing(self) -> None:
        session = make()
        session.commit(session.plan(HELLO))
        session.state.mode = "auto"
        text = session.transcript(LATER)
        assert "[system, new erratum]\n<state-update" in text and "hush" not in text
        session.commit(session.plan(LATER))
        assert "[system, replayed erratum]" in session.transcript(LATER)

    def test_threads_lose_nothing(self) -> None:
        session = make()
        session.commit(session.plan(HELLO))

        def work(number: int) -> None:
            session.update({f"orders[T{number}]": {"status": "new"}})
            session.commit(session.plan(HELLO), Usage(fresh=1), on_conflict="report")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session.commit(session.plan(LATER))
        assert len(session.state.orders) == 9
        assert session.plan(LATER).changes == ()


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
        one.commit(one.plan(HELLO))
        with pytest.raises(ConflictError):
            two.commit(two.plan(HELLO))
        two.commit(two.plan(HELLO))  # it has taken over what was recorded
        assert one.ledger == two.ledger

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
    session._store = store
    turn = session.plan(HELLO)
    with pytest.raises(StoreError):
        session.commit(turn)
    session.commit(turn, on_conflict="report")
    assert session.ledger is not None
    assert [notice.code for notice in session.report().notices] == ["store_failed"]


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
    ("reported", "expected"),
    [
        pytest.param(
            {"prompt_tokens": 2006, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1920}},
            Usage(86, 1920, None, None, 9),
            id="openai chat",
        ),
        pytest.param(
            {"input_tokens": 3, "cache_read_input_tokens": 20000, "cache_creation_input_tokens": 1500},
            Usage(3, 20000, 1500, None, None),
            id="anthropic",
        ),
        pytest.param(
            {
                "input_tokens": 21503,
                "output_tokens": 1,
                "total_tokens": 21504,
                "input_token_details": {"cache_read": 20000, "cache_creation": 1500},
            },
            Usage(3, 20000, 1500, None, 1),
            id="langchain",
        ),
        pytest.param(
            {"input_tokens": 100, "input_token_details": {"cache_read": 90, "cache_creation": 5}},
            Usage(5, 90, 5, None, None),
            id="langchain small",
        ),
        pytest.param(
            {
                "input_tokens": 100,
                "input_token_details": {
                    "cache_read": 50,
                    "cache_creation": 0,
                    "ephemeral_5m_input_tokens": 10,
                    "ephemeral_1h_input_tokens": 20,
                },
            },
            Usage(20, 50, 10, 20, None),
            id="langchain anthropic tiers",
        ),
        pytest.param(
            {"input_tokens": 30, "input_token_details": {"priority_cache_read": 10}, "output_tokens": 2},
            Usage(20, 10, None, None, 2),
            id="langchain service tier",
        ),
        pytest.param(
            {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 10}, "output_tokens": 2, "total_tokens": 32},
            Usage(20, 10, None, None, 2),
            id="openai responses",
        ),
        pytest.param({"prompt_tokens": 30, "completion_tokens": 2}, Usage(30, None, None, None, 2), id="no details"),
        pytest.param(
            {"prompt_tokens": 30, "prompt_cache_hit_tokens": 20, "prompt_cache_miss_tokens": 10},
            Usage(10, 20),
            id="deepseek",
        ),
        pytest.param(
            {"promptTokenCount": 30, "cachedContentTokenCount": 20, "candidatesTokenCount": 4, "thoughtsTokenCount": 1},
            Usage(10, 20, None, None, 5),
            id="gemini",
        ),
        pytest.param(
            {"inputTokens": 30, "cacheReadInputTokens": 20, "outputTokens": 4},
            Usage(30, 20, None, None, 4),
            id="bedrock",
        ),
        pytest.param(
            SimpleNamespace(prompt_tokens=30, cached_tokens=20, output_tokens=4, text="x"),
            Usage(10, 20, None, None, 4),
            id="our engine",
        ),
        pytest.param(
            SimpleNamespace(usage=SimpleNamespace(prompt_tokens=3, completion_tokens=1)),
            Usage(3, None, None, None, 1),
            id="whole response",
        ),
        pytest.param(None, Usage(), id="nothing"),
        pytest.param({"x": 1}, Usage(), id="unknown"),
    ],
)  # fmt: skip
def test_r28_usage_of_every_shape(reported: object, expected: Usage) -> None:
    found = normalise_usage(reported)
    assert found == expected and normalise_usage(found) == found


def test_usage_sums_and_shares() -> None:
    assert Usage(3, 20000, 1500).input == 21503
    assert Usage(fresh=1) + Usage(cache_read=2) == Usage(1, 2)
    assert (Usage() + Usage()).cached_share is None and Usage(fresh=5).cached_share is None
    assert Usage(1, 3).cached_share == 0.75


@pytest.mark.parametrize(
    ("provider", "model", "name", "carrier", "minimum"),
    [
        ("openai", "gpt-5.2", "openai", "system", 1024),
        ("openai", "gpt-5.6-mini", "openai-5.6", "system", 1024),
        ("anthropic", "claude-opus-4-8", "anthropic-mid-system", "system", 1024),
        ("anthropic", "claude-opus-5-20261001", "anthropic-mid-system", "system", 512),
        ("anthropic", "claude-sonnet-5", "anthropic", "user_suffix", 1024),
        ("anthropic", "claude-sonnet-5-5", "anthropic-mid-system", "system", 1024),
        ("anthropic", "claude-haiku-4-5-20251001", "anthropic", "user_suffix", 4096),
        ("vllm", "any", "vllm", "user_suffix", None),
    ],
)
def test_profiles_by_family(provider: str, model: str, name: str, carrier: str, minimum: int | None) -> None:
    profile, notices = profile_for(provider, model)
    assert (profile.name, profile.carrier, profile.min_cacheable_tokens, notices) == (name, carrier, minimum, ())


def test_an_unknown_model_gets_a_cautious_profile_and_a_notice() -> None:
    for provider, expected in (("acme", GENERIC), ("anthropic", ANTHROPIC), ("openai", GENERIC)):
        profile, notices = profile_for(provider, "new-model")
        assert profile == expected and [notice.code for notice in notices] == ["unknown_model"]
    assert OPENAI_5_6.write_multiplier == 1.25
    with pytest.raises(ProfileError, match="system_slot"):
        pkv_agents.Profile("x", system_slot="never")  # pyright: ignore[reportArgumentType]


def test_append_text_keeps_the_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "x"}}
    assert append_text(Message("user", "a"), "b").content == "a\n\nb"
    assert append_text(Message("tool", ""), "b").content == "b"
    assert append_text(Message("user", ()), "b").content == ({"type": "text", "text": "b"},)
    assert append_text(Message("user", (image,)), "b").content == (image, {"type": "text", "text": "b"})
    text = {"type": "text", "text": "a"}
    assert append_text(Message("user", (image, text)), "b").content == (image, {"type": "text", "text": "a\n\nb"})
    empty = {"type": "text", "text": ""}
    assert append_text(Message("user", (image, empty)), "b").content == (image, empty, {"type": "text", "text": "b"})


def test_r39_a_policy_that_quotes_a_value_is_not_changed_with_the_field() -> None:
    policy = 'Orders with status "in transit" cannot be cancelled.'
    session = AgentSession(
        Shop(orders=KeyedList([Order(id="1")])), key="k", instructions=policy, profile=OPENAI, tag=TAG
    )
    session.commit(session.plan(HELLO))
    session.update({"orders[1].status": "delivered"})
    sent = wire(session.plan(LATER), LATER)
    assert sent[0].text.startswith(policy) and "delivered" not in sent[0].text
    assert "delivered" in sent[-1].text


def test_the_public_names_are_sorted_and_real() -> None:
    assert sorted(pkv_agents.__all__) == pkv_agents.__all__
    assert all(hasattr(pkv_agents, name) for name in pkv_agents.__all__)
    with pytest.raises(StateError):
        pkv_agents.apply_patch(Shop(), {"mode": 1})
