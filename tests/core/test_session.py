"""Sessions: what they own, report and refuse."""

from __future__ import annotations

import threading

import pytest

import pkv_agents
from pkv_agents import (
    GENERIC,
    REMOVE,
    AgentSession,
    ConflictError,
    KeyedList,
    Message,
    MissingSessionKeyError,
    Notice,
    SessionError,
    StateError,
    StrictNoticeError,
    Usage,
    append_text,
    wire,
)
from tests.core.shop import HELLO, LATER, Order, Shop, make
from tests.core.strategies import LATE, TAG


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

        session = AgentSession(read, key="k", profile=LATE)
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
    session = AgentSession(Shop(orders=KeyedList([Order(id="1")])), key="k", instructions=policy, profile=LATE, tag=TAG)
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
