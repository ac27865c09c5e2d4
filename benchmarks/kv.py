"""What does each operation on keys and values cost until the first token, beside a full prefill and beside the floor?

    python -m benchmarks.kv [--tokens N ...] [--quick] [--json FILE]

A prompt of so many tokens has a field near its start. It stands prefilled in memory when the clock starts; the clock
stops when the logits behind a question are there. `full` prefills everything, as a program without a cache does.
`floor` only forwards the question behind a slab that holds the right prompt: nothing that answers can be faster. The
edits give the field a new value, two tokens longer (`stale` does not: it is the control). The splices put a compiled
skill, half of the prompt, behind the other half; `splice from disk` maps it from a file that was verified before.

Time does not depend on what weights say, so the model is random, in the shape of the embedded one. How well each
operation decides is another question, which a random model cannot answer.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, cast

from benchmarks._first_token import HEADERS, Row, rows_from
from benchmarks._frame import options_parser, run_benchmark, say, table, this_machine, write_json
from pkv_agents.kv import (
    DiskStore,
    EditMode,
    FieldSpan,
    Forwarded,
    HFModel,
    KVSegment,
    SegmentModel,
    Slab,
    edit,
    keep_freed_memory,
    splice,
)

FORMAT = 1
TOKENS = (512, 2048)
QUESTION = [5 + index for index in range(24)]
ERRATUM = [90 + index for index in range(24)]
PREAMBLE = [3, 4]
FIELD = FieldSpan("order.status", 40, 46)
VALUE = [70 + index for index in range(8)]
KEEP = 64

EMBEDDED: dict[str, Any] = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
}
SMALL: dict[str, Any] = {
    **EMBEDDED,
    "vocab_size": 1024,
    "hidden_size": 72,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
}


class Bench:
    """A model and what is prefilled before the clock starts.

    Args:
        shape: Of the random model.
    """

    def __init__(self, shape: dict[str, Any]) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        keep_freed_memory()
        model = cast("Any", LlamaForCausalLM)(LlamaConfig(**shape)).eval()
        self.segments, self.slabs = SegmentModel(model), HFModel(model)

    def operations(self, tokens: int, store: DiskStore) -> dict[str, Callable[[], object]]:
        """What to measure at one length; each call answers the question once."""
        model = self.segments
        ids = [100 + index * 7 % 800 for index in range(tokens)]
        prompt = model.prefill(ids).segment.with_fields(FIELD)
        head, skill = prompt.slice(0, tokens // 2), ids[tokens // 2 :]
        compiled = store.compile(model, skill, preamble=PREAMBLE)
        slab = Slab(self.slabs.facts.shape, capacity=tokens + len(QUESTION), limit=self.slabs.facts.context_limit)
        model.fill(slab, prompt)

        def floor() -> object:
            slab.crop(tokens)
            return self.slabs.forward(slab, QUESTION)

        def edited(mode: EditMode) -> Callable[[], object]:
            return lambda: model.forward(self._edited(prompt, mode).segment, QUESTION)

        def spliced(seam: int) -> Callable[[], object]:
            return lambda: splice(model, head, [compiled], query=QUESTION, seam=seam)

        def from_disk() -> object:
            segment = store.compile(model, skill, preamble=PREAMBLE)
            return splice(model, head, [segment], query=QUESTION, seam=4)

        modes: tuple[EditMode, ...] = ("stale", "in_place", "erratum", "field_erratum", "selective")
        return {
            "full": lambda: model.prefill([*ids, *QUESTION]),
            "floor": floor,
            **{mode: edited(mode) for mode in modes},
            **{f"splice, seam {seam}": spliced(seam) for seam in (0, 4, 16)},
            "splice from disk, seam 4": from_disk,
        }

    def _edited(self, prompt: KVSegment, mode: EditMode) -> Forwarded:
        return edit(self.segments, prompt, FIELD.path, VALUE, mode=mode, erratum=ERRATUM, query=QUESTION, keep=KEEP)


def rows_of(bench: Bench, tokens: int, repeats: int, store: DiskStore) -> list[Row]:
    """Every operation at one length. They take turns, so that a slow minute of the machine hits all of them."""
    operations = bench.operations(tokens, store)
    times: dict[str, list[float]] = {name: [] for name in operations}
    for turn in range(repeats + 1):
        for name, operation in operations.items():
            started = time.perf_counter()
            operation()
            if turn:  # the first only warms up
                times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return rows_from(medians, tokens)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = options_parser(__doc__ or "")
    parser.add_argument("--tokens", type=int, nargs="+", default=list(TOKENS), metavar="N", help="lengths of prompt")
    options = parser.parse_args(arguments)
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    bench, rows = Bench(SMALL if options.quick else EMBEDDED), list[Row]()
    machine = this_machine(dtype="float32")
    say(f"A random model in the shape of {'a toy' if options.quick else 'SmolLM2-135M'} on {machine}")
    with tempfile.TemporaryDirectory() as folder:
        for tokens in options.tokens:
            rows += rows_of(bench, tokens, 3, DiskStore(folder))
    say(table(HEADERS, [tuple(asdict(row).values()) for row in rows]))
    if options.json:
        data = {"machine": str(machine), "rows": [asdict(row) for row in rows]}
        write_json(options.json, {"benchmark": "kv", "format": FORMAT, **data})
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
