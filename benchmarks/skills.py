"""What does it cost to load, retire and replace skills, and to change tools, in the middle of a conversation?

    python -m benchmarks.skills [--quick] [--json FILE]

One conversation of 40 turns with 6 skills that are loaded, 3 that are retired, 2 new versions, 4 switches of tools and
2 late tools, sent in three ways (`_skills` says how) to a simulated cache of each provider. A break is a request that
does not begin with the one before it. In `ours` each must have been reported, and nothing may be reported for nothing.
Costs are in full-priced input tokens; where a profile has no price (a server of one's own) a cached token costs
nothing: the cost is what is computed.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass

from benchmarks._frame import BenchmarkError, options_parser, run_benchmark, say, table, tenth, write_json
from benchmarks._placements import Encoder
from benchmarks._skills import ARMS
from benchmarks.wire import profiles
from pkv_agents import CacheSim, Profile

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One arm at one provider.

    Attributes:
        profile: The provider.
        arm: How skills and tools are sent.
        requests: How many there were.
        input_tokens: Their tokens.
        cached_share: The part that was read from the cache.
        cost: Their price, in full-priced input tokens.
        breaks: Requests that did not begin with the one before.
        reported: What was said about them.
    """

    profile: str
    arm: str
    requests: int
    input_tokens: int
    cached_share: float
    cost: float
    breaks: int
    reported: tuple[str, ...]


def row_of(named: str, profile: Profile, arm: str, encode: Encoder) -> Row:
    """Send the conversation in one arm to an empty cache.

    Raises:
        BenchmarkError: Ours broke a prefix and did not say so, or said so and did not.
    """
    sim = CacheSim(profile, slots=1 if profile.name == "llama.cpp" else None)
    before: list[Hashable] = []
    read = tokens = requests = breaks = 0
    cost, reported = 0.0, list[str]()
    for sent in ARMS[arm](profile, encode):
        now = list(sent.request.tokens)
        broke = now[: len(before)] != before
        if arm == "ours" and broke != bool(sent.reported):
            raise BenchmarkError(f"{named}, request {requests}: broke is {broke}, reported is {sent.reported}")
        outcome = sim.run(sent.request)
        before = now
        read += outcome.read
        cost += outcome.cost(profile)
        tokens += len(now)
        requests += 1
        breaks += broke
        reported += sent.reported
    return Row(named, arm, requests, tokens, round(read / tokens, 4), round(cost, 1), breaks, tuple(reported))


def measure(known: Mapping[str, Profile]) -> list[Row]:
    """All rows, by provider."""
    encode = Encoder()
    return [row_of(named, profile, arm, encode) for named, profile in known.items() for arm in ARMS]


def report(rows: Sequence[Row]) -> str:
    """The table: a line for each provider and arm, with the cost beside that of `rebuilt`."""
    base = {row.profile: row.cost for row in rows if row.arm == "rebuilt"}
    cells = [
        (
            row.profile,
            row.arm,
            f"{row.input_tokens:,}",
            f"{row.cached_share:.1%}",
            f"{row.cost:,.0f}",
            f"{row.cost / base[row.profile]:.2f}",
            row.breaks,
            ", ".join(row.reported) or "-",
        )
        for row in rows
    ]
    headers = ("provider", "arm", "input tokens", "cached", "cost", "of rebuilt", "breaks", "reported")
    return table(headers, cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print, write."""
    options = options_parser(__doc__ or "").parse_args(arguments)
    known = profiles()
    if options.quick:
        known = dict(list(known.items())[: tenth(len(known))])
    rows = measure(known)
    say(report(rows))
    if options.json is not None:
        write_json(options.json, {"benchmark": "skills", "format": FORMAT, "rows": [asdict(row) for row in rows]})
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
