"""When errata are folded into a new baseline: the decision, its numbers and its reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest

from pkv_agents import (
    ANTHROPIC,
    CALM_STYLE,
    GENERIC,
    LOCAL,
    OPENAI,
    PLAIN_STYLE,
    Hidden,
    Message,
    Profile,
    RebasePolicy,
    TrackedState,
    TurnPlan,
    commit,
    plan,
    wire,
    wire_new,
)
from tests.core.strategies import LATE
from tests.core.talk import Talk

START = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Timed(Talk):
    """A talk with a clock, whose messages are as long as a user's."""

    now = START

    def __init__(self, profile: Profile = ANTHROPIC) -> None:
        super().__init__(replace(profile, cold_after_seconds=300))
        self.policy = RebasePolicy()

    def plan(self, rebase: str | None = None) -> TurnPlan:
        return plan(
            self.ledger,
            self.state,
            self.messages,
            profile=self.profile,
            instructions=self.instructions,
            tag="k7f3",
            policy=self.policy,
            rebase=rebase,
            clock=self.now,
        )

    def wait(self, **span: int) -> None:
        self.now += timedelta(**span)


class TestCold:
    def test_errata_are_folded_when_the_cache_has_expired(self) -> None:
        talk = Timed()
        talk.say()
        talk.state.mode = "auto"
        talk.say()
        talk.wait(seconds=300)
        assert talk.say().rebased is None
        talk.wait(seconds=301)
        made = talk.say()
        assert made.rebased == "cache_cold" and made.insertions == () and 'mode: "auto"' in made.system
        assert made.quote is not None and made.quote.idle_seconds == 301
        assert "301 seconds" in made.notices[0].message and made.notices[0].cost.startswith("none")

    def test_without_errata_there_is_nothing_to_fold(self) -> None:
        talk = Timed()
        talk.say()
        talk.wait(hours=9)
        talk.state.mode = "auto"
        made = talk.say()
        assert made.rebased is None and made.erratum is not None

    @pytest.mark.parametrize("seconds", [None, 10**6])
    def test_a_cache_that_may_still_be_warm_is_left_alone(self, seconds: int | None) -> None:
        talk = Timed()
        talk.profile = replace(talk.profile, cold_after_seconds=seconds)
        talk.say()
        talk.state.mode = "auto"
        talk.say()
        talk.wait(hours=9)
        assert talk.say().rebased is None

    def test_a_marker_for_an_hour_keeps_it_warm_for_an_hour(self) -> None:
        talk = Timed()
        marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        talk.messages += [Message("user", (marked,)), Message("assistant", "hello")]
        talk.say()
        talk.state.mode = "auto"
        talk.say()
        talk.wait(minutes=50)
        assert talk.say().rebased is None
        talk.wait(minutes=61)
        assert talk.say().rebased == "cache_cold"

    def test_the_policy_can_forbid_it(self) -> None:
        talk = Timed()
        talk.policy = RebasePolicy(when_cold=False)
        talk.say()
        talk.state.mode = "auto"
        talk.say()
        talk.wait(hours=9)
        assert talk.say().rebased is None


class TestPayback:
    def test_the_numbers_are_those_of_the_rule(self) -> None:
        talk = Timed()
        talk.say()
        talk.state.mode = "auto"
        told = talk.say()
        size = told.appended_tokens
        quotes = [talk.say().quote for _ in range(3)]
        assert [known.paid for known in quotes if known] == [round(0.1 * size * n, 1) for n in (0, 1, 2)]
        last = quotes[-1]
        assert last is not None and last.errata_tokens == size and last.decision is None
        # Anthropic: what is rewritten costs 1.25 instead of 0.1; the baseline and the messages of the last request.
        assert last.cost > 1.15 * len(told.epoch.baseline_text) / 4

    def test_it_rebases_when_reading_again_has_cost_as_much(self) -> None:
        talk = Timed()
        talk.say()
        rebased: list[int] = []
        for turn in range(200):
            talk.state.counter = turn
            made = talk.say()
            if made.rebased is not None:
                assert made.rebased == "payback" and made.quote is not None
                assert made.quote.paid >= made.quote.cost
                rebased.append(turn)
        assert 2 <= len(rebased) <= 20

    @pytest.mark.parametrize("policy", [RebasePolicy(payback=None), RebasePolicy(payback=1000)])
    def test_it_can_be_turned_off(self, policy: RebasePolicy) -> None:
        talk = Timed()
        talk.policy = policy
        for turn in range(60):
            talk.state.counter = turn
            assert talk.say().rebased is None

    def test_where_reading_is_free_only_the_limits_count(self) -> None:
        talk = Timed(LOCAL)
        reasons: list[str | None] = []
        for turn in range(150):
            talk.state.counter = turn
            reasons.append(talk.say().rebased)
        assert set(reasons) == {None, "errata_limit"} and reasons.count("errata_limit") == 2

    def test_an_early_fork_makes_a_rebase_cheap(self) -> None:
        talk = Timed()
        for turn in range(12):
            talk.state.counter = turn
            talk.say("x" * 400)
        late = talk.plan().quote
        talk.messages = [*talk.messages[:4], Message("user", "another way")]
        early = talk.plan().quote
        assert late is not None and early is not None and early.cost < late.cost / 2


