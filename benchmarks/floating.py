"""A floating memory over thirty turns: does the reused memory drift from a clean prefill, and what does it cost?

    python -m benchmarks.floating [--turns N] [--model DIR] [--quick] [--json FILE]

A memory of customers' records (about a thousand tokens, in three parts) stands behind the transcript at each query and
nowhere in what is stored. It is edited three times; a part that changes is compiled again. At each query the
distribution of the next token is held against a clean prefill of the same tokens (KL), in arms:

| arm | memory |
|---|---|
| floating | reused, compiled behind a preamble |
| floating, seam N | the same, with N tokens of each part computed anew in their place |
| absent | not there: the control, which says what a KL of this size means |

Flat means that the last third is no worse than the first. `--quick` runs a random toy model on bytes for a tenth of the
turns: it shows that the benchmark runs, its numbers mean nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks._frame import (
    BenchmarkError,
    count,
    options_parser,
    run_benchmark,
    say,
    table,
    tenth,
    this_machine,
    write_json,
)
from benchmarks._toy import TOY
from examples.support_agent.embedded import ensure_model
from pkv_agents.kv import FloatingMemory, Forwarded, SegmentModel

FORMAT = 1
SEAM = 16
NAMES = "Mara Tom Ada Ines Ravi Olga Paul Yuki Nora Emil Lena Omar".split()
POLICY = (
    "You are the support agent of a small shop. Answer in one short sentence. An order may be cancelled until it is "
    "shipped. Gold customers get a refund without asking; silver customers send the goods back first; others get a "
    "voucher. Never promise a date that is not in the records.\n"
)
PREAMBLE = f"You are a helpful assistant.\n{POLICY}"
"""What the parts are compiled behind: text like that which stands before them, though not that text."""


@dataclass(frozen=True, slots=True)
class Row:
    """One turn of one arm.

    Attributes:
        arm: Its name.
        turn: From 1.
        tokens: Of the whole sequence.
        kl: From the clean prefill's distribution of the next token, in nats.
        agrees: Whether the likeliest token is the same.
        seconds: Until the next token's logits.
        clean_s: The same for the clean prefill.
    """

    arm: str
    turn: int
    tokens: int
    kl: float
    agrees: bool
    seconds: float
    clean_s: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model and how it reads text."""

    model: SegmentModel
    encode: Callable[[str], list[int]]


def record(part: int, version: int) -> str:
    """One part of the memory: four customers' records. A version moves their orders on."""
    lines: list[str] = []
    for index in range(4):
        number = 4 * part + index
        status = ("in transit", "delivered", "returned", "lost")[(number + version) % 4]
        tier = ("gold", "silver", "bronze")[number % 3]
        lines.append(f"customer {NAMES[number]}: tier {tier}, town {'Bern Graz Oslo Lund'.split()[index]}")
        lines += [
            f"  order W{1000 + 97 * number + 13 * order}: {status if order == version % 3 else 'delivered'}, "
            f"{20 + 7 * order + number} euro, {'lamp chair desk shelf'.split()[order % 4]}"
            for order in range(3)
        ]
    return "\n".join(lines) + "\n"


def question(turn: int) -> str:
    """The query of a turn."""
    name = NAMES[5 * turn % len(NAMES)]
    asked = ("where is the newest order", "which tier is it", "may the first order be cancelled")[turn % 3]
    return f"\nUser: About {name}: {asked}?\nAgent:"


