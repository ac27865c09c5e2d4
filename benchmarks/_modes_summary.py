"""The tables of `benchmarks.parity --modes`, and which targets are met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from statistics import mean, median
from typing import Any

from benchmarks._frame import table
from benchmarks._modes_amended import AmendedRow
from benchmarks._modes_edits import IN_SKILL, PLACES, EditRow
from benchmarks._modes_facts import FactRow
from benchmarks._modes_long import ToggleRow
from benchmarks._modes_results import ModeResults
from benchmarks._modes_splice import SpliceRow
from benchmarks._stats import boot

Tables = dict[str, list[dict[str, object]]]
EDITED = ("edits", "at_once")
"""The parts of edits, one an adapter."""


def summary_of(results: ModeResults) -> Tables:
    """The tables as data; only of parts that have rows."""
    made: Tables = {}
    for part in EDITED:
        made[part] = list(_edits(results.rows(part)))
        made[f"recovery_{part}"] = list(recovery(results.rows(part)))
    made["splice"] = list(_splices(results.rows("splice")))
    made["facts"] = list(_facts(results.rows("facts")))
    made["toggles"] = list(_thirds(results.rows("toggles")))
    made["amended"] = list(_amended(results.rows("amended")))
    made["continuations"] = [asdict(row) for row in results.rows("continuations")]
    return {name: rows for name, rows in made.items() if rows}


def summary_text(results: ModeResults, targets: Sequence[str] = ()) -> str:
    """The tables in words, and the targets."""
    pieces = [
        f"{part}, field {place} the policy: {found[0]} of {found[1]} pairs are right both ways with a clean prefill"
        for part in EDITED
        for place, found in results.pairs(part).items()
    ]
    for name, rows in summary_of(results).items():
        pieces.append(f"{name}\n{table(tuple(rows[0]), [tuple(row.values()) for row in rows])}")
    return "\n\n".join([*pieces, *(["\n".join(targets)] if targets else [])])


def flips(rows: Sequence[EditRow], place: str, arm: str) -> float | None:
    """The share of pairs that an arm flips; None where there is none."""
    some = [row.flips for row in rows if (row.place, row.arm) == (place, arm)]
    return mean(some) if some else None


def recovery(rows: Sequence[EditRow]) -> Iterator[dict[str, object]]:
    """Of each arm, what an edit inside a spliced skill flips beside the same edit in a clean context, on its cases."""
    spliced = {row.seed for row in rows if row.place == IN_SKILL}
    both = [row for row in rows if row.seed in spliced]
    for arm in dict.fromkeys(row.arm for row in both):
        clean, skill = flips(both, "before", arm), flips(both, IN_SKILL, arm)
        if clean is not None and skill is not None:
            yield {
                "arm": arm,
                "n": len(spliced),
                "clean": round(clean, 3),
                "in_skill": round(skill, 3),
                "differs": round(skill - clean, 3),
            }


def _edits(rows: Sequence[EditRow]) -> Iterator[dict[str, object]]:
    for (place, arm), some in _groups(rows, lambda row: (row.place, row.arm), (*PLACES, IN_SKILL)):
        named = [row.names_new for row in some if row.names_new is not None]
        yield {
            "adapter": some[0].adapter,
            "field": place,
            "arm": arm,
            "n": len(some),
            "names_new": round(mean(named), 3) if named else None,
            "flips": str(boot([row.flips for row in some])),
            "kl_median": round(median(row.kl for row in some), 4),
        }


def _splices(rows: Sequence[SpliceRow]) -> Iterator[dict[str, object]]:
    for (arm,), some in _groups(rows, lambda row: (row.arm,)):
        tool = [row.kl_tool for row in some]
        yield {
            "arm": arm,
            "n": len(some),
            "kl_end": round(mean(row.kl_end for row in some), 5),
            "kl_tool": round(mean(tool), 5),
            "median_tool": round(median(tool), 5),
            "worst_tool": round(max(tool), 4),
            "agrees": _of(row.agrees for row in some),
            "agrees_clear": _of(row.agrees for row in some if row.clear),
        }


def _facts(rows: Sequence[FactRow]) -> Iterator[dict[str, object]]:
    for (facts, blocks, seam), some in _groups(rows, lambda row: (row.facts, row.blocks, row.seam)):
        yield {
            "facts": facts,
            "blocks": blocks,
            "seam": seam,
            "n": len(some),
            "kl_tool": round(mean(row.kl_tool for row in some), 5),
            "agrees": _of(row.agrees for row in some),
            "agrees_where_right": _of(row.agrees for row in some if row.right),
        }


def _thirds(rows: Sequence[ToggleRow]) -> Iterator[dict[str, object]]:
    turns = max((row.turn for row in rows), default=-1) + 1
    size = turns // 3
    ends = {"first": (0, size), "middle": (size, turns - size), "last": (turns - size, turns)} if size else {}
    for third, (start, stop) in ends.items():
        some = [row for row in rows if start <= row.turn < stop]
        yield {
            "third": third,
            "turns": len(some),
            "clean_right": sum(row.clean for row in some),
            "ours_right": sum(row.ours for row in some),
            "agree": sum(row.ours == row.clean for row in some),
        }


def _amended(rows: Sequence[AmendedRow]) -> Iterator[dict[str, object]]:
    for (fields, told), some in _groups(rows, lambda row: (row.fields, row.told)):
        yield {
            "fields": fields,
            "told": told,
            "n": len(some),
            "tokens": round(mean(row.tokens for row in some)),
            "clean_right": sum(row.clean for row in some),
            "ours_right": sum(row.ours for row in some),
            "agree": sum(row.agrees for row in some),
        }


def _groups(
    rows: Sequence[Any], key: Callable[[Any], tuple[Any, ...]], first: Sequence[object] = ()
) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """Rows by a key, in the order in which keys come, or in the order of what the key begins with."""
    order: Mapping[tuple[Any, ...], int] = {one: at for at, one in enumerate(dict.fromkeys(map(key, rows)))}
    ranked = sorted(rows, key=lambda row: (first.index(key(row)[0]) if first else 0, order[key(row)]))
    for one, some in groupby(ranked, key):
        yield one, list(some)


def _of(found: Iterable[object]) -> str:
    some = [bool(one) for one in found]
    return f"{sum(some)}/{len(some)}"
