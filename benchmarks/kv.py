"""What does each operation on keys and values cost until the first token, beside a full prefill and beside the floor?

    python -m benchmarks.kv [--tokens N ...] [--model DIR] [--quick] [--json FILE]

The embedded model with the shop's adapter, in float32. A prompt has so many tokens in all; its last turn has 80, of
which an erratum is about 55. What stood before is in memory when the clock starts; the clock stops when the logits of
the first answer token are there. All operations take turns, so that a slow minute of the machine hits all of them.

| operation | what is timed |
|---|---|
| full | a forward of the whole prompt on a preallocated cache: a program that caches nothing |
| floor | the same of the 80 new tokens alone: nothing that answers can be faster |
| erratum | a turn of a session through `pkv_agents.local`: plan, template, tokenise, look up, forward |
| field_erratum | a field of the head edited in place, and the same 80 tokens |
| in_place | a field of the head edited in place, and a question of 25 tokens |
| splice | a head of 64 tokens in memory, a compiled skill behind it, a question of 30: the first use of the skill |
| decode | one more token of an answer, through `pkv_agents.local`; its floor is `decode floor` |

A splice takes the skill from memory, from a file that this process has verified before (`trusted`), or from one that it
verifies now. `--quick` takes a random toy that reads bytes: it shows that the benchmark runs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks._first_token import HEADERS, Row, rows_from
from benchmarks._frame import count, options_parser, run_benchmark, say, table, this_machine, write_json
from benchmarks._kv_floor import Bare
from benchmarks._kv_turn import Asked, Turn, make_turn
from benchmarks._model import load_parts
from benchmarks._toy import toy_chat_model
from pkv_agents.kv import DiskStore, TokenRun, compile_segment, rewrite, splice
from pkv_agents.local import SKILL_PREAMBLE, SKILL_SEAM, LocalModel

FORMAT = 2
TOKENS = (512, 1024, 2048, 4096, 7500)
QUICK_TOKENS = (1200,)
NEW, HEAD, QUERY, QUESTION, DECODED = 80, 64, 30, 25, 12
REPEATS = 5
FASTER: Mapping[tuple[str, int], float] = {("erratum", 4096): 20, ("splice from memory", 7500): 30}
"""Least speed-up to a full prefill, by operation and length."""
NEAR: Mapping[tuple[str, int], float] = {("erratum", 4096): 1.1, ("decode", 4096): 1.15}
"""Largest ratio to the floor, by operation and length."""

Operation = Callable[[], float]
"""Runs once; its seconds."""


class Bench:
    """A model and one prompt length.

    Args:
        engine: The model as users have it.
        model: The same, bare.
        turn: The turn.
        folder: Where compiled skills go.
    """

    def __init__(self, engine: LocalModel, model: object, turn: Turn, folder: Path) -> None:
        self.engine, self.turn, self.segments = engine, turn, engine.segments
        self.number, self.folder = 0, folder
        self.asked: Asked = turn.asked(0)
        _, reply = self.asked.ask()
        self.new = reply.prompt_tokens - reply.cached_tokens
        self.ids = self.asked.ids()
        self.base, self.fresh = self.ids[: -self.new], self.ids[-self.new :]
        self.bare = Bare(model, len(self.ids) + DECODED + 1)
        self.bare.forward(self.base)
        self.prompt = self.segments.prefill(self.base).segment
        self.head = self.prompt.slice(0, HEAD)
        self.skill, self.query = self.ids[HEAD:-QUERY], self.ids[-QUERY:]
        self.preamble = engine.template.preamble(SKILL_PREAMBLE)
        self.compiled = compile_segment(self.segments, self.skill, preamble=self.preamble)
        self.store = DiskStore(folder)
        self.store.save(self.segments, self.compiled, preamble=self.preamble)
        middle = len(self.base) // 2
        self.run = TokenRun("order.status", middle, middle + 6, tuple(self.base[middle + 1 : middle + 9]))

    def operations(self) -> dict[str, Operation]:
        """What to measure, by name, in the order in which they take turns."""
        return {
            "full": self._full,
            "floor": self._floor,
            "erratum": self._erratum,
            "decode": self._decode,
            "decode floor": self._decode_floor,
            "field_erratum": lambda: _timed(lambda: rewrite(self.segments, self.prompt, [self.run], self.fresh)),
            "in_place": lambda: _timed(lambda: rewrite(self.segments, self.prompt, [self.run], self.fresh[:QUESTION])),
            "splice from memory": lambda: _timed(lambda: self._splice(self.compiled)),
            "splice from disk, trusted": lambda: _timed(lambda: self._splice(self._stored(self.store))),
            "splice from disk, verified": lambda: _timed(lambda: self._splice(self._stored(DiskStore(self.folder)))),
        }

    def _full(self) -> float:
        self.bare.keep(0)
        return _timed(lambda: self.bare.forward(self.ids))

    def _floor(self) -> float:
        self.bare.keep(len(self.base))
        return _timed(lambda: self.bare.forward(self.fresh))

    def _erratum(self) -> float:
        self.number += 1  # each time another conversation: its first turn is answered before the clock starts
        self.asked = self.turn.asked(self.number)
        seconds, reply = self.asked.ask()
        assert reply.prompt_tokens - reply.cached_tokens == self.new, "the cache holds what the first turn left"
        return seconds

    def _decode(self) -> float:
        return self.asked.decode(DECODED)

    def _decode_floor(self) -> float:
        self.bare.keep(len(self.ids))
        return _timed(lambda: self.bare.decode(self.fresh[:DECODED])) / DECODED

    def _stored(self, store: DiskStore) -> Any:
        return store.load(self.segments, self.skill, preamble=self.preamble)

    def _splice(self, segment: Any) -> object:
        return splice(self.segments, self.head, [segment], query=self.query, seam=SKILL_SEAM)


def rows_of(bench: Bench, repeats: int) -> list[Row]:
    """Every operation at one length."""
    operations = bench.operations()
    times: dict[str, list[float]] = {name: [] for name in operations}
    for turn in range(repeats + 1):
        for name, operation in operations.items():
            seconds = operation()
            if turn:  # the first only warms up
                times[name].append(seconds)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    tokens = len(bench.ids)
    decode = {"full": medians["full"], "floor": medians.pop("decode floor"), "decode": medians.pop("decode")}
    _, floor, decoded = rows_from(decode, tokens)
    return [*rows_from(medians, tokens), replace(floor, operation="decode floor"), decoded]


def verdicts(rows: Sequence[Row]) -> list[str]:
    """The targets and whether they are met."""
    said: list[str] = []
    for row in rows:
        name = f"{row.operation} at {row.tokens:,} tokens"
        if (least := FASTER.get((row.operation, row.tokens))) is not None:
            said.append(
                f"{name}, at least {least:g}x under full: {'met' if row.speedup_to_full >= least else 'missed'}"
            )
        if (most := NEAR.get((row.operation, row.tokens))) is not None:
            said.append(f"{name}, within {most:g}x of its floor: {'met' if row.ratio_to_floor <= most else 'missed'}")
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = options_parser(__doc__ or "")
    parser.add_argument("--tokens", type=count, nargs="+", metavar="N", help="lengths of prompt")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a folder with a Hugging Face model")
    options = parser.parse_args(arguments)
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    if options.quick:
        model, tokenizer = toy_chat_model()
    else:
        model, tokenizer = load_parts(options.model, None)
    engine, rows = LocalModel(model, tokenizer), list[Row]()
    machine = this_machine(dtype="float32")
    say(
        f"{'A toy' if options.quick else 'The embedded model' if options.model is None else options.model} on {machine}"
    )
    new = 5 * NEW if options.quick else NEW
    for tokens in options.tokens or (QUICK_TOKENS if options.quick else TOKENS):
        engine.clear_cache()
        turn = make_turn(engine, tokens, new)
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(engine, model, turn, Path(folder))
            say(f"{len(bench.ids):,} tokens, of which {bench.new} are new and {turn.erratum_tokens()} the erratum")
            rows += rows_of(bench, 2 if options.quick else REPEATS)
    say(table(HEADERS, [tuple(asdict(row).values()) for row in rows]))
    said = verdicts(rows)
    say("\n".join(said))
    if options.json:
        data = {"machine": str(machine), "targets": said, "rows": [asdict(row) for row in rows]}
        write_json(options.json, {"benchmark": "kv", "format": FORMAT, **data})
    return 0


def _timed(operation: Callable[[], object]) -> float:
    started = time.perf_counter()
    operation()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
