"""What ways to change a cache should come to, and whether they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean

from benchmarks._modes_edits import EditRow
from benchmarks._modes_long import ToggleRow
from benchmarks._modes_results import ModeResults
from benchmarks._modes_splice import SpliceRow
from benchmarks._modes_summary import EDITED, flips, recovery

MOST, LEAST = 0.1, 0.85
"""Shares of flips: what an edit that does not reach the decision may come to, and what one that does must."""
FLIPS: Sequence[tuple[str, str, bool]] = (
    ("before", "stale", False),
    ("before", "in_place", False),
    ("before", "erratum", True),
    ("after", "in_place", True),
)
"""Where the field stands, the arm, and whether it is to flip the decision."""
NEAR = 0.1
"""How far an edit in a spliced skill may stay behind the same edit in a clean context."""
KL = 0.005
"""Largest divergence of a splice from a clean prefill, a mean in nats."""


def targets_of(results: ModeResults) -> list[str]:
    """The targets of the parts that were measured, each with its number and whether it is met."""
    said: list[str] = []
    for part in EDITED:
        rows: Sequence[EditRow] = results.rows(part)
        said += (f"{part}: {line}" for line in (*_flips(rows), *_recovery(rows)))
    said += _splices(results.rows("splice"))
    said += _thirds(results.rows("toggles"))
    return said


def _flips(rows: Sequence[EditRow]) -> Iterator[str]:
    for place, arm, wanted in FLIPS:
        share = flips(rows, place, arm)
        if share is not None:
            bound = f"at least {LEAST}" if wanted else f"at most {MOST}"
            yield (
                f"field {place} the policy, {arm} flips {share:.2f}, {bound}: "
                f"{_met(share >= LEAST if wanted else share <= MOST)}"
            )


def _recovery(rows: Sequence[EditRow]) -> Iterator[str]:
    for row in recovery(rows):
        differs = float(str(row["differs"]))
        yield f"{row['arm']} in a spliced skill, {differs:+.2f} of flips, within {NEAR}: {_met(abs(differs) <= NEAR)}"


def _splices(rows: Sequence[SpliceRow]) -> Iterator[str]:
    for arm in dict.fromkeys(row.arm for row in rows):
        if not arm.startswith(("control", "cut")):
            some = [row for row in rows if row.arm == arm]
            end, tool = (mean(kls) for kls in zip(*((row.kl_end, row.kl_tool) for row in some), strict=True))
            agree = all(row.agrees for row in some if row.clear)
            yield (
                f"splice, {arm}: divergence {end:.4f} at the end and {tool:.4f} at the tool, at most {KL}: "
                f"{_met(end <= KL)} and {_met(tool <= KL)}; clear decisions agree: {_met(agree)}"
            )


def _thirds(rows: Sequence[ToggleRow]) -> Iterator[str]:
    turns = max((row.turn for row in rows), default=-1) + 1
    if size := turns // 3:
        first, last = ([r for r in rows if r.turn < size], [r for r in rows if r.turn >= turns - size])
        for words, shares in (
            ("agree with the clean prefill", [mean(row.ours == row.clean for row in part) for part in (first, last)]),
            ("follow the errata", [mean(row.ours for row in part) for part in (first, last)]),
        ):
            yield (
                f"toggles: {shares[0]:.2f} of the turns in the first third {words}, {shares[1]:.2f} in the last, "
                f"no less: {_met(shares[1] >= shares[0])}"
            )


def _met(met: bool) -> str:
    return "met" if met else "missed"
