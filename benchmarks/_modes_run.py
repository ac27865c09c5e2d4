"""Runs the parts of `benchmarks.parity --modes`, and says what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from statistics import mean, median
from typing import Any

from benchmarks._frame import say, table
from benchmarks._modes import Pair, Place, Subject, divergence, pairs
from benchmarks._modes_long import continuation_rows, toggle_rows
from benchmarks._modes_splice import splice_rows
from benchmarks._stats import boot
from pkv_agents import OptionsError

PARTS = ("edits", "splice", "toggles", "continuations")
KEEP = 64


@dataclass(frozen=True, slots=True)
class EditRow:
    """One pair, one arm.

    Attributes:
        seed: The case.
        place: Where the state stands; `skill`: before the policy, both put in place as one skill.
        arm: How the field was changed.
        names_new: Whether the model then names the new value.
        flips: Whether it names the new value and takes the new tool, as the clean prefill does.
        kl: Divergence from the clean prefill where the value is named, in nats.
        margin: Logits between the two values.
    """

    seed: int
    place: str
    arm: str
    names_new: bool
    flips: bool
    kl: float
    margin: float


@dataclass(slots=True)
class ModeResults:
    """Everything that was measured so far."""

    rows: dict[str, list[Any]] = field(default_factory=lambda: {part: [] for part in PARTS})
    judged: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def data(self) -> dict[str, object]:
        """For the file."""
        return {
            "pairs": {place: {"judged": found[0], "drawn": found[1]} for place, found in self.judged.items()},
            "summary": summary_of(self),
            **{part: [asdict(row) for row in rows] for part, rows in self.rows.items()},
        }


def run_modes(
    subject: Subject,
    parts: Sequence[str],
    sizes: Mapping[str, int],
    results: ModeResults,
    *,
    keep: Callable[[], None],
    tell: Callable[[str], None] = say,
) -> None:
    """Runs parts, one after the other.

    Args:
        subject: The model.
        parts: Of `PARTS`.
        sizes: How much of each: pairs, worlds, turns, tokens.
        results: Filled as it goes.
        keep: Called after each row or group, to write the file.
        tell: Told each step.
    """
    made: dict[str, Callable[[], Iterator[tuple[str, list[Any]]]]] = {
        "edits": lambda: _edits(subject, sizes["pairs"], results),
        "splice": lambda: _splices(subject, sizes["worlds"]),
        "toggles": lambda: (("toggles", [row]) for row in toggle_rows(next(pairs(subject, "after")), sizes["turns"])),
        "continuations": lambda: (
            ("continuations", continuation_rows(pair, sizes["tokens"], keep=KEEP))
            for pair in islice(pairs(subject, "before"), sizes["continuations"])
        ),
    }
    for part in parts:
        started = time.perf_counter()
        for name, rows in made[part]():
            results.rows[name] += rows
            keep()
            tell(f"{part}: {len(results.rows[name])} rows, {time.perf_counter() - started:.0f} s")


def _edits(subject: Subject, count: int, results: ModeResults) -> Iterator[tuple[str, list[EditRow]]]:
    places: tuple[Place, ...] = ("before", "after")
    for place in places:
        found = results.judged.setdefault(place, [0, 0])
        for pair in islice(pairs(subject, place), count):
            found[1] += 1
            segments = subject.segments
            truth = pair.decide(segments.prefill(list(pair.new)).segment)
            base = pair.prefilled()
            old = pair.decide(segments.forward(base, pair.old[pair.turn :]).segment)
            if not (truth.names_new and truth.takes_new) or old.names_new or old.takes_new:
                continue  # a guess of the clean prefill says nothing about an edit
            found[0] += 1
            yield "edits", list(_arms(pair, base, place, truth.logits))
            if place == "before":
                try:
                    skill = pair.prefilled(as_skill=True)
                except OptionsError:
                    continue
                yield "edits", list(_arms(pair, skill, "skill", truth.logits))


def _arms(pair: Pair, base: Any, place: str, truth: Any) -> Iterator[EditRow]:
    for arm, make in pair.arms(base, keep=KEEP).items():
        found = pair.decide(make())
        flips = found.names_new and found.takes_new
        kl = divergence(truth, found.logits)
        yield EditRow(pair.case.seed, place, arm, found.names_new, flips, round(kl, 4), round(found.margin, 2))


def _splices(subject: Subject, count: int) -> Iterator[tuple[str, list[Any]]]:
    for pair in islice(pairs(subject, "after", largest=5), count):
        yield "splice", list(splice_rows(pair))


def summary_of(results: ModeResults) -> dict[str, list[dict[str, object]]]:
    """The tables as data."""
    edits: list[EditRow] = results.rows["edits"]
    made: dict[str, list[dict[str, object]]] = {"edits": [], "splice": [], "toggles": [], "continuations": []}
    for place in ("before", "after", "skill"):
        for arm in dict.fromkeys(row.arm for row in edits):
            rows = [row for row in edits if (row.place, row.arm) == (place, arm)]
            if rows:
                flips = boot([row.flips for row in rows])
                made["edits"].append(
                    {
                        "field": place,
                        "arm": arm,
                        "n": len(rows),
                        "names_new": round(mean(row.names_new for row in rows), 3),
                        "flips": str(flips),
                        "kl_median": round(median(row.kl for row in rows), 4),
                    }
                )
    for arm in dict.fromkeys(row.arm for row in results.rows["splice"]):
        rows = [row for row in results.rows["splice"] if row.arm == arm]
        clear = [row.agrees for row in rows if row.clear]
        made["splice"].append(
            {
                "arm": arm,
                "n": len(rows),
                "kl_end": round(mean(row.kl_end for row in rows), 5),
                "kl_tool": round(mean(row.kl_tool for row in rows), 5),
                "agrees": f"{sum(row.agrees for row in rows)}/{len(rows)}",
                "agrees_clear": f"{sum(clear)}/{len(clear)}",
            }
        )
    made["toggles"] = _thirds(results.rows["toggles"])
    made["continuations"] = [asdict(row) for row in results.rows["continuations"]]
    return made


def _thirds(rows: Sequence[Any]) -> list[dict[str, object]]:
    size = max(1, len(rows) // 3)
    parts = {"first": rows[:size], "middle": rows[size : len(rows) - size], "last": rows[len(rows) - size :]}
    return [
        {
            "third": name,
            "turns": len(part),
            "clean_right": sum(row.clean for row in part),
            "ours_right": sum(row.ours for row in part),
            "agree": sum(row.ours == row.clean for row in part),
        }
        for name, part in parts.items()
        if part and len(rows) >= 3
    ]


def summary_text(results: ModeResults) -> str:
    """The tables in words."""
    pieces: list[str] = [
        f"field {place} the policy: {found[0]} of {found[1]} pairs are right both ways with a clean prefill"
        for place, found in results.judged.items()
    ]
    for rows in summary_of(results).values():
        if rows:
            pieces.append(table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    return "\n\n".join(pieces)
