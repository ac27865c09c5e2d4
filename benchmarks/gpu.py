"""What do the operations on keys and values cost on a GPU, for a model of a 7B model's shape?

    benchmarks/gpu.sh [--quick] [--json FILE]

The model is random, in bfloat16 on the first GPU: time does not depend on what weights say. A prompt stands prefilled
when the clock starts, and the clock stops when the logits of the next token are on the device and the device is idle.
The new turn has 80 tokens.

| operation | forwarded |
|---|---|
| full | everything |
| floor | the new turn behind a slab |
| erratum | the same behind a slab that a prefix cache found by its tokens |
| in_place | a field of 8 tokens near the start, longer by two, and the new turn |
| splice | the new turn behind a head of 64 tokens and a skill compiled elsewhere, its keys turned |

Beside them the decoding of a token, on a slab and on a cache that grows by concatenation, and two checks: how far an
erratum's logits are from a cold prefill's, and how often the host waits for the device in one forward.

`--quick` takes a toy model, on a CPU if there is no GPU.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, cast

from benchmarks._first_token import HEADERS, Row, rows_from
from benchmarks._frame import BenchmarkError, options_parser, run_benchmark, say, table, this_machine, write_json
from pkv_agents.kv import (
    CacheKey,
    FieldSpan,
    HFModel,
    PrefixCache,
    SegmentModel,
    Slab,
    compile_segment,
    edit,
    splice,
)

FORMAT = 1
SHAPE: dict[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 40960,
}
TOY: dict[str, Any] = {
    **SHAPE,
    "vocab_size": 1024,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
TOKENS, QUICK_TOKENS = (4096, 16384, 32768), (256,)
TURN = [7 + index * 3 % 900 for index in range(80)]
HEAD = [11 + index * 5 % 900 for index in range(64)]
FIELD, VALUE = FieldSpan("order.status", 40, 46), [70 + index for index in range(8)]
REPEATS, DECODED = 5, 32


class Bench:
    """A random model on a device, and what is prefilled before the clock starts.

    Args:
        shape: Of the model.
        device: Where it is made.
    """

    def __init__(self, shape: dict[str, Any], device: str) -> None:
        import torch
        from transformers import Qwen2Config, Qwen2ForCausalLM

        self.torch, self.device = torch, device
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        with torch.device(device):
            made = cast("Any", Qwen2ForCausalLM)._from_config(Qwen2Config(**shape), dtype=dtype)
        self.model = made.eval()
        self.slabs, self.segments = HFModel(self.model), SegmentModel(self.model)

    def idle(self) -> None:
        """Waits until the device has done what it was given."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def timed(self, operation: Callable[[], object]) -> float:
        """Seconds of one call."""
        self.idle()
        started = time.perf_counter()
        operation()
        self.idle()
        return time.perf_counter() - started

    def operations(self, tokens: int) -> dict[str, Callable[[], Any]]:
        """What to measure at one length of prompt and turn; each call ends with the next token's logits."""
        model, facts = self.segments, self.slabs.facts
        ids = prompt_ids(tokens - len(TURN))
        prompt = model.prefill(ids).segment.with_fields(FIELD)
        head = model.prefill(HEAD).segment
        skill = compile_segment(model, ids[len(HEAD) :])
        slab = Slab(facts.shape, capacity=tokens + DECODED, limit=facts.context_limit)
        model.fill(slab, prompt)
        cache = PrefixCache(facts.shape, budget=1 << 40, limit=facts.context_limit)
        key = CacheKey(facts.fingerprint)
        with cache.lease(key, [*ids, 0], reserve=len(TURN)) as lease:
            model.fill(lease.slab, prompt)

        def floor() -> object:
            slab.crop(len(ids))
            return self.slabs.forward(slab, TURN)

        def erratum() -> object:
            with cache.lease(key, [*ids, *TURN], session="s") as lease:
                logits = self.slabs.forward(lease.slab, [*ids, *TURN][lease.cached :])
                lease.slab.crop(len(ids))  # the next call finds what this one found
                return logits

        def in_place() -> object:
            changed = edit(model, prompt, FIELD.path, VALUE, mode="in_place").segment
            return model.forward(changed, TURN).logits

        return {
            "full": lambda: model.prefill([*ids, *TURN]).logits,
            "floor": floor,
            "erratum": erratum,
            "in_place": in_place,
            "splice": lambda: splice(model, head, [skill], query=TURN).logits,
        }

    def decoding(self, tokens: int) -> dict[str, float]:
        """Seconds a token, decoded behind a prompt of that length."""
        from transformers import DynamicCache

        torch, facts, ids = self.torch, self.slabs.facts, prompt_ids(tokens)
        slab = Slab(facts.shape, capacity=tokens + 2 * DECODED, limit=facts.context_limit)
        self.slabs.forward(slab, ids)
        growing: Any = DynamicCache()
        with torch.inference_mode():
            self.model(input_ids=torch.tensor([ids], device=self.device), cache=growing, logits_to_keep=1)

        def by_slab() -> None:
            for token in range(DECODED):
                self.slabs.forward(slab, [5 + token])
            slab.crop(tokens)

        def by_concatenation() -> None:
            with torch.inference_mode():
                for token in range(DECODED):
                    one = torch.tensor([[5 + token]], device=self.device)
                    self.model(input_ids=one, cache=growing, logits_to_keep=1)
            growing.crop(-DECODED)

        found: dict[str, float] = {}
        for name, run in (("decode, slab", by_slab), ("decode, concatenated", by_concatenation)):
            run()
            found[name] = self.timed(run) / DECODED
        return found

    def waits(self, operation: Callable[[], Any]) -> int | None:
        """How often the host waits for the device in one call; None without a GPU."""
        if self.device != "cuda":
            return None
        self.torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                operation()
        finally:
            self.torch.cuda.set_sync_debug_mode("default")
        return sum("synchroniz" in str(one.message) for one in told)


