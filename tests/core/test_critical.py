"""Critical fields are told again once much was said since; nothing else is."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

from typing import Annotated

import pytest

from pkv_agents import GENERIC, Ledger, Message, RebasePolicy, Tracked, TrackedState, TurnPlan, commit, plan
from tests.core.strategies import TAG

POLICY = RebasePolicy(restate_after_tokens=100)
LONG = "x" * 400


class Flight(TrackedState):
    gate: Annotated[str, Tracked(critical=True)] = "A1"
    allergies: Annotated[list[str], Tracked(critical=True)] = ["nuts"]
    seat: str = "12C"


class Trip:
    """A conversation in which each request succeeds."""

    def __init__(self) -> None:
        self.state, self.ledger = Flight(), Ledger()
        self.messages: list[Message] = []

    def turn(self, text: str = "and now?") -> TurnPlan:
        self.messages.append(Message("user", text))
        made = plan(self.ledger, self.state, self.messages, profile=GENERIC, tag=TAG, policy=POLICY)
        self.ledger = commit(self.ledger, made)
        self.messages.append(Message("assistant", "ok"))
        return made


def lines(made: TurnPlan) -> list[str]:
    return made.erratum.text.splitlines()[1:-1] if made.erratum is not None else []


@pytest.fixture
def trip() -> Trip:
    trip = Trip()
    trip.turn()
    return trip


def test_it_is_told_again_when_its_erratum_is_far_away_and_then_not_at_once(trip: Trip) -> None:
    trip.state.gate = "B7"
    assert lines(trip.turn()) == ['gate: "B7"']
    assert lines(trip.turn()) == []
    again = trip.turn(LONG)
    assert lines(again) == ['gate: "B7"'] and again.restated == ("gate",)
    assert 'gate: "B7" (critical, said again)' in str(again.explain())
    assert lines(trip.turn()) == []


def test_what_only_the_baseline_says_and_what_is_not_critical_is_not(trip: Trip) -> None:
    trip.state.seat = "1A"
    trip.turn()
    assert lines(trip.turn(LONG)) == []


def test_it_comes_with_other_news_and_once_if_it_is_news_itself(trip: Trip) -> None:
    trip.state.gate = "B7"
    trip.turn()
    trip.state.seat = "1A"
    assert lines(trip.turn(LONG)) == ['seat: "1A"', 'gate: "B7"']
    trip.state.gate = "C3"
    changed = trip.turn(LONG)
    assert lines(changed) == ['gate: "C3"'] and changed.restated == ()


def test_a_list_is_told_again_whole(trip: Trip) -> None:
    trip.state.allergies.append("milk")
    trip.turn()
    assert lines(trip.turn(LONG)) == ['allergies: ["nuts", "milk"]']


def test_where_there_is_no_place_for_it_nothing_waits(trip: Trip) -> None:
    trip.state.gate = "B7"
    trip.turn()
    trip.messages += [Message("user", LONG), Message("assistant", "I think")]
    made = plan(trip.ledger, trip.state, trip.messages, profile=GENERIC, tag=TAG, policy=POLICY)
    assert (made.erratum, made.changes, made.notices) == (None, (), ())
