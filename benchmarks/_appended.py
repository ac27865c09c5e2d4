"""What telling a change costs in characters, and how a transcript grows by it.

The state has twelve orders of four lines each. A general text diff of the rendered state stands beside the errata: with
one line of context, as `unified_diff` makes it, of the state as indented JSON (what is usually diffed) and as our own
lines. Where a change is deep in an order, the diff of JSON does not say whose it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import cast

from benchmarks._shop import Large, Words, new_state
from pkv_agents import (
    GENERIC,
    Ledger,
    Message,
    Snapshot,
    commit,
    diff,
    plan,
    render_erratum,
    snapshot,
)

TAG = "k7f3"
TURNS = 30
CHANGES = 300
EVERY = 50


@dataclass(frozen=True, slots=True)
class Wording:
    """How long one way of telling changes is.

    Attributes:
        way: Which.
        changes: How many changes were told, one a turn.
        characters: All that was appended.
        per_change: Characters a change, all in.
        longest_line: The longest line that tells a change; 0 where lines do not stand for changes.
        wrapper: Characters around the lines of one turn.
        deep: How many of the changes were inside an order's line.
        deep_named: How many of those are told with the order's id.
    """

    way: str
    changes: int
    characters: int
    per_change: float
    longest_line: int
    wrapper: int
    deep: int
    deep_named: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What stands in the transcript after so many changes.

    Attributes:
        changes: How many changes were made.
        errata: Characters of errata in the request.
        baseline: Characters of the baseline.
        most: The most characters of errata in any request so far.
        rebases: How often a new epoch began so far, each with a notice.
    """

    changes: int
    errata: int
    baseline: int
    most: int
    rebases: int


def changing_states(count: int, *, seed: int = 0) -> Iterator[tuple[Large, str, bool]]:
    """A state before and after each of so many changes: every second one is deep in an order.

    Yields:
        The state, the id of the changed order, whether the change is deep. The first has no change.
    """
    words = Words(Random(f"{seed}/appended"))
    state = cast(Large, new_state(words, large=True, clock=False))
    yield state.model_copy(deep=True), "", False
    for number in range(count):
        order = words.random.choice(state.orders)
        deep = number % 2 == 1
        if deep:
            words.random.choice(order.items).status = f"at stop {number}"
        else:
            order.status = f"at stop {number}"
        yield state.model_copy(deep=True), order.id, deep


def wordings(turns: int = TURNS) -> list[Wording]:
    """The same changes told three ways."""
    told: dict[str, list[tuple[str, str, bool]]] = {"errata": [], "diff of JSON": [], "diff of lines": []}
    states = list(changing_states(turns))
    for (before, _, _), (after, order, deep) in zip(states, states[1:], strict=False):
        old, new = snapshot(before), snapshot(after)
        told["errata"].append((render_erratum(diff(old, new), tag=TAG), order, deep))
        told["diff of JSON"].append((_diff(_indented(before), _indented(after)), order, deep))
        told["diff of lines"].append((_diff(_lines(old), _lines(new)), order, deep))
    return [_wording(way, texts) for way, texts in told.items()]


def _wording(way: str, texts: list[tuple[str, str, bool]]) -> Wording:
    characters = sum(len(text) for text, _, _ in texts)
    inner = [line for text, _, _ in texts for line in text.splitlines()[1:-1]] if way == "errata" else []
    deep = [(text, order) for text, order, is_deep in texts if is_deep]
    return Wording(
        way=way,
        changes=len(texts),
        characters=characters,
        per_change=round(characters / len(texts), 1),
        longest_line=max((len(line) for line in inner), default=0),
        wrapper=len(render_erratum((), tag=TAG)) if way == "errata" else 0,
        deep=len(deep),
        deep_named=sum(order in text for text, order in deep),
    )


def _diff(before: list[str], after: list[str]) -> str:
    return "\n".join(difflib.unified_diff(before, after, "state", "state", n=1, lineterm=""))


def _indented(state: Large) -> list[str]:
    return state.model_dump_json(indent=1).splitlines()


def _lines(state: Snapshot) -> list[str]:
    return [f"{path}: {text}" for path, text in state.leaves.items()]


def growth(changes: int = CHANGES, *, every: int = EVERY) -> list[Growth]:
    """The transcript after each so many changes, one a turn."""
    ledger: Ledger | None = None
    history, points = list[Message](), list[Growth]()
    most = rebases = 0
    for number, (state, _, _) in enumerate(changing_states(changes)):
        history.append(Message("user", f"And now? That is question {number}."))
        turn = plan(ledger, state, history, profile=GENERIC, instructions="Help the customer.", tag=TAG)
        ledger = commit(ledger, turn)
        history.append(Message("assistant", f"Noted, that was answer {number}."))
        errata = sum(len(insertion.text) for insertion in turn.insertions)
        most = max(most, errata)
        rebases += bool(turn.rebased and turn.notices)
        if number and number % every == 0:
            points.append(Growth(number, errata, len(turn.epoch.baseline_text), most, rebases))
    return points
