"""Does an edit flip the decision? Each way to change a field, beside the clean prefill of the prompt as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks._cases import Case
from benchmarks._modes import Pair, Place, Subject, divergence, pair_of
from benchmarks._modes_answers import Decision
from pkv_agents import OptionsError
from pkv_agents.kv import KVSegment

PLACES: tuple[Place, ...] = ("before", "after")
IN_SKILL = "skill"
"""The state before the policy, and both put in place as one skill."""


@dataclass(frozen=True, slots=True)
class EditRow:
    """One pair, one arm.

    Attributes:
        seed: The case.
        adapter: Whose answers are read.
        place: Where the state stands: before the policy, after it, or `skill`.
        arm: How the field was changed.
        names_new: Whether the model then names the new value; None of one that names none.
        flips: Whether it names the new value and takes the new tool, as the clean prefill does.
        kl: Divergence from the clean prefill where the answers first part, in nats.
        margin: Logits between the two answers there.
    """

    seed: int
    adapter: str
    place: str
    arm: str
    names_new: bool | None
    flips: bool
    kl: float
    margin: float


def edit_rows(
    subject: Subject, cases: Iterable[Case], place: Place, found: list[int], *, keep: int
) -> Iterator[list[EditRow]]:
    """The rows of each case that the clean prefill gets right both ways.

    Args:
        subject: The model.
        cases: The cases.
        place: Where the state stands; `before` gives the rows of `skill` too.
        found: How many cases counted, and how many were drawn; goes up.
        keep: Tokens that `selective` computes anew.
    """
    for case in cases:
        pair, segments = pair_of(case, subject, place), subject.segments
        found[1] += 1
        truth = pair.decide(segments.prefill(list(pair.new)).segment)
        base = pair.prefilled()
        stale = pair.decide(segments.forward(base, pair.old[pair.turn :]).segment)
        if not truth.is_new or not stale.is_old:
            yield []  # a guess of the clean prefill says nothing about an edit
            continue
        found[0] += 1
        rows = list(_arms(pair, base, place, truth, keep, {"stale": stale}))
        if place == "before":
            try:
                skill = pair.prefilled(as_skill=True)
            except OptionsError:
                pass  # its text has no token boundary of its own
            else:
                rows += _arms(pair, skill, IN_SKILL, truth, keep, {})
        yield rows


def _arms(
    pair: Pair, base: KVSegment, place: str, truth: Decision, keep: int, known: Mapping[str, Decision]
) -> Iterator[EditRow]:
    adapter = pair.subject.manner.name
    for arm, make in pair.arms(base, keep=keep).items():
        found = known.get(arm) or pair.decide(make())
        kl, margin = round(divergence(truth.logits, found.logits), 4), round(found.margin, 2)
        yield EditRow(pair.case.seed, adapter, place, arm, found.names_new, found.is_new, kl, margin)
