"""Pairs of prompts that differ in one field, and what a model decides behind each way to change that field.

    old    head with the old value, some answered turns | question            the first clean prefill
    new    head with the new value, the same turns      | question            the second, and the oracle
    told   the old head, the same turns                 | question, erratum

The part before the bar is prefilled before the change is known; each arm edits that and forwards the rest. A pair
counts where both clean prefills decide rightly. What a decision is depends on how the model answers (`_modes_answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch

from benchmarks._arms import requests_of
from benchmarks._cases import Case, draw_case
from benchmarks._modes_answers import NAMES_FIELD, Decision, Manner
from examples.support_agent.policy import field_path, read_field
from pkv_agents import Message
from pkv_agents.kv import KVSegment, Placed, SegmentModel, TokenRun, compile_segment, compose, rewrite
from pkv_agents.local import SKILL_PREAMBLE, SKILL_SEAM, LocalModel, changed_runs, find_skills

Place = Literal["before", "after"]
"""Where the state stands: before the policy or after it."""

FIRST_SEED = 80_000
"""No other benchmark draws these."""


class Subject:
    """A model and what the arms need of it.

    Args:
        engine: The model.
        manner: How it answers; by default as the shop's adapter does.
    """

    def __init__(self, engine: LocalModel, manner: Manner = NAMES_FIELD) -> None:
        self.engine, self.manner = engine, manner
        self.segments: SegmentModel = engine.segments
        self.template = engine.template

    def ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a request."""
        return self.engine.render_ids(messages, self.manner.tools)

    def encode(self, text: str) -> list[int]:
        """Token ids of a piece of an answer or of a head."""
        return self.template.encode(text)

    @cached_property
    def preamble(self) -> list[int]:
        """What stands before a skill while it is compiled."""
        return self.template.preamble(SKILL_PREAMBLE)


@dataclass(frozen=True, slots=True)
class Question:
    """A case's question, as it is put to a model.

    Attributes:
        case: The case.
        subject: The model.
    """

    case: Case
    subject: Subject

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
        return self.subject.encode(self.subject.manner.answer(self.case.path, value, tool))

    def decide(self, segment: KVSegment) -> Decision:
        """What the model decides behind a whole prompt."""

        def choose(old: str, new: str) -> tuple[torch.Tensor, float]:
            a, b = self.subject.encode(old), self.subject.encode(new)
            at = common(a, b)
            logits = self.subject.segments.forward(segment, a[:at]).logits
            assert logits is not None
            return logits, float(logits[b[at]] - logits[a[at]])

        return self.subject.manner.decide(choose, self.case.path, self.values, self.tools)


@dataclass(frozen=True, slots=True)
class Pair(Question):
    """A case whose change is told with the question, in the form that the arms need.

    Attributes:
        place: Where the state stands.
        old: Ids with the old head.
        new: Ids with the new head.
        told: Ids with the old head and the erratum.
        turn: Where the new turn begins in `old`.
        runs: What differs between the heads.
    """

    place: Place
    old: tuple[int, ...]
    new: tuple[int, ...]
    told: tuple[int, ...]
    turn: int
    runs: tuple[TokenRun, ...]

    @property
    def text(self) -> str:
        """The system text of the old head."""
        return system_text(self.case, requests_of(self.case, self.subject.engine.profile)["stale"][0].text, self.place)

    def prefilled(self, *, as_skill: bool = False) -> KVSegment:
        """What stands in the cache before the change: prefilled, or with the system text put in place as a skill."""
        segments, ids = self.subject.segments, list(self.old[: self.turn])
        if not as_skill:
            return segments.prefill(ids).segment
        found = find_skills(ids[: self.subject.template.head_size(ids)], [self.subject.encode(self.text)])[0]
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


def shop_cases(*, fewest: int = 1, largest: int = 2) -> Iterator[Case]:
    """Cases with a short policy and history, in the order of their seeds.

    Args:
        fewest: Least topics of the policy.
        largest: Most topics of it.
    """
    for seed in range(FIRST_SEED, FIRST_SEED + 8_000, 8):  # a flip that comes with the question
        case = draw_case(seed)
        if fewest <= len(case.world.rules) <= largest and len(case.world.requests) <= 3 and not asked_before(case):
            yield case


def asked_before(case: Case) -> bool:
    """Whether a turn before the question reads the field that decides it."""
    rules = case.world.rules
    return any(field_path(rules[r.topic].field, r.order_id) == case.path for r in case.world.requests[:-1])


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
