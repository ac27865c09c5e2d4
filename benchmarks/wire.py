"""What does it cost to tell an agent its state, by where in the request it stands?

    python -m benchmarks.wire [--quick] [--json FILE] [--rendering json|lines] [--tau2 DIR]

Whole conversations of an agent with tools are sent, request by request, to a simulated cache of each provider. Five
arms put the state in five places (`_placements` says which, and where cache markers stand). A cell is a kind of
conversation: changes rare or frequent, values that recur or never do, 6 or 40 turns, ten fields or a customer with a
dozen orders, answers within a minute or some after an hour, with a clock or without. Costs are in full-priced input
tokens; where a profile has no price (a server of one's own) a cached token costs nothing: the cost is what is computed.

The target for `ours`: at most 1 % above the best arm over all cells together, and at most 10 % in any one cell. Every
cell that another arm wins by more than 1 % is listed, with what ours pays for there: rebases, so many tokens more in
the head of a conversation, or so many more in the history of a request.

`--tau2` adds a cell of real data: a folder with the db.json, policy.md, tools.json and tasks.json of tau2-bench's
retail domain. The state is the customer's profile and orders; a task's own actions change it.

Last: what a change costs in characters beside a text diff, and how far a transcript grows over 300 of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks._appended import Growth, Wording, growth, wordings
from benchmarks._frame import Pace, options_parser, run_benchmark, say, table, tenth, write_json
from benchmarks._placements import ARMS, Encoder, Rendering, Setting
from benchmarks._tau2 import tau2_traces
from benchmarks._traces import Trace, cells, make_trace
from pkv_agents import CacheSim, Profile, profile_for

FORMAT = 1
PROVIDERS = {
    "openai gpt-5.1": ("openai", "gpt-5.1"),
    "openai gpt-5.6": ("openai", "gpt-5.6"),
    "anthropic opus 5": ("anthropic", "claude-opus-5"),
    "anthropic sonnet 4.5": ("anthropic", "claude-sonnet-4-5"),
    "bedrock sonnet 4.5": ("bedrock", "anthropic.claude-sonnet-4-5"),
    "gemini 2.5 pro": ("gemini", "gemini-2.5-pro"),
    "deepseek chat": ("deepseek", "deepseek-chat"),
    "openrouter sonnet 4.5": ("openrouter", "anthropic/claude-sonnet-4.5"),
    "vllm": ("vllm", ""),
    "sglang": ("sglang", ""),
    "llama.cpp": ("llama.cpp", ""),
    "local": ("local", ""),
}
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


def profiles() -> dict[str, Profile]:
    """Each provider whose cache is known."""
    known: dict[str, Profile] = {}
    for named, (provider, model) in PROVIDERS.items():
        profile, notices = profile_for(provider, model)
        if any(notice.code == "unknown_model" for notice in notices):
            continue
        if profile.read_multiplier is None:
            profile = replace(profile, read_multiplier=0.0)
        known[named] = profile
    return known


def row_of(
    named: str, profile: Profile, cell: str, arm: str, traces: Sequence[Trace], encode: Encoder, rendering: Rendering
) -> Row:
    """Send the conversations of a cell in one arm, each to an empty cache."""
    requests = tokens = first = read = appended = rebases = 0
    cost = 0.0
    for trace in traces:
        sim = CacheSim(profile, slots=1 if profile.name == "llama.cpp" else None)
        for number, sent in enumerate(ARMS[arm](Setting(trace, profile, encode, rendering))):
            outcome = sim.run(sent.request)
            requests += 1
            tokens += len(sent.request.tokens)
            first += 0 if number else len(sent.request.tokens)
            read += outcome.read
            cost += outcome.cost(profile)
            appended += sent.appended
            rebases += sent.rebased is not None
    turns = sum(trace.turns for trace in traces)
    share, per_turn = round(read / tokens, 4), round(cost / turns, 1)
    return Row(
        profile=named,
        cell=cell,
        arm=arm,
        conversations=len(traces),
        turns=turns,
        requests=requests,
        input_tokens=tokens,
        first_tokens=first,
        cached_share=share,
        cost=round(cost, 1),
        cost_per_turn=per_turn,
        appended_tokens=appended,
        rebases=rebases,
    )


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


def measure(conversations: Mapping[str, Sequence[Trace]], rendering: Rendering) -> list[Row]:
    """All rows, with a line for each provider when it is done."""
    rows: list[Row] = []
    known = profiles()
    pace, encode = Pace(len(known)), Encoder()
    for named, profile in known.items():
        for cell, traces in conversations.items():
            rows += [row_of(named, profile, cell, arm, traces, encode, rendering) for arm in ARMS]
        say(f"{named}: done, {pace.advance(1)}")
    return rows


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print, write."""
    parser = options_parser(__doc__ or "")
    parser.add_argument("--rendering", choices=("json", "lines"), default="json", help="the state in the other arms")
    parser.add_argument("--tau2", type=Path, metavar="DIR", help="a folder with tau2-bench's retail domain")
    options = parser.parse_args(arguments)
    kinds = cells()
    if options.quick:
        kinds = kinds[:: -(-len(kinds) // tenth(len(kinds)))]
    conversations: dict[str, Sequence[Trace]] = {cell.name: [make_trace(cell)] for cell in kinds}
    if options.tau2 is not None:
        traces = tau2_traces(options.tau2)
        conversations["tau2"] = traces[: tenth(len(traces))] if options.quick else traces
    rows = measure(conversations, options.rendering)
    found, ways, points = losses(rows), wordings(), growth()
    report(rows, found)
    report_appended(ways, points)
    if options.json:
        data: dict[str, object] = {
            "rows": [asdict(row) for row in rows],
            "totals": totals(rows),
            "losing": [asdict(loss) for loss in found],
            "appended": [asdict(way) for way in ways],
            "growth": [asdict(point) for point in points],
        }
        write_json(options.json, {"benchmark": "wire", "format": FORMAT, "rendering": options.rendering, **data})
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
