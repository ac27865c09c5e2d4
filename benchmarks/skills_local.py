"""What does a compiled skill of 4,000 tokens give a new session on a local model, and how faithful is it?

    python -m benchmarks.skills_local [--parts time quality] [--worlds N] [--repeats N] [--quick] [--json FILE]

The embedded model with the shop's adapter, through `LocalModel` and `Conversation`. The skill stands in the head of a
new session, or is loaded in mid-session by an erratum, in the turn of the question or in the one before it. It was
compiled ahead under the keys of `python -m pkv_agents skills compile`.

`time`: time to the first token behind an empty prefix cache, from disk (verified now, or earlier in the process) and
from memory, beside a prefill of the same tokens; bytes and seconds of compiling.

`quality`: divergence from a clean prefill (KL, in nats) and agreement of the decisions on shops that nothing else
draws, with seams of 0 to 16 tokens and three controls; on the first shops also whole turns in both ways.

A part that is not run is kept as the JSON file has it, and `quality` goes on from the shops in it, if that is about the
same model.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any, cast

from benchmarks._frame import (
    count,
    options_parser,
    read_json,
    run_benchmark,
    say,
    table,
    tenth,
    this_machine,
    write_json,
)
from benchmarks._model import load_model
from benchmarks._modes_splice import CLEAR
from benchmarks._skills_local import Place, draw
from benchmarks._skills_local_quality import QualityRow, WholeRow, quality_rows, whole_row
from benchmarks._skills_local_time import Engine, Sizes, TimeRow, Timing, time_rows
from pkv_agents.kv import DiskStore
from pkv_agents.local import LocalModel

FORMAT = 1
PARTS = ("time", "quality")
PLACES: tuple[Place, ...] = ("head", "turn before", "same turn")
TIMED: tuple[Place, ...] = ("head", "same turn")
COSTLY = 4
"""Shops on which the costliest control and whole turns are measured too."""
TOKENS, WORLDS, REPEATS = 4_000, 12, 5


def time_part(make: Engine, *, tokens: int, repeats: int) -> dict[str, object]:
    """The rows of `time`, as data."""
    rows, sizes = list[TimeRow](), list[Sizes]()
    engine = make(None)
    for place in TIMED:
        with tempfile.TemporaryDirectory() as folder:
            timing = Timing(make, next(draw(1, tokens, engine, place)), Path(folder))
            rows += time_rows(timing, repeats)
            sizes.append(timing.sizes())
        say(f"time: {place} measured")
    return {"rows": [asdict(row) for row in rows], "sizes": [asdict(size) for size in sizes]}


class Quality:
    """The rows of `quality`, which come one shop after the other.

    Args:
        former: The part as a file has it; what is in it is not measured again.
    """

    def __init__(self, former: Mapping[str, Any]) -> None:
        self.rows = [QualityRow(**row) for row in former.get("rows", ())]
        self.turns = [WholeRow(**row) for row in former.get("turns", ())]

    def run(self, engine: LocalModel, *, tokens: int, worlds: int, keep: Callable[[], None]) -> None:
        """Measures shops that are not there yet, all places of one before the next; `keep` is called after each."""
        started = time.perf_counter()
        for done, pair in enumerate(zip(*(draw(worlds, tokens, engine, place) for place in PLACES), strict=True), 1):
            for asked in pair:
                if (asked.case.seed, asked.place) not in {(row.seed, row.place) for row in self.rows}:
                    self.rows += quality_rows(engine, asked, reverse=done <= COSTLY)
                    self.turns += [whole_row(engine, asked)] if done <= COSTLY else []
                    keep()
            say(f"quality: {done} of {worlds} shops, {time.perf_counter() - started:.0f} s")
        engine.clear_cache()

    def data(self) -> dict[str, object]:
        """As data, with a summary."""
        rows, turns = [asdict(row) for row in self.rows], [asdict(turn) for turn in self.turns]
        return {"rows": rows, "turns": turns, "summary": summary(self.rows), "decisions": decisions(self)}


def decisions(found: Quality) -> list[dict[str, object]]:
    """Of whole turns, how often both ways decide alike."""
    made: list[dict[str, object]] = []
    for place in PLACES:
        turns = [turn for turn in found.turns if turn.place == place]
        rights = {row.seed: row.right for row in found.rows if row.place == place}
        made.append(
            {
                "place": place,
                "same_tool": _of(turn.same_tool for turn in turns),
                "same_tool_clear": _of(turn.same_tool for turn in turns if turn.margin >= CLEAR),
                "same_call": _of(turn.same_call for turn in turns),
                "clean_right": _of(rights.values()),
            }
        )
    return made


def summary(rows: Sequence[QualityRow]) -> list[dict[str, object]]:
    """Of each place and arm the divergences and the agreement."""
    made: list[dict[str, object]] = []
    for place in PLACES:
        here = [row for row in rows if row.place == place]
        for arm in dict.fromkeys(row.arm for row in here):
            some = [row for row in here if row.arm == arm]
            tool = [row.kl_tool for row in some]
            made.append(
                {
                    "place": place,
                    "arm": arm,
                    "kl_end": f"{mean(row.kl_end for row in some):.5f}",
                    "kl_value": f"{mean(row.kl_value for row in some):.5f}",
                    "kl_tool": f"{mean(tool):.5f}",
                    "median_tool": f"{median(tool):.5f}",
                    "worst_tool": f"{max(tool):.4f}",
                    "agrees": _of(row.agrees for row in some),
                    "agrees_clear": _of(row.agrees for row in some if row.clear),
                }
            )
    return made


def _of(found: Iterable[object]) -> str:
    some = [bool(one) for one in found]
    return f"{sum(some)}/{len(some)}"


def _show(*tables: object) -> None:
    for rows in cast("Sequence[Sequence[Mapping[str, object]]]", tables):
        say(table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
        say()


def _kept(path: Path | None, identity: Mapping[str, str]) -> dict[str, object]:
    """The parts that a file has, if it is about the same model."""
    if path is None or not path.exists():
        return {}
    data = read_json(path)
    if (data.get("format"), data.get("identity")) != (FORMAT, dict(identity)):
        return {}
    return dict(cast("Mapping[str, object]", data["parts"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = options_parser(__doc__ or "")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="which (default: both)")
    parser.add_argument("--worlds", type=count, default=WORLDS, metavar="N", help=f"shops (default {WORLDS})")
    parser.add_argument("--repeats", type=count, default=REPEATS, metavar="N", help=f"of times (default {REPEATS})")
    parser.add_argument("--tokens", type=count, default=TOKENS, metavar="N", help=f"of the skill (default {TOKENS})")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a model's folder (default: the embedded one)")
    parser.add_argument(
        "--adapter", type=Path, metavar="DIR", help="an adapter's folder (default: the shop's), or none"
    )
    options = parser.parse_args(arguments)
    loaded = load_model(options.model, options.adapter, threads=options.threads)
    engine, machine = loaded.engine, this_machine(dtype="float32")
    tokens = tenth(options.tokens) if options.quick else options.tokens
    identity = {**loaded.identity, "tokens": str(tokens)}
    parts = _kept(options.json, identity)
    say(f"SmolLM2-135M-Instruct with the shop's adapter on {machine}")

    def make(store: DiskStore | None) -> LocalModel:
        return LocalModel(loaded.model, engine.template.tokenizer, skill_store=store)

    def keep(part: str, data: Mapping[str, object]) -> None:
        parts[part] = {"machine": str(machine), **data}
        if options.json:
            write_json(
                options.json, {"benchmark": "skills_local", "format": FORMAT, "identity": identity, "parts": parts}
            )

    if "time" in options.parts:
        repeats = tenth(options.repeats) if options.quick else max(1, options.repeats)
        made = time_part(make, tokens=tokens, repeats=repeats)
        keep("time", made)
        _show(made["sizes"], made["rows"])
    if "quality" in options.parts:
        worlds = tenth(options.worlds) if options.quick else max(1, options.worlds)
        found = Quality(cast("Mapping[str, Any]", parts.get("quality", {})))
        found.run(engine, tokens=tokens, worlds=worlds, keep=lambda: keep("quality", found.data()))
        _show(summary(found.rows), decisions(found))
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
