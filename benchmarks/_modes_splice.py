"""How far a spliced policy is from a clean prefill, with control rows that show what each number means.

The policy is compiled apart and put into the prompt; what stands before it and behind it is computed. Two places are
compared with the clean prefill: the end of the prompt, and where the tool is chosen (behind the clean answer's line),
which hangs on the policy's rules. Cosine would call all of these rows equal; the control rows say what is bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks._modes import Pair, common, divergence, system_text
from pkv_agents.kv import KVSegment, SegmentModel, compile_segment, splice
from pkv_agents.local import find_skills

CLEAR = 1.0
"""Logits between the best and the second-best token from which a decision is no near-tie."""


@dataclass(frozen=True, slots=True)
class SpliceRow:
    """One world, one way to splice.

    Attributes:
        seed: The world.
        arm: The way.
        tokens: Of the skill.
        kl_end: Divergence from the clean prefill at the end of the prompt, in nats.
        kl_tool: The same where the tool is chosen.
        agrees: Whether the tool's next token is the clean prefill's.
        clear: Whether the clean prefill's choice there is no near-tie.
    """

    seed: int
    arm: str
    tokens: int
    kl_end: float
    kl_tool: float
    agrees: bool
    clear: bool


def splice_rows(pair: Pair) -> list[SpliceRow]:
    """Every arm on one world; the state stands behind the policy."""
    subject, segments = pair.subject, pair.subject.segments
    ids = list(pair.old)
    policy = system_text(pair.case, pair.case.world.policy, "after").strip()
    found = find_skills(ids[: subject.template.head_size(ids)], [subject.encode(policy)])[0]
    front, skill, rest = ids[: found.start], list(found.ids), ids[found.stop :]
    head = segments.prefill(front).segment
    (value, _), (tool, other) = pair.values, pair.tools
    first, second = pair.answer(value, tool), pair.answer(value, other)
    line = first[: common(first, second)]
    truth = _two(segments, segments.prefill(ids).segment, line, None)
    best = torch.topk(truth[1], 2).values
    clear = float(best[0] - best[1]) >= CLEAR
    rows: list[SpliceRow] = []
    for arm, made in _arms(segments, head, skill, rest, subject.preamble).items():
        end, choice = _two(segments, made[0], line, made[1])
        agrees = int(choice.argmax()) == int(truth[1].argmax())
        kl_end, kl_tool = divergence(truth[0], end), divergence(truth[1], choice)
        rows.append(SpliceRow(pair.case.seed, arm, len(skill), round(kl_end, 5), round(kl_tool, 5), agrees, clear))
    return rows


def _arms(
    segments: SegmentModel, head: KVSegment, skill: list[int], rest: list[int], preamble: list[int]
) -> dict[str, tuple[KVSegment, torch.Tensor | None]]:
    behind, bare = compile_segment(segments, skill, preamble=preamble), compile_segment(segments, skill)
    made: dict[str, tuple[KVSegment, torch.Tensor | None]] = {}

    def add(name: str, parts: Sequence[KVSegment], seam: int) -> None:
        done = splice(segments, head, parts, query=rest, seam=seam)
        made[name] = done.segment, done.logits

    for seam in (0, 1, 4, 16):
        add(f"preamble, seam {seam}", [behind], seam)
    for seam in (0, 16):
        add(f"no preamble, seam {seam}", [bare], seam)
    for blocks in (4, 16):
        cuts = [len(skill) * index // blocks for index in range(blocks + 1)]
        parts = [compile_segment(segments, skill[a:b], preamble=preamble) for a, b in zip(cuts, cuts[1:], strict=False)]
        add(f"{blocks} blocks, preamble, seam 4", parts, 4)
    moved = behind.moved(head.stop)
    add("control: no rotation", [replace(moved, written=moved.positions)], 0)
    turned = compile_segment(segments, skill[::-1], preamble=preamble)
    add("control: tokens reversed", [replace(turned, ids=skill)], 0)
    absent = segments.forward(head, rest)
    made["control: skill absent"] = absent.segment, absent.logits
    return made


def _two(
    segments: SegmentModel, segment: KVSegment, line: Sequence[int], end: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits at the end of a prompt and behind an answer's line."""
    if end is None:
        last = segments.forward(segment.slice(0, len(segment) - 1), segment.ids[-1:].tolist())
        end = last.logits
    choice = segments.forward(segment, line).logits
    assert end is not None and choice is not None
    return end, choice
