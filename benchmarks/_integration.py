"""One conversation for every framework: what is said, what changes, which tools run, and what goes wrong on the way.

Thirty turns of a support agent, with twelve changes of the state (six by the application, six by tools), three steps of
parallel tool calls, one call that fails and is made again, one fork that goes back in time, and one resume in a new
process. All values are new ones, so that nothing is cached by accident. Nothing here knows a framework: each one's part
(`_integration_langchain`, ...) drives its own agents through it and hands back the payloads that went out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol

from benchmarks._shop import Large, Words, new_state
from benchmarks._traces import policy_text
from pkv_agents import Profile

FORK_FROM, FORK_AT, RESUME_AT, FAILS_AT = 8, 12, 20, 11
Arm = Literal["ours", "rewrite_late", "rewrite_early"]
ARMS: tuple[Arm, ...] = ("ours", "rewrite_late", "rewrite_early")
Part = Literal["first", "second", "whole"]
"""Up to the resume, from it on in another process, or all in one go."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. `look_up` reads an order; `set_status` changes the state."""

    name: Literal["look_up", "set_status"]
    id: str
    arguments: dict[str, str]

    @property
    def result(self) -> str:
        """What the tool answers."""
        return Words(Random(self.id)).text(80)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn.

    Attributes:
        number: Its place in the conversation, from 0.
        text: What the user says.
        answer: What the model answers in the end.
        patch: What the application changes before it.
        steps: What the model calls before it answers; the calls of one step run in parallel.
        fails: The provider answers the turn's first request with an error, and the turn is taken up again.
        forked: It belongs to the fork.
    """

    number: int
    text: str
    answer: str
    patch: dict[str, str] = field(default_factory=dict[str, str])
    steps: tuple[tuple[Call, ...], ...] = ()
    fails: bool = False
    forked: bool = False


@dataclass(frozen=True, slots=True)
class Trip:
    """The whole conversation.

    Attributes:
        policy: The instructions.
        turns: The turns of the main branch.
        fork: Turns that go on from the moment after turn `FORK_FROM`, taken after turn `FORK_AT`; then the main branch
            goes on. Turn `RESUME_AT` is the first one of the new process.
    """

    policy: str
    turns: tuple[Turn, ...]
    fork: tuple[Turn, ...]


def new_shop() -> Large:
    """The state at the start."""
    state = new_state(Words(Random("integration/state")), large=True, clock=False)
    assert isinstance(state, Large)
    return state


def patch_of(name: str, arguments: Mapping[str, str]) -> dict[str, str]:
    """What a tool call changes."""
    return {f"orders[{arguments['order_id']}].status": arguments["status"]} if name == "set_status" else {}


def make_trip() -> Trip:
    """The conversation; the same each time."""
    words = Words(Random("integration/trip"))

    def look(call_id: str) -> Call:
        return Call("look_up", call_id, {"order_id": f"W44{words.random.randint(10, 11)}"})

    def change(call_id: str) -> Call:
        order = f"W44{words.random.randint(0, 9):02}"
        return Call("set_status", call_id, {"order_id": order, "status": f"{words.word()} {call_id}"})

    steps: dict[int, tuple[tuple[Call, ...], ...]] = {
        4: ((look("c4a"),), (change("c4b"),)),
        6: ((look("c6a"),),),
        9: ((look("c9a"), change("c9b"), look("c9c")),),
        13: ((change("c13a"),),),
        18: ((change("c18a"), change("c18b")), (look("c18c"),)),
        23: ((look("c23a"), change("c23b")),),
        27: ((look("c27a"),),),
    }
    patches = {
        2: {"customer.street": "a new street 2"},
        7: {"orders[W4401].status": "delayed 7"},
        FAILS_AT: {"customer.tier": "tier 11"},
        16: {"orders[W4403].eta": "2026-12-16"},
        21: {"orders[W4405].items[I1].status": "returned 21"},
        26: {"customer.note": "a note of turn 26"},
    }

    def turn(number: int, patch: dict[str, str] | None, *, forked: bool = False) -> Turn:
        text, answer = words.text(words.random.randint(20, 60)), words.text(words.random.randint(30, 90))
        made = () if forked else steps.get(number, ())
        return Turn(number, text, answer, patch or {}, made, number == FAILS_AT and not forked, forked)

    turns = tuple(turn(number, patches.get(number)) for number in range(30))
    fork = (turn(FORK_FROM + 1, {"customer.tier": "forked 9"}, forked=True), turn(FORK_FROM + 2, None, forked=True))
    return Trip(policy_text(), turns, fork)


@dataclass(frozen=True, slots=True)
class Capture:
    """One request that went out.

    Attributes:
        body: The exact payload, as JSON data.
        turn: The turn that it belongs to.
        forked: It belongs to the fork.
        rebased: Why a new epoch began with it, as reported; None where none did.
        answered: The provider answered; False for the call that failed.
    """

    body: dict[str, Any]
    turn: int
    forked: bool = False
    rebased: str | None = None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Simulated:
    """The cache behind a model.

    Attributes:
        profile: What is known of it.
        slots: So many slots with one prompt each, as llama.cpp has; None: what the profile describes.
    """

    profile: Profile
    slots: int | None = None


class Framework(Protocol):
    """What a framework's part offers: a module with these two functions."""

    def models(self) -> Mapping[str, Simulated]:
        """The models whose packages are installed, by name, each with its cache."""
        ...

    def converse(self, name: str, arm: Arm, part: Part, folder: Path) -> list[Capture]:
        """Drive an agent through (a part of) the conversation.

        Args:
            name: One of `models()`.
            arm: Ours, or one that writes the system prompt anew, the state behind the policy (late) or before it.
            part: Which part. The second continues from what the first left in the folder.
            folder: For what must outlive the process.

        Returns:
            The requests, in order.
        """
        ...
