"""Checks of whole sessions: what goes on through the store says what it would have said in one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel

from .._stored import FORMAT, SessionStore
from ..errata import new_tag
from ..errors import ConflictError, LedgerError
from ..keyed import KeyedList
from ..markers import Hidden, Tracked
from ..messages import Message
from ..profiles import OPENAI
from ..session import AgentSession
from ..state import TrackedState
from ..wire import wire
from ._expect import expect, must_load

MakeStore = Callable[[], SessionStore]


class _Order(BaseModel):
    id: str
    status: str


class _Shop(TrackedState):
    customer: str = "Zoë 🙂"
    orders: Annotated[KeyedList[_Order], Tracked(key="id")] = KeyedList([_Order(id="4471", status="in transit")])
    secret: Annotated[str, Hidden()] = "never stored"


TURNS: tuple[tuple[str, dict[str, object]], ...] = (
    ("Where is my order?", {}),
    ("And now?", {"orders[4471].status": "delivered"}),
    ("¿Seguro? 🙂", {}),
    ("My name changed.", {"customer": 'O\'Hara </state> "x" \u0000'}),
    ("And now?", {"orders[4471].status": "in transit", "customer": "Zoë 🙂"}),
)
"""What the user says, and what has changed by then."""


def _session(store: SessionStore | None, key: str, state: _Shop, tag: str) -> AgentSession[_Shop]:
    return AgentSession(state, key=key, instructions="Be kind. 日本", store=store, profile=OPENAI, tag=tag)


def _say(session: AgentSession[_Shop], messages: list[Message], number: int) -> tuple[Message, ...]:
    """One recorded turn: its wire form."""
    text, patch = TURNS[number]
    session.update(patch)
    messages.append(Message("user", text))
    turn = session.plan(messages)
    sent = wire(turn, messages)
    session.commit(turn, {"input_tokens": 10, "output_tokens": 1})
    messages.append(Message("assistant", f"answer {number}"))
    return sent


def a_crash_between_plan_and_commit(make_store: MakeStore, prefix: str) -> None:
    """A turn that was planned and never recorded changes nothing, and is planned the same by whoever comes next."""
    key, tag, messages = f"{prefix}key", new_tag(), list[Message]()
    first = _session(make_store(), key, _Shop(), tag)
    _say(first, messages, 0)
    before = must_load(make_store(), key)
    state = first.update(TURNS[1][1])
    messages.append(Message("user", TURNS[1][0]))
    planned = wire(first.plan(messages), messages)
    expect(must_load(make_store(), key) == before, "a plan changed the stored record")
    again = _session(make_store(), key, state, tag)
    turn = again.plan(messages)
    expect(wire(turn, messages) == planned, "after a crash the same turn is planned in another form")
    again.commit(turn)
    expect(must_load(make_store(), key).version == before.version + 1, "the turn was not recorded once")


def a_conversation_in_turns(make_store: MakeStore, prefix: str) -> None:
    """Each turn by another process sends the bytes that one process without a store would have sent."""
    key, tag = f"{prefix}key", new_tag()
    alone, spoken = _session(None, key, _Shop(), tag), list[Message]()
    state, messages = _Shop(), list[Message]()
    for number in range(len(TURNS)):
        session = _session(make_store(), key, state, tag)
        expected, got = _say(alone, spoken, number), _say(session, messages, number)
        expect(got == expected, f"turn {number + 1} of a session that went through the store has another wire form")
        state = session.state
        stored = json.dumps(must_load(make_store(), key).data)
        expect("never stored" not in stored, "the store holds a Hidden value")
    report = _session(make_store(), key, state, tag).report()
    expect(report.total_turns == len(TURNS), f"{report.total_turns} turns were counted instead of {len(TURNS)}")
    expect(report.usage.output == len(TURNS), f"{report.usage.output} output tokens instead of {len(TURNS)}")


def two_live_sessions(make_store: MakeStore, prefix: str) -> None:
    """Of two processes that told different things, the slower one is told, takes over what was kept, and goes on."""
    key, tag, messages = f"{prefix}key", new_tag(), [Message("user", "hello")]
    one = _session(make_store(), key, _Shop(), tag)
    two = _session(make_store(), key, _Shop(), tag)
    slow = two.plan(messages)
    one.update(TURNS[1][1])
    turn = one.plan(messages)
    sent = wire(turn, messages)
    one.commit(turn)
    try:
        two.commit(slow)
    except ConflictError:
        pass
    else:
        expect(False, "two processes recorded different first turns, and neither was told")
    expect(two.ledger == one.ledger, "a session that was told of a conflict did not take over what was recorded")
    messages += [Message("assistant", "hi"), Message("user", "and now?")]
    turn = two.plan(messages)
    again = wire(turn, messages)
    expect(again[: len(sent)] == sent, "the other process changed what was sent already")
    expect("in transit" in "".join(message.text for message in again[len(sent) :]), "its own state was not told")
    two.commit(turn)
    expect(must_load(make_store(), key).version == 2, "the second turn was not recorded once")


def an_unknown_future_format(make_store: MakeStore, prefix: str) -> None:
    """A record of a newer library is refused, and is still there afterwards."""
    key = f"{prefix}key"
    future = {"format": FORMAT, "version": 999, "ledger": {"format": "?", "epochs": "new"}, "new": ["🙂"]}
    make_store().save(key, future, expected_version=0)
    try:
        _session(make_store(), key, _Shop(), new_tag())
    except LedgerError:
        pass
    else:
        expect(False, "a session took a record of a newer library for one of its own")
    found = must_load(make_store(), key)
    expect((found.data, found.version) == (future, 1), "a record of a newer library was changed")
