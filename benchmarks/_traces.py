"""Traces: whole conversations of an agent, request by request, with what was true at each.

Made from a seed and nothing else, so that two runs on two machines compare. A trace says nothing about where the state
is told; that is what `_placements` adds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import product
from random import Random
from typing import Literal

from benchmarks._shop import START, STATUSES, LargeWithClock, SmallWithClock, Words, assignments, new_state
from pkv_agents import Message, Snapshot, ToolCall, TrackedState, snapshot

POLICY_TOKENS, TOOLS_TOKENS = 2200, 1500
SHORT, LONG = 6, 40

Changes = Literal["rare", "frequent"]
Values = Literal["recurring", "distinct"]
Size = Literal["small", "large"]
Gaps = Literal["warm", "cold"]
CHANGES: tuple[Changes, ...] = ("rare", "frequent")
VALUES: tuple[Values, ...] = ("recurring", "distinct")
STATES: tuple[Size, ...] = ("small", "large")
GAPS: tuple[Gaps, ...] = ("warm", "cold")


@dataclass(frozen=True, slots=True)
class Step:
    """One request.

    Attributes:
        turn: The user's turn that it belongs to, from 0.
        count: How many messages of the history it has.
        state: What is true.
        data: The same as compact JSON.
        at: Seconds from the start.
    """

    turn: int
    count: int
    state: Snapshot
    data: str
    at: float


@dataclass(frozen=True, slots=True)
class Trace:
    """One conversation.

    Attributes:
        tools: The tools' text, which stands before everything.
        policy: The instructions.
        history: All messages.
        steps: All requests.
    """

    tools: str
    policy: str
    history: tuple[Message, ...]
    steps: tuple[Step, ...]

    @property
    def turns(self) -> int:
        """How often the user spoke."""
        return self.steps[-1].turn + 1


def step_of(turn: int, count: int, state: TrackedState, at: float) -> Step:
    """A request at this moment; the state may change afterwards."""
    return Step(turn, count, snapshot(state), state.model_dump_json(exclude_none=True), at)


@dataclass(frozen=True, slots=True)
class Cell:
    """What a conversation is like.

    Attributes:
        changes: `rare`: one field in eight turns; `frequent`: one to three every turn.
        values: `recurring`: the state goes round a few versions; `distinct`: no value comes twice.
        turns: Its length.
        state: `small` or `large`.
        gaps: `warm`: the user answers within a minute, `cold`: every fourth answer takes six to seventy minutes.
        clock: The state tells the time, to the minute.
    """

    changes: Changes
    values: Values
    turns: int
    state: Size
    gaps: Gaps = "warm"
    clock: bool = False

    @property
    def name(self) -> str:
        """For instance `frequent/distinct/40/large/warm`."""
        parts = [self.changes, self.values, str(self.turns), self.state, self.gaps]
        return "/".join([*parts, "clock"] if self.clock else parts)


def cells() -> tuple[Cell, ...]:
    """All cells; those with a clock vary only in what matters to it."""
    plain = product(CHANGES, VALUES, (SHORT, LONG), STATES, GAPS)
    timed = product(CHANGES, VALUES[1:], (SHORT, LONG), STATES, GAPS[:1], (True,))
    return (*(Cell(*cell) for cell in plain), *(Cell(*cell) for cell in timed))


def changer(cell: Cell, state: TrackedState, words: Words) -> Callable[[int], None]:
    """Makes the changes of a turn."""
    random, may_change = words.random, assignments(state, words)
    ring = random.sample(may_change, 3)
    moving = random.randint(1, 3)

    def change(turn: int) -> None:
        number = turn if cell.changes == "frequent" else turn // 8 + 1
        if turn == 0 or (cell.changes == "rare" and turn % 8 != 3):
            return
        if cell.values == "recurring":  # the whole state is one of three versions
            for index, assign in enumerate(ring):
                assign(f"{STATUSES[(number if index < moving else 0) % 3]} {index}")
            return
        size = random.randint(1, 3) if cell.changes == "frequent" else 1
        for index, assign in enumerate(random.sample(may_change, size)):
            assign(f"{words.word()} {turn}.{index}")

    return change


def make_trace(cell: Cell, *, seed: int = 0) -> Trace:
    """One conversation of this kind, the same for the same seed."""
    words = Words(Random(f"{seed}/{cell.name}"))
    random, state = words.random, new_state(words, large=cell.state == "large", clock=cell.clock)
    change = changer(cell, state, words)
    history, steps, at = list[Message](), list[Step](), 0.0

    def ask(turn: int) -> None:
        if isinstance(state, SmallWithClock | LargeWithClock):
            state.now = START + timedelta(minutes=at // 60)
        steps.append(step_of(turn, len(history), state, at))

    for turn in range(cell.turns):
        history.append(Message("user", words.text(random.randint(15, 120))))
        calls = random.choice((0, 1, 1, 2))
        when = random.randint(0, calls)  # the user's doing, or a tool's
        for call in range(calls):
            if call == when:
                change(turn)
            ask(turn)
            history += _tool_use(f"{turn}.{call}", words)
            at += random.uniform(2, 8)
        if when == calls:
            change(turn)
        ask(turn)
        history.append(Message("assistant", words.text(random.randint(30, 200))))
        at += _gap(cell, random)
    return Trace(tools_text(), policy_text(), tuple(history), tuple(steps))


def _tool_use(number: str, words: Words) -> Iterator[Message]:
    arguments = {"order_id": words.word(), "reason": words.text(words.random.randint(4, 16))}
    yield Message("assistant", "", tool_calls=(ToolCall("update_order", arguments, number),))
    yield Message("tool", words.text(words.random.randint(60, 600)), tool_call_id=number)


def _gap(cell: Cell, random: Random) -> float:
    if cell.gaps == "cold" and random.random() < 0.25:
        return random.uniform(360, 4200)
    return random.uniform(10, 58)


@cache
def policy_text() -> str:
    """The instructions of every synthetic trace."""
    return Words(Random("policy")).text(POLICY_TOKENS)


@cache
def tools_text() -> str:
    """The tools of every synthetic trace."""
    words = Words(Random("tools"))
    tools = [{"name": words.word(), "description": words.text(90)} for _ in range(16)]
    return json.dumps(tools)[: 4 * TOOLS_TOKENS]
