"""The rows of the wire benchmark, what is read from them, and how that is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks._appended import Growth, Wording
from benchmarks._frame import say, table
from benchmarks._placements import ARMS

TOTAL_TARGET, CELL_TARGET, LISTED = 1.01, 1.10, 1.01


@dataclass(frozen=True, slots=True)
class Row:
    """One arm in one cell at one provider, all its conversations together.

    Attributes:
        profile: The provider.
        cell: The kind of conversation.
        arm: Where the state stands.
        conversations: How many there are.
        turns: How often the user spoke.
        requests: How many requests were sent.
        input_tokens: Their tokens.
        first_tokens: Those of the first request of each conversation.
        cached_share: The part that was read from the cache.
        cost: Their price, in full-priced input tokens.
        cost_per_turn: The same for a turn.
        appended_tokens: Tokens that told the state outside of the head, each counted where it was first sent.
        rebases: How often a new epoch began.
    """

    profile: str
    cell: str
    arm: str
    conversations: int
    turns: int
    requests: int
    input_tokens: int
    first_tokens: int
    cached_share: float
    cost: float
    cost_per_turn: float
    appended_tokens: int
    rebases: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A cell in which another arm costs less than ours."""

    profile: str
    cell: str
    best: str
    ratio: float
    cost: float
    best_cost: float
    reason: str


def totals(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """What each arm costs at each provider, over all cells."""
    summed: dict[str, dict[str, float]] = {}
    for row in rows:
        arms = summed.setdefault(row.profile, dict.fromkeys(ARMS, 0.0))
        arms[row.arm] += row.cost
    return summed


def losses(rows: Sequence[Row]) -> list[Loss]:
    """The cells in which another arm costs less than ours, the worst first."""
    by_cell: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        by_cell.setdefault((row.profile, row.cell), {})[row.arm] = row
    found: list[Loss] = []
    for (profile, cell), arms in by_cell.items():
        own, best = arms["ours"], min(arms.values(), key=lambda row: row.cost)
        if best.cost < own.cost:
            ratio = round(own.cost / best.cost, 4)
            found.append(Loss(profile, cell, best.arm, ratio, own.cost, best.cost, reason_of(own, best)))
    return sorted(found, key=lambda loss: -loss.ratio)


def reason_of(own: Row, best: Row) -> str:
    """What ours pays for and the other arm does not: new epochs, a longer head, or errata in the history."""
    if own.rebases:
        return "1 rebase" if own.rebases == 1 else f"{own.rebases} rebases"
    head = own.first_tokens - best.first_tokens
    more = (own.input_tokens - best.input_tokens) / own.requests
    if head > 0 and 2 * head >= more * own.conversations:
        return f"head +{head // own.conversations}"
    return f"history +{more - head / own.conversations:.0f}"


def report(rows: Sequence[Row], found: Sequence[Loss]) -> None:
    """The tables of costs."""
    say()
    say("Cost of all cells in thousands of full-priced input tokens, and beside the best arm")
    lines: list[list[str]] = []
    for profile, arms in totals(rows).items():
        best = min(arms.values())
        lines.append([profile, *(f"{cost / 1000:,.0f} {cost / best:.2f}" for cost in arms.values())])
    say(table(["profile", *ARMS], lines))
    say()
    say("Cached share of all input tokens")
    lines = []
    for profile in totals(rows):
        own = [row for row in rows if row.profile == profile]
        lines.append([profile, *(_share([row for row in own if row.arm == arm]) for arm in ARMS)])
    say(table(["profile", *ARMS], lines))
    say()
    listed = [loss for loss in found if loss.ratio > LISTED]
    cells_in_all = len({(row.profile, row.cell) for row in rows})
    say(f"Another arm costs less than ours in {len(found)} of {cells_in_all} cells, by more than 1 % in {len(listed)}")
    if listed:
        lines = [[f"{loss.ratio:.3f}", loss.profile, loss.cell, loss.best, loss.reason] for loss in listed]
        say(columns(["ratio", "profile", "cell", "best arm", "reason"], lines))
    say()
    worst = max(arms["ours"] / min(arms.values()) for arms in totals(rows).values())
    say(f"all cells: {worst:.3f} of the best arm at worst, {_met(worst <= TOTAL_TARGET)} ({TOTAL_TARGET})")
    most = found[0].ratio if found else 1.0
    say(f"one cell:  {most:.3f} of the best arm at worst, {_met(most <= CELL_TARGET)} ({CELL_TARGET})")


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, all to the left."""
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (headers, *rows))
    return "\n".join(lines)


def _share(rows: Sequence[Row]) -> str:
    tokens = sum(row.input_tokens for row in rows)
    return f"{100 * sum(row.cached_share * row.input_tokens for row in rows) / tokens:.1f} %"


def _met(is_met: bool) -> str:
    return "target met" if is_met else "target missed"


def report_appended(ways: Sequence[Wording], points: Sequence[Growth]) -> None:
    """The tables of characters."""
    say()
    say("Characters appended to tell one change a turn, in 12 orders of 4 lines each")
    headers = ["", "changes", "a change", "longest line", "wrapper", "deep", "deep and named"]
    lines: list[list[object]] = []
    for way in ways:
        around = [way.longest_line or "", way.wrapper or ""]
        lines.append([way.way, way.changes, f"{way.per_change:.1f}", *around, way.deep, way.deep_named])
    say(table(headers, lines))
    say()
    say("Characters of errata in the request as changes go on")
    headers = ["changes", "errata", "most so far", "baseline", "rebases"]
    say(table(headers, [(at.changes, at.errata, at.most, at.baseline, at.rebases) for at in points]))
