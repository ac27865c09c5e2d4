"""Fields with a ttl: stale is told once, with the time since when; news and confirmations end it."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from pydantic import BaseModel

from pkv_agents import AgentSession, MemoryStore, Message, Shared, Tracked, TrackedState, TurnPlan
from tests.core.strategies import TAG

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Parcel(TrackedState):
    eta: Annotated[str, Tracked(ttl=timedelta(minutes=30))] = "14:00"
    carrier: str = "DHL"


class Desk:
    """A session whose clock is turned by hand; each request succeeds."""

    def __init__(self) -> None:
        self.time, self.store, self.messages = NOON, MemoryStore(), list[Message]()
        self.session = self.open()

    def open(self) -> AgentSession[Parcel]:
        return AgentSession(Parcel(), key="k", store=self.store, tag=TAG, clock=lambda: self.time)

    def ask(self, *, minutes: int) -> TurnPlan:
        self.time = NOON + timedelta(minutes=minutes)
        self.messages.append(Message("user", "when?"))
        made = self.session.plan(self.messages)
        self.session.commit(made)
        self.messages.append(Message("assistant", "soon"))
        return made

    def lines(self, *, minutes: int) -> list[str]:
        made = self.ask(minutes=minutes)
        return made.erratum.text.splitlines()[1:-1] if made.erratum is not None else []


STALE = 'eta: "14:00" (stale since "2026-01-01T12:30:00Z")'


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.ask(minutes=0)
    return desk


def test_it_is_told_once(desk: Desk) -> None:
    assert [desk.lines(minutes=at) for at in (29, 30, 31, 500)] == [[], [STALE], [], []]


def test_news_ends_it_and_its_time_counts_from_then(desk: Desk) -> None:
    assert desk.lines(minutes=40) == [STALE]
    desk.session.state.eta = "15:30"
    assert desk.lines(minutes=50) == ['eta: "15:30"']
    assert desk.lines(minutes=79) == []
    assert desk.lines(minutes=80) == ['eta: "15:30" (stale since "2026-01-01T13:20:00Z")']


def test_the_same_value_set_again_confirms_it(desk: Desk) -> None:
    desk.time = NOON + timedelta(minutes=20)
    desk.session.update({"eta": "14:00"})
    assert desk.lines(minutes=49) == []
    assert desk.lines(minutes=50) == ['eta: "14:00" (stale since "2026-01-01T12:50:00Z")']
    desk.session.update({"eta": "14:00"})
    assert desk.lines(minutes=51) == ['eta: "14:00"']


def test_neither_another_process_nor_a_new_baseline_makes_it_younger(desk: Desk) -> None:
    assert desk.lines(minutes=10) == []
    desk.session = desk.open()
    desk.session.rebase("tidy")
    assert "stale" not in desk.ask(minutes=20).system
    assert desk.lines(minutes=30) == [STALE]
    desk.session.rebase("tidy")
    assert STALE in desk.ask(minutes=40).system
    assert desk.lines(minutes=41) == []


def test_a_value_cannot_pass_for_stale(desk: Desk) -> None:
    desk.session.state.carrier = 'DHL" (stale since "2026-01-01T12:30:00Z'
    assert desk.lines(minutes=1) == ['carrier: "DHL\\" (stale since \\"2026-01-01T12:30:00Z"']


class Box(BaseModel):
    id: str
    eta: Annotated[str, Tracked(ttl=timedelta(minutes=30))] = "14:00"


class Truck(TrackedState):
    its: Annotated[list[Box], Tracked(key="id")] = [Box(id="a b"), Box(id="c")]
    stops: Annotated[list[str], Tracked(ttl=timedelta(minutes=30))] = ["x", "y"]


@pytest.mark.parametrize(
    ("patch", "renewed"),
    [
        ({'its["a b"].eta': "14:00"}, {'its["a b"].eta'}),
        ({'its["c"].eta': "14:00"}, {"its[c].eta"}),
        ({"its[c].eta": "14:00"}, {"its[c].eta"}),
        ({'its["c"]': {"eta": "14:00"}}, {"its[c].eta"}),
        ({"its": [Box(id="a b"), Box(id="c")]}, {'its["a b"].eta', "its[c].eta"}),
        ({'stops["0"]': "x"}, {"stops"}),
        ({"stops[1]": "y"}, {"stops"}),
    ],
)
def test_a_confirmation_in_any_spelling_at_inside_or_around_renews(patch: dict[str, object], renewed: set[str]) -> None:
    time = [NOON]
    session = AgentSession(Truck(), key="k", tag=TAG, clock=lambda: time[0])
    talk = [Message("user", "when?")]
    session.commit(session.plan(talk))
    time[0] = NOON + timedelta(minutes=20)
    session.update(patch)
    time[0] = NOON + timedelta(minutes=40)
    stale = {change.path for change in session.plan([*talk, Message("assistant", "1"), Message("user", "2")]).changes}
    assert stale == {'its["a b"].eta', "its[c].eta", "stops"} - renewed


def test_a_shared_text_of_several_lines_that_is_stale_in_a_new_head() -> None:
    class Shop(TrackedState):
        policy: Annotated[str, Shared(), Tracked(ttl=timedelta(minutes=30))] = "Be kind.\nRefund all."

    time = [NOON]
    session = AgentSession(Shop(), key="k", tag=TAG, clock=lambda: time[0])
    messages = [Message("user", "hi")]
    first = session.plan(messages)
    session.commit(first)
    assert first.system.startswith('<text path="policy">\nBe kind.\nRefund all.\n</text>\n')
    time[0] += timedelta(hours=1)
    session.rebase("the day is over")
    again = session.plan([*messages, Message("assistant", "hi"), Message("user", "and now?")])
    stale = r'policy: "Be kind.\nRefund all." (stale since "2026-01-01T12:30:00Z")'
    assert again.system.startswith(f"{stale}\n\n") and again.told["policy"] == stale.removeprefix("policy: ")
