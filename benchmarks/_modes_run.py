"""Runs the parts of `benchmarks.parity --modes`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from benchmarks._frame import say
from benchmarks._modes import Subject, pair_of, shop_cases
from benchmarks._modes_amended import COUNTS, ORDERS, QUIET, amended_rows, amended_worlds
from benchmarks._modes_at_once import at_once_cases
from benchmarks._modes_edits import PLACES, edit_rows
from benchmarks._modes_facts import fact_rows
from benchmarks._modes_long import toggle_rows
from benchmarks._modes_results import PARTS, ModeResults, Part
from benchmarks._modes_splice import SKILLS, splice_rows
from benchmarks._modes_written import continuation_rows

KEEP, KEEP_AT_ONCE = 64, 16
"""Tokens that `selective` computes anew; policies of the second adapter are so short that 64 would be most of them."""
SIZES: Mapping[str, int] = {
    "pairs": 24,
    "at_once": 48,
    "worlds": 8,
    "facts": 12,
    "turns": 28,
    "long_runs": 2,
    "amended": 3,
    "fields": max(COUNTS),
    "continuations": 3,
    "tokens": 64,
    "written": 128,
}
"""How much of each part.

Pairs a place, of either adapter; worlds of splices and of facts; turns, and how many runs of them; worlds of amended
fields, and the most fields; prompts that are written on behind, tokens of their divergence, tokens written.
"""


@dataclass(frozen=True, slots=True)
class Loading:
    """A model, and what a part's file says of it."""

    subject: Subject
    identity: Mapping[str, str]
    machine: Mapping[str, object]


Load = Callable[[str], Loading]
"""Loads the model of an adapter: `shop` or `at_once`."""


def adapter_of(part: str) -> str:
    """Whose answers a part reads."""
    return "at_once" if part == "at_once" else "shop"


def run_modes(
    load: Load,
    parts: Sequence[str],
    sizes: Mapping[str, int],
    results: ModeResults,
    *,
    keep: Callable[[], None],
    tell: Callable[[str], None] = say,
) -> None:
    """Runs parts, one after the other.

    Args:
        load: Loads a model when the first part needs it.
        parts: Of `PARTS`.
        sizes: How much of each; see `SIZES`.
        results: Filled as it goes; a part begins anew.
        keep: Called after each row or group, to write the file.
        tell: Told each step.
    """
    loaded: dict[str, Loading] = {}
    for name in parts:
        adapter = adapter_of(name)
        if adapter not in loaded:
            loaded[adapter] = load(adapter)
        model = loaded[adapter]
        results.forget_others(name, model.identity, [other for other in PARTS if adapter_of(other) == adapter])
        part, started = results.begin(name), time.perf_counter()
        about = {"identity": dict(model.identity), "machine": dict(model.machine), "sizes": dict(sizes)}
        for rows in _MADE[name](model.subject, sizes, part):
            part.rows += rows
            seconds = time.perf_counter() - started
            part.about = {**about, "seconds": round(seconds)}
            keep()
            tell(f"{name}: {len(part.rows)} rows, {seconds:.0f} s")


Rows = Iterator[Sequence[Any]]
"""Rows in groups, each of which is kept as soon as it is there."""


def _edits(subject: Subject, sizes: Mapping[str, int], part: Part) -> Rows:
    for place in PLACES:
        found = part.pairs.setdefault(place, [0, 0])
        yield from edit_rows(subject, islice(shop_cases(), sizes["pairs"]), place, found, keep=KEEP)


def _at_once(subject: Subject, sizes: Mapping[str, int], part: Part) -> Rows:
    for place in PLACES:
        found = part.pairs.setdefault(place, [0, 0])
        yield from edit_rows(subject, islice(at_once_cases(), sizes["at_once"]), place, found, keep=KEEP_AT_ONCE)


def _splices(subject: Subject, sizes: Mapping[str, int], part: Part) -> Rows:
    for case in islice(shop_cases(fewest=SKILLS, largest=SKILLS + 1), sizes["worlds"]):
        yield splice_rows(pair_of(case, subject, "after"))


def _facts(subject: Subject, sizes: Mapping[str, int], part: Part) -> Rows:
    for case in islice(shop_cases(), sizes["facts"]):
        yield list(fact_rows(pair_of(case, subject, "after")))


def _toggles(subject: Subject, sizes: Mapping[str, int], part: Part) -> Rows:
    for case in islice(shop_cases(), sizes["long_runs"]):
        for row in toggle_rows(pair_of(case, subject, "after"), sizes["turns"]):
            yield [row]


def _amended(subject: Subject, sizes: Mapping[str, int], part: Part) -> Rows:
    counts = [fields for fields in COUNTS if fields <= sizes["fields"]]
    orders = max(QUIET + 1, -(-ORDERS * sizes["fields"] // max(COUNTS)))
    for drawn in islice(amended_worlds(orders=orders), sizes["amended"]):
        yield list(amended_rows(subject, drawn, counts))


def _continuations(subject: Subject, sizes: Mapping[str, int], part: Part) -> Rows:
    for case in islice(shop_cases(), sizes["continuations"]):
        pair = pair_of(case, subject, "before")
        yield list(continuation_rows(pair, tokens=sizes["tokens"], written=sizes["written"], keep=KEEP))


_MADE: Mapping[str, Callable[[Subject, Mapping[str, int], Part], Rows]] = {
    "edits": _edits,
    "at_once": _at_once,
    "splice": _splices,
    "facts": _facts,
    "toggles": _toggles,
    "amended": _amended,
    "continuations": _continuations,
}
