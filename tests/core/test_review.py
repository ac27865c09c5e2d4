"""Faults that a reviewer found, each with the smallest example; what is right is said by the test's name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from pydantic import BaseModel

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    AgentSession,
    Hidden,
    Message,
    Pinned,
    RebasePolicy,
    SessionError,
    Tracked,
    TrackedState,
    TurnPlan,
    commit,
    plan,
    wire,
    wire_new,
)
from tests.core.shop import HELLO, LATER
from tests.core.strategies import LATE, TAG
from tests.core.talk import Talk, World

START = datetime(2026, 11, 1, tzinfo=UTC)


class Numbers(TrackedState):
    a: str = "x"
    b: int = 0


def user(*texts: str) -> list[Message]:
    """A conversation that begins and ends with the user."""
    roles = ("user", "assistant")
    return [Message(roles[at % 2], text) for at, text in enumerate(texts)]


class TestServerHistory:
    def test_nothing_old_is_sent_behind_the_last_answer(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=replace(LATE, holds_history=True), tag=TAG)
        for turn, texts in enumerate([("1",), ("1", "a1", "u2"), ("1", "a1", "u2", "a2", "u3")]):
            session.state.b = turn
            session.commit(session.plan(user(*texts)))
        trimmed = user("u3", "a3", "u4")
        made = session.plan(trimmed)
        assert [message.text for message in wire_new(made, trimmed)] == ["u4"] and made.told["b"] == "2"


class Shown(BaseModel):
    ssn: str = "078-05"


class Unseen(BaseModel):
    ssn: Annotated[str, Hidden()] = "078-05"


class Before(TrackedState):
    customer: Shown | None = Shown()


class After(TrackedState):
    customer: Unseen | None = None


class TestHidden:
    @pytest.mark.parametrize("state", [After(), After(customer=Unseen())])
    @pytest.mark.parametrize("rebase", [None, "deploy"])
    def test_a_value_that_is_hidden_now_leaves_wire_and_ledger(self, state: After, rebase: str | None) -> None:
        ledger = commit(None, plan(None, Before(), user("1"), profile=LATE))
        messages = user("1", "2", "3")
        turn = plan(ledger, state, messages, profile=LATE, rebase=rebase)
        assert turn.rebased == "field_hidden" and turn.notices[0].path == "customer.ssn"
        assert "078-05" not in "".join(message.text for message in wire(turn, messages))
        ledger = commit(ledger, turn)
        assert "078-05" not in str(ledger.to_dict())
        assert plan(ledger, state, messages, profile=LATE).notices == ()

    def test_it_leaves_older_epochs_too(self) -> None:
        ledger = commit(None, plan(None, Before(), user("1"), profile=LATE))
        empty = plan(ledger, Before(customer=None), user("1", "2", "3"), profile=LATE, rebase="tidy")
        ledger = commit(ledger, empty)
        quiet = plan(ledger, After(), user("1", "2", "3"), profile=LATE)
        assert quiet.rebased is None and "078-05" not in str(commit(ledger, quiet).to_dict())


class TestState:
    def test_the_instance_that_was_handed_in_stays_the_state(self) -> None:
        state = Numbers()
        session = AgentSession(state, key="k", profile=LATE)
        session.commit(session.plan(HELLO))
        session.update({"a": "z"})
        state.b = 7
        assert session.state is state
        assert [change.path for change in session.plan(LATER).changes] == ["a", "b"]


class Clocked(Talk):
    now = START

    def plan(self, rebase: str | None = None) -> TurnPlan:
        return plan(
            self.ledger, self.state, self.messages, profile=self.profile, tag=TAG, policy=RebasePolicy(), clock=self.now
        )


class TestCold:
    def talk(self) -> Clocked:
        talk = Clocked(replace(LATE, cold_after_seconds=300))
        talk.instructions = ""
        talk.say()
        talk.state.mode = "auto"
        talk.say()
        return talk

    def test_an_answer_that_was_asked_for_again_kept_it_warm(self) -> None:
        talk = self.talk()
        talk.now += timedelta(seconds=290)
        again = [*talk.messages[:-1]]
        made = plan(talk.ledger, talk.state, again, profile=talk.profile, clock=talk.now)
        talk.ledger = commit(talk.ledger, made)
        talk.now += timedelta(seconds=290)
        assert talk.say().rebased is None

    def test_another_branch_kept_it_warm(self) -> None:
        talk = self.talk()
        talk.now += timedelta(seconds=290)
        branch = [*talk.messages[:2], Message("user", "elsewhere")]
        talk.ledger = commit(talk.ledger, plan(talk.ledger, talk.state, branch, profile=talk.profile, clock=talk.now))
        talk.now += timedelta(seconds=290)
        assert talk.say().rebased is None

    def test_a_marker_on_the_system_message_counts(self) -> None:
        talk = Clocked(replace(LATE, cold_after_seconds=300))
        part = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        talk.messages.append(Message("system", (part,)))
        talk.say()
        talk.state.mode = "auto"
        talk.say("see you in 1h")
        talk.now += timedelta(minutes=50)
        assert talk.say().rebased is None


class TestHistory:
    def test_a_change_of_epoch_is_always_said_and_stays_changed(self) -> None:
        one, three = user("1"), user("1", "2", "3")
        ledger = commit(None, plan(None, Numbers(), one, profile=LATE))
        ledger = commit(ledger, plan(ledger, Numbers(b=1), three, profile=LATE, rebase="first"))
        ledger = commit(ledger, plan(ledger, Numbers(b=2), one, profile=LATE, rebase="second"))
        back = plan(ledger, Numbers(b=2), three, profile=LATE)
        assert [notice.code for notice in back.notices] == ["history_forked"]
        ledger = commit(ledger, back)
        assert plan(ledger, Numbers(b=2), three, profile=LATE).notices == ()

    def test_each_compaction_is_said_and_no_prefix_is_claimed(self) -> None:
        talk = Talk()
        for round_ in range(4):
            for turn in range(6):
                talk.state.counter = 10 * round_ + turn
                talk.say()
            talk.messages = [Message("user", f"summary {round_}"), Message("assistant", "I see.")]
            talk.state.counter = -round_
            made = talk.plan()
            assert [notice.code for notice in made.notices] == ["history_rewritten"]
            assert made.kept is False and "is not kept" in str(made.explain())

    def test_an_erratum_in_another_form_is_said_once(self) -> None:
        talk = Talk(replace(ANTHROPIC_MID_SYSTEM, min_cacheable_tokens=None))
        talk.say()
        talk.state.mode = "auto"
        talk.say()
        talk.messages[-1] = Message("user", "the answer was not kept")
        made = talk.plan()
        assert [(notice.code, notice.path) for notice in made.notices] == [("carrier_changed", "messages[3]")]
        assert made.kept is False
        talk.say()
        assert talk.say().notices == ()

    def test_paths_count_all_messages(self) -> None:
        talk = Talk()
        talk.messages += [Message("system", "One."), Message("system", "Two.")]
        for _ in range(4):
            talk.say()
        talk.messages[5] = Message("assistant", "something else")
        assert talk.plan().notices[0].path == "messages[5]"
        assert talk.plan().kept is False

    def test_two_forks_are_two_notices_and_a_retry_is_none(self) -> None:
        told: list[str] = []
        session = AgentSession(World(), key="k", profile=LATE, on_notice=lambda notice: told.append(notice.code))
        messages = user("1")
        for turn in range(4):
            session.state.counter = turn
            session.commit(session.plan(messages))
            messages += [Message("assistant", f"a{turn}"), Message("user", f"u{turn}")]
        for at in (5, 3):
            branch = [*messages[: at - 1], Message("assistant", f"other {at}"), Message("user", "?")]
            session.plan(branch)
            session.commit(session.plan(branch))
        assert told == ["history_forked", "history_forked"]


class Limits(BaseModel):
    id: str
    limit: Annotated[int, Pinned()] = 1


class Pins(TrackedState):
    items: Annotated[list[Limits], Tracked(key="id")] = []  # noqa: RUF012 (pydantic copies it)


class TestRebase:
    def test_an_item_that_is_new_has_not_changed(self) -> None:
        ledger = commit(None, plan(None, Pins(items=[Limits(id="a")]), HELLO, profile=LATE))
        more = Pins(items=[Limits(id="a"), Limits(id="b")])
        assert plan(ledger, more, HELLO, profile=LATE).rebased is None
        moved = Pins(items=[Limits(id="a", limit=2)])
        assert plan(ledger, moved, HELLO, profile=LATE).rebased == "pinned_changed"

    def test_words_are_never_taken_for_a_code(self) -> None:
        ledger = commit(None, plan(None, Numbers(), HELLO, profile=LATE))
        turn = plan(ledger, Numbers(), HELLO, profile=LATE, rebase="field_hidden")
        assert turn.rebased == "requested: field_hidden" and len(commit(ledger, turn).epochs) == 2

    def test_a_wish_for_a_new_head_is_used_up(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=LATE)
        session.rebase("deploy")
        session.commit(session.plan(HELLO))
        assert session.plan(LATER).rebased is None
        held = AgentSession(Numbers(), key="k", profile=replace(LATE, holds_history=True))
        held.commit(held.plan(HELLO))
        held.rebase("deploy")
        held.commit(held.plan(LATER))
        assert held.plan(LATER).notices == ()

    def test_a_field_that_is_stated_often_is_no_reason_beside_a_long_history(self) -> None:
        talk = Talk()
        talk.policy = RebasePolicy(payback=None)
        talk.messages += [Message("user", "x" * 40_000), Message("assistant", "ok")]
        for turn in range(70):
            talk.state.counter = turn
            assert talk.say().rebased is None

    @pytest.mark.parametrize("name", ["payback", "ratio", "statements", "floor_tokens"])
    @pytest.mark.parametrize("value", [-1, float("nan"), "much"])
    def test_numbers_of_a_policy_are_checked(self, name: str, value: object) -> None:
        with pytest.raises(SessionError, match=f"RebasePolicy.{name}"):
            RebasePolicy(**{name: value})  # pyright: ignore[reportArgumentType]

    def test_infinity_is_no_limit(self) -> None:
        talk = Talk()
        talk.policy = RebasePolicy(payback=float("inf"), ratio=float("inf"))
        for turn in range(5):
            talk.state.counter = turn
            assert talk.say().rebased is None
