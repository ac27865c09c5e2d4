"""What does it cost to tell an agent its state, by where in the request it stands?

    python -m benchmarks.wire [--quick] [--json FILE] [--rendering json|lines] [--tau2 DIR]
    python -m benchmarks.wire --integration langchain|llama_index [--quick] [--json FILE]

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

`--integration` asks something else: whether the very payloads of a framework's agents extend one another, for each
provider's package, and what the cache serves of them (`_integration` has the conversation).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks._appended import CHANGES, growth, wordings
from benchmarks._frame import Pace, options_parser, run_benchmark, say, tenth, write_json
from benchmarks._integration_run import FRAMEWORKS, integration
from benchmarks._placements import ARMS, Encoder, Rendering, Setting
from benchmarks._tau2 import tau2_traces
from benchmarks._traces import Trace, cells, make_trace
from benchmarks._wire_report import Row, losses, report, report_appended, totals
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


@dataclass(slots=True)
class _Sum:
    """What one provider's cache did with an arm's requests so far."""

    read: int = 0
    cost: float = 0.0


def rows_of(
    group: Mapping[str, Profile],
    cell: str,
    arm: str,
    traces: Sequence[Trace],
    encode: Encoder,
    rendering: Rendering,
) -> list[Row]:
    """Send the conversations of a cell in one arm, each to an empty cache of each provider of a group.

    The arm must send all of them the same.
    """
    sums = {named: _Sum() for named in group}
    requests = tokens = first = appended = rebases = 0
    sender = next(iter(group.values()))
    for trace in traces:
        sims = {named: CacheSim(it, slots=1 if it.name == "llama.cpp" else None) for named, it in group.items()}
        for number, sent in enumerate(ARMS[arm](Setting(trace, sender, encode, rendering))):
            for named, sim in sims.items():
                outcome = sim.run(sent.request)
                sums[named].read += outcome.read
                sums[named].cost += outcome.cost(group[named])
            requests += 1
            tokens += len(sent.request.tokens)
            first += 0 if number else len(sent.request.tokens)
            appended += sent.appended
            rebases += sent.rebased is not None
    turns = sum(trace.turns for trace in traces)
    return [
        Row(
            profile=named,
            cell=cell,
            arm=arm,
            conversations=len(traces),
            turns=turns,
            requests=requests,
            input_tokens=tokens,
            first_tokens=first,
            cached_share=round(it.read / tokens, 4),
            cost=round(it.cost, 1),
            cost_per_turn=round(it.cost / turns, 1),
            appended_tokens=appended,
            rebases=rebases,
        )
        for named, it in sums.items()
    ]


def groups(arm: str, known: Mapping[str, Profile]) -> list[dict[str, Profile]]:
    """Providers to which an arm sends the same: those whose markers stand alike; ours plans for each by itself."""
    found: dict[object, dict[str, Profile]] = {}
    for named, it in known.items():
        alike = (it.max_breakpoints or 0, it.implicit_breakpoint, it.lookback_blocks, it.ttls)
        found.setdefault(named if arm == "ours" else alike, {})[named] = it
    return list(found.values())


def measure(conversations: Mapping[str, Sequence[Trace]], rendering: Rendering) -> list[Row]:
    """All rows, by provider, with a line for each cell when it is done."""
    known, encode = profiles(), Encoder()
    pace = Pace(sum(len(trace.steps) for traces in conversations.values() for trace in traces))
    rows: list[Row] = []
    for cell, traces in conversations.items():
        for arm in ARMS:
            for group in groups(arm, known):
                rows += rows_of(group, cell, arm, traces, encode, rendering)
        say(f"{cell}: done, {pace.advance(sum(len(trace.steps) for trace in traces))}")
    order = list(known)
    return sorted(rows, key=lambda row: order.index(row.profile))


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print, write."""
    parser = options_parser(__doc__ or "")
    parser.add_argument("--rendering", choices=("json", "lines"), default="json", help="the state in the other arms")
    parser.add_argument("--tau2", type=Path, metavar="DIR", help="a folder with tau2-bench's retail domain")
    parser.add_argument("--integration", choices=FRAMEWORKS, help="the payloads of a framework's agents instead")
    options = parser.parse_args(arguments)
    if options.integration is not None:
        return integration(options.integration, is_quick=options.quick, file=options.json)
    kinds = cells()
    if options.quick:
        kinds = kinds[:: -(-len(kinds) // tenth(len(kinds)))]
    conversations: dict[str, Sequence[Trace]] = {cell.name: [make_trace(cell)] for cell in kinds}
    if options.tau2 is not None:
        traces = tau2_traces(options.tau2)
        conversations["tau2"] = traces[: tenth(len(traces))] if options.quick else traces
    rows = measure(conversations, options.rendering)
    found, ways = losses(rows), wordings()
    points = growth(CHANGES // 3 if options.quick else CHANGES)
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
