"""What comes after the first token: behind the clean prefill the model writes greedily, and each arm is shown the same.

Where an arm's own choice first differs is where its greedy answer would part from the clean one. The writing goes on
behind the end of the answer, into turns that the model makes up, since a call is shorter than what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from benchmarks._modes import Pair, divergence
from pkv_agents.kv import KVSegment, SegmentModel


@dataclass(frozen=True, slots=True)
class ContinuationRow:
    """One arm behind one prompt.

    Attributes:
        seed: The case.
        arm: The arm.
        tokens: Over how many tokens the divergence was taken.
        kl_mean: Divergence from the clean prefill, the mean over them, in nats.
        kl_most: The largest of them.
        written: How many tokens were written.
        parts_at: The first of them at which its own choice differs; None: nowhere.
    """

    seed: int
    arm: str
    tokens: int
    kl_mean: float
    kl_most: float
    written: int
    parts_at: int | None


def continuation_rows(pair: Pair, *, tokens: int, written: int, keep: int) -> Iterator[ContinuationRow]:
    """Every arm of a pair but the selective one, and the system text put in place as a skill.

    Args:
        pair: The pair.
        tokens: Over how many tokens to take the divergence.
        written: How many tokens to write, at least as many.
        keep: See `Pair.arms`.
    """
    segments = pair.subject.segments
    base, spliced = pair.prefilled(), pair.prefilled(as_skill=True)
    edited = {arm: make for arm, make in pair.arms(base, keep=keep).items() if not arm.startswith("selective")}
    rest = pair.old[pair.turn :]
    arms: dict[str, Callable[[], KVSegment]] = {"splice": lambda: segments.forward(spliced, rest).segment}
    for ids, some in ((pair.new, edited), (pair.old, arms)):
        truth = list(_written(segments, segments.prefill(list(ids)).segment, written))
        for arm, make in some.items():
            yield _shown(pair, arm, make(), truth, tokens)


def _written(segments: SegmentModel, segment: KVSegment, size: int) -> Iterator[tuple[int, torch.Tensor]]:
    """What the model writes greedily behind a prompt, and the logits by which it chose each token."""
    done = segments.forward(segment.slice(0, len(segment) - 1), segment.ids[-1:].tolist())
    for _ in range(size):
        assert done.logits is not None
        token = int(done.logits.argmax())
        yield token, done.logits
        done = segments.forward(done.segment, [token])


def _shown(
    pair: Pair, arm: str, segment: KVSegment, truth: list[tuple[int, torch.Tensor]], tokens: int
) -> ContinuationRow:
    segments = pair.subject.segments
    done = segments.forward(segment.slice(0, len(segment) - 1), segment.ids[-1:].tolist())
    distances: list[float] = []
    parts_at: int | None = None
    for index, (token, wanted) in enumerate(truth):
        assert done.logits is not None
        if index < tokens:
            distances.append(divergence(wanted, done.logits))
        elif parts_at is not None:
            break  # nothing is left to be seen
        if parts_at is None and int(done.logits.argmax()) != token:
            parts_at = index
        done = segments.forward(done.segment, [token])
    kl = round(sum(distances) / len(distances), 5), round(max(distances), 5)
    return ContinuationRow(pair.case.seed, arm, len(distances), *kl, len(truth), parts_at)
