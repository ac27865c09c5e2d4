"""Runs the conversation of `_integration` through a framework, reads the payloads, prints what came of it.

    python -m benchmarks.wire --integration langchain|llama_index [--quick] [--json FILE]

In our arm the second part of the conversation is driven by a process of its own, which this module starts:

    python -m benchmarks._integration_run FRAMEWORK FOLDER
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast

from benchmarks._frame import BenchmarkError, Pace, run_benchmark, say, table, write_json
from benchmarks._integration import ARMS, FORK_FROM, Arm, Capture, Framework, Simulated, make_trip
from benchmarks._integration_payload import breaks, cache_request_of
from benchmarks._placements import Encoder
from pkv_agents import CacheSim

FRAMEWORKS = ("langchain", "llama_index")
_PAUSE = 20.0  # seconds between two requests


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one arm.

    Attributes:
        model: The provider, its API and its model.
        arm: Ours, or where the rewritten system prompt has the state.
        requests: How many went out.
        changes: How often the state changed on the main branch.
        breaks: Requests that do not begin with all of the one before them on their branch.
        rebases: Requests with which a new epoch began, as reported.
        unreported: Breaks without one.
        input_tokens: Of all requests, four characters each.
        cached_share: The part of them that the simulated cache served.
    """

    model: str
    arm: str
    requests: int
    changes: int
    breaks: int
    rebases: int
    unreported: int
    input_tokens: int
    cached_share: float


def framework(name: str) -> Framework:
    """A framework's part."""
    return cast("Framework", importlib.import_module(f"benchmarks._integration_{name}"))


def broken(captures: Sequence[Capture]) -> list[Capture]:
    """The requests that do not begin with all of the one before them on their branch."""
    found: list[Capture] = []
    main: Capture | None = None
    before: Capture | None = None  # on the branch of the request at hand
    at_fork: Capture | None = None
    for capture in captures:
        if not capture.forked:
            before, main = main, capture
            at_fork = capture if capture.turn <= FORK_FROM else at_fork
        elif before is None or not before.forked:
            before = at_fork
        if before is not None and breaks(before.body, capture.body):
            found.append(capture)
        before = capture
    return found


def row_of(model: str, arm: Arm, captures: Sequence[Capture], cache: Simulated, encode: Encoder) -> Row:
    """Read the payloads of one run, and send them to the simulated cache."""
    sim, read, tokens = CacheSim(cache.profile, slots=cache.slots), 0, 0
    for number, capture in enumerate(captures):
        request = cache_request_of(capture.body, encode, number * _PAUSE)
        read += sim.run(request).read
        tokens += len(request.tokens)
    moved, turns = broken(captures), make_trip().turns
    changes = [bool(turn.patch) + sum(c.name == "set_status" for step in turn.steps for c in step) for turn in turns]
    return Row(
        model=model,
        arm=arm,
        requests=len(captures),
        changes=sum(changes),
        breaks=len(moved),
        rebases=sum(capture.rebased is not None for capture in captures),
        unreported=sum(capture.rebased is None for capture in moved),
        input_tokens=tokens,
        cached_share=round(read / tokens, 4),
    )


def measure(
    name: str, *, only: Sequence[str] = (), resume: Literal["new process", "here"] = "new process"
) -> list[Row]:
    """Every model of a framework in every arm.

    Args:
        name: The framework.
        only: These models; all where there are none.
        resume: Whether our arm's second part runs in a process of its own.

    Raises:
        BenchmarkError: That process failed.
    """
    part = framework(name)
    known = {model: cache for model, cache in part.models().items() if not only or model in only}
    encode, rows, pace = Encoder(), list[Row](), Pace(len(known) * len(ARMS))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        ours = {model: part.converse(model, "ours", "first", folder) for model in known}
        say(f"the first part of our arm: done, {pace.advance(len(known) / 2)}")
        if resume == "new process":
            later = _resumed(name, list(known), folder)
        else:
            later = {model: part.converse(model, "ours", "second", folder) for model in known}
        say(f"the second part, in a new process: done, {pace.advance(len(known) / 2)}")
        for model, cache in known.items():
            for arm in ARMS:
                whole = [*ours[model], *later[model]] if arm == "ours" else part.converse(model, arm, "whole", folder)
                rows.append(row_of(model, arm, whole, cache, encode))
            say(f"{model}: done, {pace.advance(len(ARMS) - 1)}")
    return rows


def _resumed(name: str, models: Sequence[str], folder: Path) -> dict[str, list[Capture]]:
    """The second part of our arm, from a new process."""
    command = [sys.executable, "-m", "benchmarks._integration_run", name, str(folder), *models]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"the process that resumes the conversations failed: {done.stderr.strip()[-500:]}")
    data = json.loads((folder / "second.json").read_text(encoding="utf-8"))
    return {model: [Capture(**capture) for capture in captures] for model, captures in data.items()}


def report(name: str, rows: Sequence[Row]) -> None:
    """The table."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.arm] = row
    one = rows[0]
    say()
    say(
        f"{name}: {len(make_trip().turns)} turns, {one.changes} changes, 3 steps of parallel calls, a fork, a call "
        "that failed, a resume in a new process"
    )
    headers = ["", "requests", "prefix breaks", "reported rebases", "unreported", "cached", "late", "early", "breaks"]
    lines: list[list[object]] = []
    for model, arms in by_model.items():
        own, late, early = (arms[arm] for arm in ARMS)
        shares = [f"{100 * row.cached_share:.1f} %" for row in (own, late, early)]
        lines.append([model, own.requests, own.breaks, own.rebases, own.unreported, *shares, late.breaks])
    say(table(headers, lines))
    say()
    say("late, early: the system prompt rewritten at each change, the state behind the policy or before it; its breaks")
    unreported = sum(arms["ours"].unreported for arms in by_model.values())
    say(f"unreported breaks of ours: {unreported}, {'target met' if not unreported else 'target missed'} (0)")


def integration(name: str, *, is_quick: bool, file: Path | None) -> int:
    """Drive, print, write; a quick run takes every third model."""
    every = list(framework(name).models())
    rows = measure(name, only=every[::3] if is_quick else every)
    report(name, rows)
    if file is not None:
        data = {"benchmark": "wire", "format": 1, "integration": name, "rows": [asdict(row) for row in rows]}
        write_json(file, data)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The new process: take the conversations up, write the requests down."""
    name, place, *models = arguments if arguments is not None else sys.argv[1:]
    part, folder = framework(name), Path(place)
    done = {model: [asdict(one) for one in part.converse(model, "ours", "second", folder)] for model in models}
    (folder / "second.json").write_text(json.dumps(done), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
