"""Pairs of prompts that differ in one field, and what a model decides behind each way to change that field.

    old    head with the old value, some answered turns | question            the first clean prefill
    new    head with the new value, the same turns      | question            the second, and the oracle
    told   the old head, the same turns                 | question, erratum

The part before the bar is prefilled before the change is known; each arm edits that and forwards the rest. A decision
is what the policy asks for: the deciding field's value as the model names it, and then the tool, each a choice between
the old answer and the new one by the next token's logits. A pair counts where both clean prefills decide rightly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch

from benchmarks._arms import openai_tools, requests_of
from benchmarks._cases import Case, draw_case
from examples.support_agent.policy import read_field
from pkv_agents import Message
from pkv_agents.kv import KVSegment, Placed, SegmentModel, TokenRun, compile_segment, compose, rewrite
from pkv_agents.local import SKILL_PREAMBLE, SKILL_SEAM, LocalModel, changed_runs, find_skills

Place = Literal["before", "after"]
"""Where the state stands: before the policy or after it."""

FIRST_SEED = 80_000
"""No other benchmark draws these."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a model decides between an old and a new answer.

    Attributes:
        names_new: Whether it names the new value.
        takes_new: Whether it then takes the new tool.
        margin: Logits between the two values; a small one is a near-tie.
        logits: Of the value's first differing token, (vocab,).
    """

    names_new: bool
    takes_new: bool
    margin: float
    logits: torch.Tensor


class Subject:
    """A model and what the arms need of it.

    Args:
        engine: The model.
    """

    def __init__(self, engine: LocalModel) -> None:
        self.engine = engine
        self.segments: SegmentModel = engine.segments
        self.template = engine.template

    def ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a request with the shop's tools."""
        return self.engine.render_ids(messages, openai_tools())

    def encode(self, text: str) -> list[int]:
        """Token ids of a piece of an answer or of a head."""
        return self.template.encode(text)

    @cached_property
    def preamble(self) -> list[int]:
        """What stands before a skill while it is compiled."""
        return self.template.preamble(SKILL_PREAMBLE)


@dataclass(frozen=True, slots=True)
class Pair:
    """A case in the form that the arms need.

    Attributes:
        case: The case; what changed is told with the question.
        subject: The model.
        place: Where the state stands.
        old: Ids with the old head.
        new: Ids with the new head.
        told: Ids with the old head and the erratum.
        turn: Where the new turn begins in `old`.
        runs: What differs between the heads.
    """

    case: Case
    subject: Subject
    place: Place
    old: tuple[int, ...]
    new: tuple[int, ...]
    told: tuple[int, ...]
    turn: int
    runs: tuple[TokenRun, ...]

    @property
    def values(self) -> tuple[str, str]:
        """The deciding field's old value and its new one."""
        name, order = self.case.world.rules[self.case.question.topic].field, self.case.question.order_id
        return read_field(self.case.world.shop, name, order), read_field(self.case.states()[-1], name, order)

    @property
    def tools(self) -> tuple[str, str]:
        """The right tool before and after."""
        return self.case.stale_answer()[0], self.case.answers()[-1][0]

    def answer(self, value: str, tool: str) -> list[int]:
        """Ids of an answer up to the tool's name."""
        return self.subject.encode(f'{self.case.path}: {json.dumps(value)}\n{{"name":"{tool}"')

    def decide(self, segment: KVSegment) -> Decision:
        """What the model decides behind a whole prompt."""
        (old, new), (tool, other) = self.values, self.tools
        _, logits, gap = self._choose(segment, self.answer(old, tool), self.answer(new, tool))
        named = new if gap > 0 else old
        takes_new = self._choose(segment, self.answer(named, tool), self.answer(named, other))[2] > 0
        return Decision(gap > 0, takes_new, abs(gap), logits)

    def _choose(self, segment: KVSegment, a: list[int], b: list[int]) -> tuple[int, torch.Tensor, float]:
        at = common(a, b)
        logits = self.subject.segments.forward(segment, a[:at]).logits
        assert logits is not None
        return at, logits, float(logits[b[at]] - logits[a[at]])

    def prefilled(self, *, as_skill: bool = False) -> KVSegment:
        """What stands in the cache before the change: prefilled, or with the system text put in place as a skill."""
        segments, ids = self.subject.segments, list(self.old[: self.turn])
        if not as_skill:
            return segments.prefill(ids).segment
        text = system_text(self.case, requests_of(self.case, self.subject.engine.profile)["stale"][0].text, self.place)
        found = find_skills(ids[: self.subject.template.head_size(ids)], [self.subject.encode(text)])[0]
        skill = compile_segment(segments, found.ids, preamble=self.subject.preamble)
        return compose(segments, ids, [Placed(found.start, skill)], seam=SKILL_SEAM).segment

    def arms(self, base: KVSegment, *, keep: int) -> dict[str, Callable[[], KVSegment]]:
        """Each way to change the field, as the whole prompt that it makes."""
        segments, rest, told = self.subject.segments, self.old[self.turn :], self.told[self.turn :]
        return {
            "stale": lambda: segments.forward(base, rest).segment,
            "in_place": lambda: rewrite(segments, base, self.runs, rest).segment,
            "erratum": lambda: segments.forward(base, told).segment,
            "field_erratum": lambda: rewrite(segments, base, self.runs, told).segment,
            f"selective@{keep}": lambda: rewrite(segments, base, self.runs, rest, query=rest, keep=keep).segment,
        }


def pairs(subject: Subject, place: Place, *, largest: int = 2) -> Iterator[Pair]:
    """Pairs with a short policy and history, in the order of their seeds.

    Args:
        subject: The model.
        place: Where the state stands.
        largest: Most topics of the policy.
    """
    for seed in range(FIRST_SEED, FIRST_SEED + 8_000, 8):  # a flip that comes with the question
        case = draw_case(seed)
        told_before = any(case.path in note for note in case.notes()[:-1])
        if len(case.world.rules) <= largest and len(case.world.requests) <= 3 and not told_before:
            yield pair_of(case, subject, place)


def pair_of(case: Case, subject: Subject, place: Place) -> Pair:
    """The prompts of a case whose change is told with the question."""
    asked = requests_of(case, subject.engine.profile)
    ours = asked["ours"]
    assert ours[-1].role == "system" and ours[-2].role == "user", "the erratum stands behind the question"

    def head(arm: str) -> Message:
        return Message("system", system_text(case, asked[arm][0].text, place))

    old = subject.ids([head("stale"), *ours[1:-1]])
    new = subject.ids([head("rewritten"), *ours[1:-1]])
    told = subject.ids([head("stale"), *ours[1:]])
    turn = common(old, subject.ids([head("stale"), *ours[1:-2]]))
    size, other = subject.template.head_size(old), subject.template.head_size(new)
    runs = changed_runs(old[:size], new[:other], decode=subject.template.text_of)
    assert common(told, old) >= turn, "what is told stands behind what was cached"
    return Pair(case, subject, place, tuple(old), tuple(new), tuple(told), turn, tuple(runs))


def system_text(case: Case, text: str, place: Place) -> str:
    """The system text with policy and state in the order that is wanted."""
    policy = case.world.policy
    state = text.removeprefix(policy).strip("\n")
    return f"{state}\n\n{policy}" if place == "before" else f"{policy}\n\n{state}"


def divergence(truth: torch.Tensor, other: torch.Tensor) -> float:
    """Kullback-Leibler divergence of two next-token distributions, in nats."""
    one, two = truth.double().log_softmax(-1), other.double().log_softmax(-1)
    return max(0.0, float((one.exp() * (one - two)).sum()))


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences begin with together."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
