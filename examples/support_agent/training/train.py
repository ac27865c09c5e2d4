"""Train the shop's adapter.

    python -m examples.support_agent.training --out DIR [--model DIR] [--tokens 2200000] [--seed 0] [--workers 2]

Two single-threaded workers share every step (gloo, gradients averaged): on CPU cores that beats one with two threads.
Prints and logs loss and accuracy by kind of decision, and writes a checkpoint every few minutes.
"""

# torch's stubs leave many members partly typed; every value here is annotated where it is made.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import argparse
import ctypes
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.multiprocessing.spawn import spawn
from torch.nn import functional
from transformers import AutoTokenizer

from .curriculum import LEVELS, Curriculum
from .fast_llama import PROJECTIONS, FastLlama, LoraSettings
from .rows import RowMaker, RowPlan
from .writer import Row


def main() -> None:
    """Parse the arguments and start the workers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", type=Path, default=None, help="the embedded model's folder (default: fetched)")
    parser.add_argument("--out", type=Path, required=True, help="where adapter, log and checkpoints go")
    parser.add_argument("--tokens", type=int, default=2_200_000, help="tokens in all")
    parser.add_argument("--rate", type=float, default=6e-4, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--level", type=int, default=0, help="level to start at, with --adapter")
    parser.add_argument("--step-tokens", type=int, default=1400, help="tokens a worker and step, at least")
    parser.add_argument("--warm-up", type=int, default=40, help="steps until the learning rate is at its peak")
    parser.add_argument("--long", type=int, default=900, help="a head of more tokens goes through without a graph")
    parser.add_argument("--skills", type=float, default=0.4, help="share of rows whose rules are skills")
    parser.add_argument("--rewritten", type=float, default=0.4, help="share of rows whose head is rewritten")
    parser.add_argument("--at-once", action="store_true", help="answers without a line before the call, short rules")
    parser.add_argument("--adapter", type=Path, default=None, help="continue from this adapter_model.safetensors")
    options = parser.parse_args()
    if options.model is None:
        from ..embedded import ensure_model

        options.model = ensure_model()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile() as meeting:
        spawn(_work, args=(options, meeting.name + ".gloo"), nprocs=options.workers)


def _work(rank: int, options: argparse.Namespace, meeting: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=options.workers)
    model = FastLlama(options.model, LoraSettings())
    if options.adapter:
        model.load_adapter(load_file(options.adapter))
    trainer = _Trainer(model, options, rank)
    trainer.run()
    dist.destroy_process_group()


class _Trainer:
    """One worker's loop."""

    def __init__(self, model: FastLlama, options: argparse.Namespace, rank: int) -> None:
        self.model, self.options, self.rank = model, options, rank
        self.rng = random.Random(f"{options.seed}/{rank}")
        self.maker = RowMaker(AutoTokenizer.from_pretrained(options.model), self.rng)
        self.optimizer = torch.optim.AdamW(model.trainable(), lr=options.rate, betas=(0.9, 0.98), weight_decay=0.0)
        self.curriculum = Curriculum.start(
            options.level, skills=options.skills, rewritten=options.rewritten, at_once=options.at_once
        )
        self.tokens = 0
        self.hits: dict[str, list[int]] = defaultdict(list)
        self.losses: list[float] = []
        self.started = self.saved = time.monotonic()

    def run(self) -> None:
        """Steps until all tokens are spent."""
        step = 0
        while self.tokens < self.options.tokens:
            progress = self.tokens / self.options.tokens
            self._step(progress, step)
            step += 1
            if step % 20 == 0:
                self._log(step, progress)
            if self.rank == 0 and time.monotonic() - self.saved > 300:
                self.saved = time.monotonic()
                save_adapter(self.model, self.options.out)
        if self.rank == 0:
            save_adapter(self.model, self.options.out)

    def _step(self, progress: float, step: int) -> None:
        spent = 0
        total = 0.0
        right, counts = [0.0] * LEVELS, [0.0] * LEVELS
        while spent < self.options.step_tokens:
            plan = self.curriculum.draw(self.rng)
            row = self.maker.draw(plan)
            loss, weight, hits = self._loss(row, plan)
            counts[plan.level] += len(row.answers)
            right[plan.level] += hits
            loss.backward()
            spent += len(row.ids)
            total += weight
        parameters = self.model.trainable()
        flat = torch.cat(
            [_gradient(p).flatten() for p in parameters] + [torch.tensor([*right, *counts, total, float(spent)])]
        )
        dist.all_reduce(flat)
        weight, tokens = float(flat[-2]), int(flat[-1])
        tallies = flat[-2 - 2 * LEVELS : -2].tolist()
        self.curriculum.update(tallies[:LEVELS], tallies[LEVELS:], progress)
        self._scatter(flat[: -2 - 2 * LEVELS] / max(weight, 1.0))
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.rate * _schedule(progress, step, self.options.warm_up)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.tokens += tokens
        _give_back_memory()

    def _loss(self, row: Row, plan: RowPlan) -> tuple[Tensor, float, int]:
        """The weighted sum of the answers' losses, the sum of the weights, and how many decisions were right."""
        ids = torch.tensor(row.ids)
        weights = torch.tensor(row.weights)
        targets = weights.nonzero().flatten()
        positions, mask = layout(row)
        head = row.head if row.head > self.options.long else 0
        logits = self.model(ids, targets - 1, head=head, positions=positions, mask=mask)
        losses = functional.cross_entropy(logits, ids[targets], reduction="none")
        right = dict(zip(targets.tolist(), (logits.argmax(-1) == ids[targets]).tolist(), strict=True))
        hits = [int(right[answer.index]) for answer in row.answers]
        for answer, hit in zip(row.answers, hits, strict=True):
            self.hits[f"{'skills' if plan.skills else plan.level} {answer.kind}"].append(hit)
        picked = weights[targets]
        loss = (losses * picked).sum()
        self.losses.append(float(loss.detach() / picked.sum()))
        return loss, float(picked.sum()), sum(hits)

    def _scatter(self, flat: Tensor) -> None:
        start = 0
        for parameter in self.model.trainable():
            size = parameter.numel()
            parameter.grad = flat[start : start + size].view_as(parameter)
            start += size

    def _log(self, step: int, progress: float) -> None:
        line = {
            "step": step,
            "progress": round(progress, 3),
            "tokens": self.tokens,
            "level": self.curriculum.level,
            "minutes": round((time.monotonic() - self.started) / 60, 1),
            "loss": round(sum(self.losses) / max(len(self.losses), 1), 3),
            "accuracy": {k: [round(sum(v) / len(v), 3), len(v)] for k, v in sorted(self.hits.items())},
        }
        self.hits.clear()
        self.losses.clear()
        if self.rank == 0:
            text = json.dumps(line)
            print(text, flush=True)
            with (self.options.out / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(text + "\n")


def layout(row: Row) -> tuple[Tensor, Tensor | None]:
    """The position of every token of a row, and what its branches' tokens see."""
    positions = torch.arange(len(row.ids))
    if not row.branches:
        return positions, None
    mask = torch.full((len(row.ids) - row.trunk, len(row.ids)), float("-inf"), dtype=torch.bfloat16)
    for branch in row.branches:
        width = branch.stop - branch.start
        rows = slice(branch.start - row.trunk, branch.stop - row.trunk)
        positions[branch.start : branch.stop] = branch.point + torch.arange(width)
        mask[rows, : branch.point] = 0
        mask[rows, branch.start : branch.stop] = torch.full((width, width), float("-inf")).triu_(1).to(mask.dtype)
    return positions, mask


def _give_back_memory() -> None:
    """Rows of many lengths leave glibc's heap in pieces; without this a worker grows to several times what it uses."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _gradient(parameter: torch.nn.Parameter) -> Tensor:
    return parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)


def _schedule(progress: float, step: int, warm_up: int) -> float:
    """Warm-up, then flat, then a linear decay in the second half."""
    warm = min(1.0, (step + 1) / warm_up)
    return warm * (1.0 if progress < 0.5 else 1.0 - 0.95 * (progress - 0.5) / 0.5)


def save_adapter(model: FastLlama, folder: Path) -> None:
    """Write the adapter in peft's format."""
    settings = model.settings
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "SmolLM2-135M-Instruct",
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(PROJECTIONS),
        "layers_to_transform": list(range(settings.first_layer, model.shape.layers)),
        "inference_mode": True,
    }
    temporary = folder / "adapter_model.tmp"
    save_file(model.adapter_tensors(), temporary)
    temporary.replace(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
