"""Does [old head + errata] decide as [head rewritten with the current state] does?

    python -m benchmarks.parity [--quick] [--json FILE] [--resume FILE] ...
    python -m benchmarks.parity --modes all [--quick] [--json FILE]

Hypothesis: an erratum at the end of an untouched prefix moves the decision just as a rewritten head would. The head
that is rewritten with the current state is the oracle; the first head for ever (`stale`) is the control, which shows
that the question really hangs on the change. If ours agrees with the oracle where the oracle is right, errata can be
relied on with this model; where the oracle itself is wrong, agreement is about two guesses and says less.

Worlds are held out: rules, values, names and towns that no training row of the adapter holds. All decisions are
grammar-constrained tool calls, greedy, in float32; a decision is tool and arguments.

With `--modes` the same question is asked of every way to change a cache: edits in place, errata, splices, and what they
do over many turns and many tokens (`_modes`). A part that is not run is kept as the JSON file has it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from benchmarks._arms import Row, run_case
from benchmarks._cases import Head, Phrasing, draw_case
from benchmarks._frame import (
    BenchmarkError,
    Machine,
    Pace,
    count,
    options_parser,
    read_json,
    run_benchmark,
    say,
    tenth,
    this_machine,
    write_json,
)
from benchmarks._model import load_model
from benchmarks._modes import Subject
from benchmarks._modes_answers import CALLS_AT_ONCE, NAMES_FIELD
from benchmarks._modes_results import FORMAT as FORMAT_OF_MODES
from benchmarks._modes_results import PARTS, former_results
from benchmarks._modes_run import SIZES, Loading, run_modes
from benchmarks._modes_summary import summary_of
from benchmarks._modes_summary import summary_text as summary_text_of_modes
from benchmarks._modes_targets import targets_of
from benchmarks._summary import summary_data, summary_text
from examples.support_agent.models import AT_ONCE_ADAPTER
from pkv_agents.local import LocalModel

FORMAT = 1
_COST: Mapping[Head, float] = {"short": 1.0, "long": 3.0}
_ROWS = TypeAdapter(list[Row])


class Job(NamedTuple):
    """A seed to run."""

    head: Head
    phrasing: Phrasing
    seed: int


class Results:
    """The rows of a run, in a file when there is one.

    Args:
        identity: Model, adapter and version.
        machine: What it runs on.
        file: Where to keep the rows; None keeps them in memory.
        rows: Rows of a former run.
    """

    def __init__(
        self, identity: Mapping[str, str], machine: Machine, *, file: Path | None = None, rows: Sequence[Row] = ()
    ) -> None:
        self.rows = list(rows)
        self._identity, self._machine, self._file = identity, machine, file

    def add(self, row: Row) -> None:
        """Keep a row, on disk at once."""
        self.rows.append(row)
        self.save(finished=False)

    def save(self, *, finished: bool) -> None:
        """Write the file."""
        if self._file is not None:
            write_json(self._file, self.data(finished=finished))

    def data(self, *, finished: bool) -> dict[str, object]:
        """What the file holds."""
        return {
            "benchmark": "parity",
            "format": FORMAT,
            "finished": finished,
            "identity": dict(self._identity),
            "machine": asdict(self._machine),
            "summary": summary_data(self.rows),
            "rows": [asdict(row) for row in self.rows],
        }


def former_rows(path: Path, identity: Mapping[str, str]) -> list[Row]:
    """The rows of a former run.

    Args:
        path: Its JSON file.
        identity: This run's model, adapter and version.

    Raises:
        BenchmarkError: The file is no result of this benchmark, or of another model, adapter, version or drawing.
    """
    data = read_json(path)
    if data.get("benchmark") != "parity" or data.get("format") != FORMAT:
        raise BenchmarkError(f"{path} holds no results of this benchmark")
    if data.get("identity") != dict(identity):
        raise BenchmarkError(f"{path} is of another model, adapter or version: {data.get('identity')}, now {identity}")
    try:
        rows = _ROWS.validate_python(data.get("rows"))
    except ValidationError as error:
        raise BenchmarkError(f"{path} is damaged: {error.error_count()} values do not fit") from error
    for row in rows:
        if draw_case(row.seed, head=row.head, phrasing=row.phrasing).digest() != row.case:
            raise BenchmarkError(f"{path} asked something else at seed {row.seed}; start anew")
    return rows


def jobs_of(*, seeds: int, long_seeds: int, phrasing_seeds: int) -> list[Job]:
    """The seeds to run, in order."""
    return [
        *(Job("short", "trained", seed) for seed in range(seeds)),
        *(Job("long", "trained", seed) for seed in range(long_seeds)),
        *(Job("short", "held_out", seed) for seed in range(phrasing_seeds)),
    ]


def run_jobs(engine: LocalModel, jobs: Sequence[Job], results: Results, *, tell: Callable[[str], None] = say) -> None:
    """Run the seeds that have no row yet, and tell each row."""
    have = {row.key for row in results.rows}
    left = [job for job in jobs if tuple(job) not in have]
    pace = Pace(sum(_COST[job.head] for job in left))
    for job in left:
        row = run_case(engine, draw_case(job.seed, head=job.head, phrasing=job.phrasing))
        results.add(row)
        tell(f"{row_line(row)}   {len(results.rows)}/{len(jobs)}, {pace.advance(_COST[job.head])}")


def row_line(row: Row) -> str:
    """A row in a line."""
    words = "held-out words" if row.phrasing == "held_out" else row.head
    marks = "  ".join(
        f"{arm} {'right' if decision.right else 'WRONG'}"
        for arm, decision in (("rewritten", row.rewritten), ("ours", row.ours), ("stale", row.stale))
    )
    change = f"{row.kind.replace('_', ' ')}, {row.variant}"
    return (
        f"{words:<14} {row.seed:>3}  {change:<30}  {marks}  {'agree ' if row.agree else 'DIFFER'} {row.seconds:5.1f} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    options = _parse(arguments)
    if options.modes:
        return _main_modes(options)
    jobs = jobs_of(seeds=options.seeds, long_seeds=options.long_seeds, phrasing_seeds=options.phrasing_seeds)
    loaded = load_model(options.model, options.adapter, threads=options.threads)
    machine = this_machine(dtype=loaded.identity["dtype"])
    rows = former_rows(options.resume, loaded.identity) if options.resume is not None else []
    say(f"parity: {len(jobs)} seeds, {len(rows)} of them done; {machine}")
    results = Results(loaded.identity, machine, file=options.json or options.resume, rows=rows)
    finished = False
    try:
        run_jobs(loaded.engine, jobs, results)
        finished = True
    finally:
        if results.rows:
            results.save(finished=finished)
            rest = "" if finished else f"\nStopped after {len(results.rows)} of {len(jobs)} seeds."
            say(f"\n{summary_text(results.rows)}{rest}")
    return 0


def _main_modes(options: argparse.Namespace) -> int:
    parts = [part for part in PARTS if part in options.modes or "all" in options.modes]
    sizes = {name: tenth(size) if options.quick else size for name, size in SIZES.items()} | dict(options.size)
    results = former_results(options.json)
    say(f"parity of modes: {', '.join(parts)}; {sizes}")

    def load(adapter: str) -> Loading:
        folder, manner = (
            (options.at_once_adapter, CALLS_AT_ONCE) if adapter == "at_once" else (options.adapter, NAMES_FIELD)
        )
        loaded = load_model(options.model, folder, threads=options.threads)
        machine = this_machine(dtype=loaded.identity["dtype"])
        say(f"adapter {adapter} on {machine}")
        return Loading(Subject(loaded.engine, manner), loaded.identity, asdict(machine))

    def keep() -> None:
        if options.json is not None:
            summary = {"targets": targets_of(results), "summary": summary_of(results)}
            head = {"benchmark": "parity modes", "format": FORMAT_OF_MODES, **summary}
            write_json(options.json, {**head, "parts": results.data()})

    run_modes(load, parts, sizes, results, keep=keep)
    say(f"\n{summary_text_of_modes(results, targets_of(results))}")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options_parser(__doc__ or "")
    parser.add_argument("--seeds", type=count, default=200, metavar="N", help="seeds with a short head (default 200)")
    parser.add_argument("--long-seeds", type=count, default=40, metavar="N", help="seeds with a long head (default 40)")
    parser.add_argument(
        "--phrasing-seeds", type=count, default=40, metavar="N", help="short ones in held-out phrasing (default 40)"
    )
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from this file, and into it without --json")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a model's folder (default: the embedded model)")
    parser.add_argument(
        "--adapter", type=Path, metavar="DIR", help="an adapter's folder, or none (default: the shop's)"
    )
    parser.add_argument("--modes", nargs="+", choices=("all", *PARTS), help="measure ways to change a cache instead")
    parser.add_argument(
        "--at-once-adapter",
        type=Path,
        default=AT_ONCE_ADAPTER,
        metavar="DIR",
        help="with --modes: an adapter that calls at once",
    )
    parser.add_argument(
        "--size", type=_size, nargs="+", default=(), metavar="NAME=N", help=f"with --modes: other sizes than {SIZES}"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        for name in ("seeds", "long_seeds", "phrasing_seeds"):
            setattr(options, name, tenth(getattr(options, name)))
    return options


def _size(text: str) -> tuple[str, int]:
    """An option's `name=number`."""
    name, _, number = text.partition("=")
    if name not in SIZES:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(SIZES)}")
    return name, count(number)


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