class Account(TrackedState):
    name: str = "Mara"
    number: str = "DE44"


class QuietAccount(TrackedState):
    name: str = "Mara"
    number: Annotated[str, Hidden()] = "DE44"


def test_a_field_that_became_hidden_leaves_the_head_and_the_ledger() -> None:
    messages = [Message("user", "hi")]
    turn = plan(None, Account(), messages, profile=OPENAI, tag="k7f3")
    ledger = commit(None, turn)
    ledger = commit(ledger, plan(ledger, Account(number="DE45"), messages, profile=OPENAI))
    assert "DE44" in str(ledger.to_dict()) and "DE45" in str(ledger.to_dict())
    turn = plan(ledger, QuietAccount(), messages, profile=OPENAI)
    assert (turn.rebased, turn.notices[0].path) == ("field_hidden", "number")
    sent = "".join(message.text for message in wire(turn, messages))
    assert "DE4" not in sent and "number" not in sent
    ledger = commit(ledger, turn)
    assert "DE4" not in str(ledger.to_dict())
    assert plan(ledger, QuietAccount(), messages, profile=OPENAI).notices == ()


class TestServerHistory:
    """OpenAI's Responses with `previous_response_id`: the server holds the head and the history."""

    HELD = replace(OPENAI, holds_history=True)

    def test_only_what_is_new_is_sent(self) -> None:
        talk = Talk(self.HELD)
        first = talk.say("one")
        assert wire_new(first, talk.messages[:1]) == wire(first, talk.messages[:1])
        talk.state.mode = "auto"
        second = talk.say("two")
        new = wire_new(second, talk.messages[:3])
        assert [message.role for message in new] == ["user", "system"] and 'mode: "auto"' in new[1].text
        third = talk.say("three")
        assert [message.text for message in wire_new(third, talk.messages[:5])] == ["three"]

    def test_the_head_cannot_change_so_everything_is_told_at_the_end(self) -> None:
        talk = Talk(self.HELD)
        head = talk.say().system
        talk.state.region = "us"  # pinned
        made = talk.say()
        assert made.rebased is None and made.system == head and [c.path for c in made.changes] == ["region"]
        assert made.notices[0].code == "pinned_changed" and "server holds" in made.notices[0].cost

    def test_a_trimmed_copy_does_not_make_the_server_forget(self) -> None:
        talk = Talk(self.HELD)
        talk.say("one")
        talk.state.mode = "auto"
        talk.say("two")
        talk.messages = talk.messages[2:]
        talk.state.mode = "plan"  # as in the head, but not as it was told last
        made = talk.say("three")
        assert made.rebased is None and [change.text for change in made.changes] == ['"plan"']


def test_other_markers_are_declared_in_a_new_head_and_other_words_are_not_news() -> None:
    messages = [Message("user", "hi")]
    ledger = commit(None, plan(None, Account(), messages, profile=LATE, tag="k7f3"))
    calm = plan(ledger, Account(number="DE45"), messages, profile=LATE, style=CALM_STYLE)
    assert calm.rebased is None and calm.erratum is not None
    plain = plan(ledger, Account(number="DE45"), messages, profile=LATE, style=PLAIN_STYLE)
    assert plain.rebased == "style_changed" and "[[state-update k7f3]]" in plain.system
    assert plain.notices[0].path == "style"


def test_a_system_message_of_the_applications_where_the_profile_knows_of_none_is_a_notice() -> None:
    talk = Talk(GENERIC)
    talk.say()
    talk.messages += [Message("system", "By the way."), Message("user", "next")]
    made = talk.plan()
    assert [(notice.code, notice.path) for notice in made.notices] == [("system_misplaced", "messages[2]")]
    talk.profile = LATE
    assert talk.plan().notices == ()
