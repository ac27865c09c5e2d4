"""`qualify(model)`: does this model follow errata, where do edits in place work, how close is a spliced skill?

Each check compares decisions: a tool, chosen under a grammar, greedily. A case is judged only if a clean prefill
decides rightly with the old value and with the new one; a model that guesses is not judged, and nothing is allowed.

| check | what is asked |
|---|---|
| errata followed | the old head and an erratum decide as the new value wants, the state before and after the policy |
| back and forth | A, told B, told A again: A decides |
| buried | the erratum stands six turns before the question |
| N fields amended | one erratum about N fields, the deciding one among them |
| in place, field before / after | the field edited in the cache, the state before or after the policy |
| splice divergence | a policy put in place as a skill, against a clean prefill: nats at the end of the prompt |
| positions | keys turned by 1, 17 and 500 positions, against the model's own: the largest relative error |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from pkv_agents.kv import SegmentModel
from pkv_agents.local.battery import Place, Shop, draw_shop, small_talk, tool_records
from pkv_agents.local.model import LocalModel
from pkv_agents.local.qualification import Check, Qualification
from pkv_agents.messages import Message

AMENDED = (1, 5, 20, 50)
BURIED = 6
SHIFTS = (1, 17, 500)
PREFACE = 64
_PLACES: tuple[Place, ...] = ("before", "after")
_names = count()


@dataclass(slots=True)
class _Tally:
    passed: dict[str, int] = field(default_factory=dict[str, int])
    judged: dict[str, int] = field(default_factory=dict[str, int])
    values: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, name: str, right: bool) -> None:
        self.passed[name] = self.passed.get(name, 0) + right
        self.judged[name] = self.judged.get(name, 0) + 1

    def checks(self, names: Sequence[str]) -> Iterator[Check]:
        for name in names:
            if found := self.values.get(name):
                yield Check(name, 0, 0, float(f"{sum(found) / len(found):.3g}"))
            else:
                yield Check(name, self.passed.get(name, 0), self.judged.get(name, 0))


def qualify(
    model: LocalModel,
    *,
    shops: int = 4,
    amended: Sequence[int] = AMENDED,
    preface: int = PREFACE,
    tell: Callable[[str], None] = lambda line: None,
) -> Qualification:
    """Runs the battery. The model's cache is used, under sessions of its own.

    Args:
        model: The model.
        shops: How many shops to draw.
        amended: How many fields the errata of one check amend.
        preface: Characters of the line that the model may write before its call.
        tell: Told of each shop.

    Raises:
        UnsupportedModelError: The model's segments cannot be handled.
    """
    tally = _Tally()
    tally.values["positions"] = [_turning_error(model.segments)]
    asker = _Asker(model, preface)
    for seed in range(shops):
        for place in _PLACES:
            _one_field(asker, draw_shop(seed), place, tally)
        for fields in amended:
            _many_fields(asker, draw_shop(seed, fields=max(6, fields)), fields, tally)
        _splice(model, draw_shop(seed), tally)
        tell(
            f"shop {seed + 1} of {shops}: {sum(tally.passed.values())} of {sum(tally.judged.values())} decisions right"
        )
    names = [
        "errata followed",
        "back and forth",
        "buried",
        *(f"{fields} fields amended" for fields in amended),
        "in place, field before",
        "in place, field after",
        "splice divergence",
        "positions",
    ]
    facts = model.facts
    return Qualification(facts.fingerprint, facts.adapter, str(facts.shape.dtype), tuple(tally.checks(names)))


class _Asker:
    def __init__(self, model: LocalModel, preface: int) -> None:
        self.model, self.tools, self._preface = model, tool_records(), preface

    def tool(self, messages: Sequence[Message], *, session: str | None = None, edit_mode: str = "erratum") -> str:
        """The tool that the model calls; empty for none."""
        reply = self.model.generate(
            messages,
            tools=self.tools,
            tool_choice="any",
            preface=self._preface,
            max_tokens=96,
            session=session,
            edit_mode=edit_mode,
        )
        return reply.tool_calls[0].name if reply.tool_calls else ""

    def edited(self, before: Sequence[Message], after: Sequence[Message]) -> str:
        """The tool behind a prompt whose head is edited in place."""
        session = f"qualify-{next(_names)}"
        self.model.logits(before, tools=self.tools, session=session, edit_mode="in_place")
        return self.tool(after, session=session, edit_mode="in_place")


def _one_field(asker: _Asker, shop: Shop, place: Place, tally: _Tally) -> None:
    question = Message("user", shop.question)
    old, new = shop.head(shop.old, place), shop.head(shop.new, place)
    wanted, former = shop.answers[shop.new], shop.answers[shop.old]
    if asker.tool([old, question]) != former or asker.tool([new, question]) != wanted:
        return
    told, back = shop.erratum(shop.old, shop.new), shop.erratum(shop.new, shop.old)
    talk = small_talk(1)
    tally.add("errata followed", asker.tool([old, *talk, question, told]) == wanted)
    tally.add(f"in place, field {place}", asker.edited([old, *talk], [new, *talk, question]) == wanted)
    if place == "after":
        both = [old, talk[0], told, talk[1], question, back]
        tally.add("back and forth", asker.tool(both) == former)
        buried = [old, talk[0], told, talk[1], *small_talk(BURIED), question]
        tally.add("buried", asker.tool(buried) == wanted)


def _many_fields(asker: _Asker, shop: Shop, fields: int, tally: _Tally) -> None:
    question, amended = Message("user", shop.question), shop.fillers[: fields - 1]
    old, new = shop.head(shop.old, "after"), shop.head(shop.new, "after", amended)
    wanted = shop.answers[shop.new]
    if asker.tool([old, question]) == shop.answers[shop.old] and asker.tool([new, question]) == wanted:
        told = shop.erratum(shop.old, shop.new, amended)
        tally.add(f"{fields} fields amended", asker.tool([old, *small_talk(1), question, told]) == wanted)


def _turning_error(segments: SegmentModel) -> float:
    """How far keys and values turned to other positions are from those computed there, at most."""
    ids = [1, 2, 3]
    base, worst = segments.prefill(ids).segment, 0.0
    for shift in sorted({min(shift, segments.context_limit - len(ids)) for shift in SHIFTS}):
        truth = segments.prefill(ids, start=shift).segment
        turned = segments.rule.layers(segments.rule.reposition(base, shift))
        for pair, wanted in zip(turned, zip(truth.keys, truth.values, strict=True), strict=True):
            for have, want in zip(pair, wanted, strict=True):
                scale = float(want.float().abs().max()) or 1.0
                worst = max(worst, float((have.float() - want.float()).abs().max()) / scale)
    return worst


def _splice(model: LocalModel, shop: Shop, tally: _Tally) -> None:
    messages = [shop.head(shop.old, "after"), Message("user", shop.question)]
    clean = model.logits(messages, cold=True).double().log_softmax(-1)
    spliced = model.logits(messages, skills=[shop.policy]).double().log_softmax(-1)
    distance = float((clean.exp() * (clean - spliced)).sum())
    tally.values.setdefault("splice divergence", []).append(max(0.0, distance))
