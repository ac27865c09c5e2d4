"""What does planning a turn cost, beside rendering the same head?

    python -m benchmarks.overhead [--quick] [--json FILE]

Three modes, each with few changed fields: `render` renders the head afresh (what a program without this library does),
`plan` reads the state, finds the history's place, diffs and words the erratum; `plan+commit` records it too. The target
is a p99 under 1 ms for `plan` at 100 fields and 1,000 messages. Planning reads the history once: its slope over the
messages is printed. The last table is what a session keeps in memory.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import BaseModel

from benchmarks._frame import options_parser, run_benchmark, say, tenth, write_json
from pkv_agents import GENERIC, Ledger, Message, Tracked, TrackedState, commit, plan, render_baseline, snapshot

FORMAT = 1
TAG = "k7f3"
FIELDS = (10, 100, 1000)
MESSAGES = (10, 100, 1000, 10_000)
CHANGED = 2


class Item(BaseModel):
    """Five fields of a usual record."""

    id: str
    status: str = "in transit"
    total: float = 12.5
    carrier: str = "DHL"
    note: str = "leave it at the door"


class Big(TrackedState):
    """A state of any size: `key` is no field of its own, so an item has four leaves."""

    items: Annotated[list[Item], Tracked(key="id")]


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; times are of one call."""

    mode: str
    fields: int
    messages: int
    median_ms: float
    p99_ms: float
    calls: int


def state_of(fields: int, status: str = "in transit") -> Big:
    """A state with so many leaves, the last items with a status of their own."""
    count = -(-fields // 4)
    changed = range(count - min(CHANGED, count), count)
    return Big(
        items=[Item(id=f"K{index}", status=status if index in changed else "in transit") for index in range(count)]
    )


def history_of(messages: int) -> list[Message]:
    """A conversation that ends with the user, 300 characters a message."""
    text = "The parcel was handed over at noon and nobody has seen it since, which is a pity. " * 4
    roles = ("assistant", "user") if messages % 2 == 0 else ("user", "assistant")
    return [Message(roles[index % 2], f"{index} {text}") for index in range(messages)]


def measure(call: Callable[[], object], calls: int) -> list[float]:
    """Milliseconds of each call, garbage collection left out."""
    call()
    gc.collect()
    gc.disable()
    try:
        times: list[float] = []
        for _ in range(calls):
            started = time.perf_counter()
            call()
            times.append((time.perf_counter() - started) * 1000)
        return times
    finally:
        gc.enable()


def row_of(mode: str, fields: int, messages: int, times: Sequence[float]) -> Row:
    """A row from its times."""
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Row(mode, fields, messages, round(statistics.median(times), 4), round(p99, 4), len(times))


def rows_of(fields: int, messages: int, calls: int) -> list[Row]:
    """The three modes side by side."""
    before, now, history = state_of(fields), state_of(fields, "delivered"), history_of(messages)
    ledger = commit(None, plan(None, before, history[:1], profile=GENERIC, tag=TAG))

    def planned() -> object:
        return plan(ledger, now, history, profile=GENERIC, tag=TAG)

    def recorded() -> object:
        return commit(ledger, plan(ledger, now, history, profile=GENERIC, tag=TAG))

    modes: dict[str, Callable[[], object]] = {
        "render": lambda: render_baseline(snapshot(now), tag=TAG),
        "plan": planned,
        "plan+commit": recorded,
    }
    return [row_of(mode, fields, messages, measure(call, calls)) for mode, call in modes.items()]


def slope_us(rows: Sequence[Row], fields: int) -> float:
    """Microseconds that one more message adds to planning, by least squares."""
    points = [(row.messages, row.median_ms * 1000) for row in rows if row.mode == "plan" and row.fields == fields]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def ledger_bytes(fields: int, turns: int) -> int:
    """What a session's ledger holds in memory after so many turns with one change each."""
    tracemalloc.start()
    try:
        history, ledger = history_of(2 * turns + 1), Ledger()
        start = tracemalloc.get_traced_memory()[0]
        for turn in range(turns):
            state = state_of(fields, f"at stop {turn}")
            ledger = commit(ledger, plan(ledger, state, history[: 2 * turn + 1], profile=GENERIC, tag=TAG))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    options = options_parser(__doc__ or "").parse_args(arguments)
    calls = tenth(300) if options.quick else 300
    rows: list[Row] = []
    say(_line("mode", "fields", "messages", "median ms", "p99 ms"))
    for fields in FIELDS:
        for messages in MESSAGES:
            rows += rows_of(fields, messages, calls)
            for row in rows[-3:]:
                say(_line(row.mode, row.fields, row.messages, f"{row.median_ms:.3f}", f"{row.p99_ms:.3f}"))
    say()
    slopes = {fields: round(slope_us(rows, fields), 3) for fields in FIELDS}
    for fields, slope in slopes.items():
        say(f"{fields:>5} fields: {slope:.3f} microseconds a message")
    turns = tenth(30) if options.quick else 30
    memory = {fields: ledger_bytes(fields, turns) for fields in FIELDS}
    for fields, size in memory.items():
        say(f"{fields:>5} fields: {size / 1024:,.0f} KiB a session after {turns} turns")
    if options.json:
        data = {"rows": [asdict(row) for row in rows], "slope_us_per_message": slopes, "bytes_per_session": memory}
        write_json(options.json, {"benchmark": "overhead", "format": FORMAT, "calls": calls, "turns": turns, **data})
    return 0


def _line(mode: str, *numbers: object) -> str:
    return f"{mode:<12}" + "".join(f"{number!s:>11}" for number in numbers)


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