def run(loaded: Loaded, turns: int, seam: int, *, control: bool) -> tuple[list[Row], dict[str, int]]:
    """All turns of one arm (and of the control beside it), and what it cost in tokens."""
    model, encode = loaded.model, loaded.encode
    memory = FloatingMemory(model, model.prefill(encode(POLICY)).segment, preamble=encode(PREAMBLE), seam=seam)
    for part in range(3):
        memory.put(f"part {part}", encode(record(part, 0)))
    edits = {turns * number // 4 + 1: number for number in (1, 2, 3)}
    rows: list[Row] = []
    for turn in range(1, turns + 1):
        if turn in edits:
            version = edits[turn]
            memory.put(f"part {version - 1}", encode(record(version - 1, version)))
        query = encode(question(turn))
        asked, seconds = timed(lambda query=query: memory.ask(query))
        clean, clean_s = timed(lambda asked=asked: model.prefill(asked.segment.ids.tolist()))
        arm = f"floating, seam {seam}" if seam else "floating"
        rows.append(compared(arm, turn, asked, clean, seconds, clean_s))
        if control:
            bare, bare_s = timed(lambda query=query: model.forward(memory.transcript, query))
            rows.append(compared("absent", turn, bare, clean, bare_s, clean_s))
        memory.settle(answered(model, asked, 6))
    return rows, asdict(memory.cost)


def answered(model: SegmentModel, asked: Forwarded, most: int) -> list[int]:
    """The likeliest tokens behind a query."""
    reply: list[int] = []
    while len(reply) < most:
        assert asked.logits is not None
        reply.append(int(asked.logits.argmax()))
        asked = model.forward(asked.segment, reply[-1:])
    return reply


def timed(operation: Callable[[], Forwarded]) -> tuple[Forwarded, float]:
    """What a call gives, and its seconds."""
    started = time.perf_counter()
    return operation(), time.perf_counter() - started


def compared(arm: str, turn: int, have: Forwarded, clean: Forwarded, seconds: float, clean_s: float) -> Row:
    """A row of one turn."""
    assert have.logits is not None and clean.logits is not None
    wanted, found = clean.logits.float().log_softmax(-1), have.logits.float().log_softmax(-1)
    divergence = float((wanted.exp() * (wanted - found)).sum())
    agrees = int(wanted.argmax()) == int(found.argmax())
    return Row(arm, turn, len(have.segment), round(divergence, 6), agrees, round(seconds, 4), round(clean_s, 4))


def summary(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Of each arm the median KL of its thirds, the agreement, and the time beside a clean prefill's."""
    found: list[dict[str, object]] = []
    for arm in dict.fromkeys(row.arm for row in rows):
        mine = [row for row in rows if row.arm == arm]
        third = max(1, len(mine) // 3)
        thirds = [mine[:third], mine[third:-third] or mine, mine[-third:]]
        found.append(
            {
                "arm": arm,
                **{
                    name: round(statistics.median(row.kl for row in part), 6)
                    for name, part in zip(("kl_first", "kl_middle", "kl_last"), thirds, strict=True)
                },
                "agreement": round(sum(row.agrees for row in mine) / len(mine), 3),
                "speedup": round(statistics.median(row.clean_s / row.seconds for row in mine), 1),
            }
        )
    return found


def load(folder: Path | None, *, quick: bool) -> Loaded:
    """The embedded model in float32, another one, or a random toy that reads bytes.

    Raises:
        BenchmarkError: There is no such model.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    if quick:
        return Loaded(
            SegmentModel(cast("Any", LlamaForCausalLM)(LlamaConfig(**TOY)).eval()), lambda text: list(text.encode())
        )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = folder or ensure_model()
    try:
        made = cast("Any", AutoModelForCausalLM).from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        tokenizer = cast("Any", AutoTokenizer).from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"no model can be loaded from {folder}: {str(error).partition(chr(10))[0]}") from error
    return Loaded(SegmentModel(made.eval()), lambda text: tokenizer.encode(text, add_special_tokens=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = options_parser(__doc__ or "")
    parser.add_argument("--turns", type=count, default=30, metavar="N", help="turns of each arm (default 30)")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a folder with a Hugging Face model")
    options = parser.parse_args(arguments)
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    turns = max(4, tenth(options.turns) if options.quick else options.turns)
    loaded = load(options.model, quick=options.quick)
    machine = this_machine(dtype="float32")
    say(f"{turns} turns, 3 edits, on {machine}")
    rows, costs = list[Row](), dict[str, dict[str, int]]()
    for seam in (0, SEAM):
        more, cost = run(loaded, turns, seam, control=not seam)
        rows, costs[f"seam {seam}"] = rows + more, cost
        if options.json:
            data = {"machine": str(machine), "rows": [asdict(row) for row in rows], "costs": costs}
            write_json(options.json, {"benchmark": "floating", "format": FORMAT, **data, "summary": summary(rows)})
    lines = summary(rows)
    say(table(tuple(lines[0]), [tuple(line.values()) for line in lines]))
    for name, cost in costs.items():
        say(f"tokens, {name}: " + ", ".join(f"{what} {value}" for what, value in cost.items()))
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