def prompt_ids(count: int) -> list[int]:
    """Some token ids; the first are the head's."""
    return [*HEAD, *(100 + index * 7 % 800 for index in range(count - len(HEAD)))]


def measure(bench: Bench, tokens: int, repeats: int) -> tuple[list[Row], dict[str, object]]:
    """Every operation at one length. They take turns, so that a slow moment of the machine hits all of them."""
    operations = bench.operations(tokens)
    times: dict[str, list[float]] = {name: [] for name in operations}
    for turn in range(repeats + 1):
        for name, operation in operations.items():
            taken = bench.timed(operation)
            if turn:  # the first only warms up
                times[name].append(taken)
    medians = {name: statistics.median(taken) for name, taken in times.items()} | bench.decoding(tokens)
    off = (operations["erratum"]().float() - operations["full"]().float()).abs().max()
    checks: dict[str, object] = {"tokens": tokens, "erratum_to_cold": round(float(off), 4)}
    checks |= {f"waits_{name}": bench.waits(operation) for name, operation in operations.items()}
    return rows_from(medians, tokens), checks


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = options_parser(__doc__ or "")
    options = parser.parse_args(arguments)
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.quick:
        raise BenchmarkError("torch sees no GPU; --quick runs a toy model on the CPU")
    started = time.perf_counter()
    bench = Bench(TOY if options.quick else SHAPE, device)
    dtype = str(bench.segments.dtype).removeprefix("torch.")
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    machine = f"{name}, {this_machine(dtype=dtype)}"
    parameters = sum(weight.numel() for weight in bench.model.parameters())
    made = time.perf_counter() - started
    say(f"A random model of {parameters / 1e9:.2f}e9 weights on {machine}, made in {made:.0f} s")
    rows, checks = list[Row](), list[dict[str, object]]()
    for tokens in QUICK_TOKENS if options.quick else TOKENS:
        more, check = measure(bench, tokens, REPEATS)
        rows, checks = rows + more, [*checks, check]
        say(table(HEADERS, [tuple(asdict(row).values()) for row in more]))
        say(", ".join(f"{what}: {value}" for what, value in check.items()))
        if options.json:
            data = {"machine": machine, "parameters": parameters, "rows": [asdict(row) for row in rows]}
            write_json(options.json, {"benchmark": "gpu", "format": FORMAT, **data, "checks": checks})
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
