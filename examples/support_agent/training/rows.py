"""Training rows: a whole conversation as token ids (the trunk), with further questions that branch off it.

The trunk's bytes are those that the library sends: tools block, policy, baseline, and after a request the erratum of
what changed (tests/example holds that a trunk equals the library's own rendering of the same conversation). A branch is
one more request after some turn; it sees the trunk up to there and itself, so that many decisions share one prefix.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pkv_agents import Snapshot, apply_patch, diff, fold, render_baseline, render_erratum, snapshot

from ..policy import Request, field_path, read_field, shop_sections
from ..schema import Shop, all_plain
from ..skill_worlds import SkillPlan, draw_skilled_world
from ..vocabulary import TOOL_DOCS, TOPICS
from ..worlds import Size, World, draw_world
from .writer import Reason, Row, Tokenizer, Writer

Head = Literal["errata", "end", "top"]
"""Where the state stands: told by errata, or rewritten at the head's end or near its top."""

_TAGS = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How to draw a row.

    Attributes:
        size: The world's size.
        head: Where its state stands.
        tools: The tools block stands in the head.
        keep: The share of fields that are shown; fewer for an easy start.
        branches: About how many questions branch off.
        level: The curriculum's.
        skills: How the rules are spread over skills; None: they stand in the policy.
        at_once: Answers are calls, with no line before them, and the policy is rules and nothing else.
        before: The state stands before the policy; only together with `at_once`.
    """

    size: Size
    head: Head = "errata"
    tools: bool = True
    keep: float = 1.0
    branches: int = 0
    level: int = 0
    skills: SkillPlan | None = None
    at_once: bool = False
    before: bool = False


def tools_block() -> str:
    """The block with which the local engine shows tools to a template that has no place for them."""
    lines = ["# Tools", 'Answer with one JSON object: {"name": tool, "arguments": {...}}']
    lines += [f"- {doc.name}({', '.join(doc.arguments)}): {doc.description}" for doc in TOOL_DOCS]
    return "\n".join(lines)


def reason_text(world: World, state: Shop, request: Request) -> tuple[str, str]:
    """The line before the call, in two parts: the path that decides, and its value."""
    name = world.rules_in(state)[request.topic].field
    return f"{field_path(name, request.order_id)}: ", f'"{read_field(state, name, request.order_id)}"'


class RowMaker:
    """Draws rows.

    Args:
        tokenizer: The embedded model's.
        rng: The source of all randomness.
    """

    def __init__(self, tokenizer: Tokenizer, rng: random.Random) -> None:
        self._tokenizer = tokenizer
        self._rng = rng
        self._start = tokenizer.convert_tokens_to_ids("<|im_start|>")
        self._end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        self._replies = {doc.name: doc.reply for doc in TOOL_DOCS}
        self._topics = {topic.name: topic for topic in TOPICS}

    def draw(self, plan: RowPlan) -> Row:
        """A random world of the plan's size, as a row."""
        if plan.skills is not None:
            return self.row(draw_skilled_world(self._rng, plan.size, plan.skills), plan)
        return self.row(draw_world(self._rng, plan.size), plan)

    def row(self, world: World, plan: RowPlan) -> Row:
        """A given world as a row."""
        tag = "".join(self._rng.choice(_TAGS) for _ in range(4))
        states = list(_states(world))
        settled = self._rng.randrange(max(1, len(states) * 2 // 3)) if plan.head != "errata" else 0
        keep = self._kept(world, plan.keep)
        writer = Writer(self._tokenizer, self._start, self._end)
        shown = _view(states[settled] if plan.head != "errata" else world.shop, keep, plain=plan.head != "errata")
        writer.turn("system", self._system(world, plan, shown, tag))
        head = writer.length
        first = told = _view(world.shop, keep).without_volatile()
        for index, request in enumerate(world.requests):
            rewritten = plan.head != "errata"
            state = states[settled] if rewritten and index > settled else states[index]
            writer.turn("user", request.text)
            now = _view(state, keep)
            if not rewritten and (changes := diff(told, now)):
                writer.turn("system", render_erratum(changes, tag=tag))
                told = fold(told, changes)
            scored = not rewritten or index >= settled
            kind = plan.head if rewritten else _kind(world, state, request, first, told)
            self._answer(writer, world, request, state, plan, kind if scored else None)
            if scored:
                self._branch(writer, world, state, plan, index, first=first, told=told, tag=tag)
        return writer.row(head)

    def _kept(self, world: World, share: float) -> frozenset[str] | None:
        if share >= 1:
            return None
        needed = {field_path(r.field, o.id) for r in world.rules.values() for o in world.shop.orders}
        return frozenset(p for p in snapshot(world.shop) if p in needed or self._rng.random() < share)

    def _system(self, world: World, plan: RowPlan, view: Snapshot, tag: str) -> str:
        state = render_baseline(view, tag=tag)
        if plan.at_once:
            rules = world.policy.removeprefix(shop_sections()[0]).strip()
            return "\n\n".join((state, rules) if plan.before else (rules, state))
        opening, _, rest = world.policy.partition("\n\n")
        parts = [opening, state, rest] if plan.head == "top" else [world.policy, state]
        return "\n\n".join([tools_block(), *parts] if plan.tools else parts)

    def _answer(
        self, writer: Writer, world: World, request: Request, state: Shop, plan: RowPlan, kind: str | None
    ) -> None:
        tool, arguments = world.answer(state, request)
        writer.answer(_reason(plan, world, state, request), tool, arguments, kind)
        writer.turn("tool", self._replies[tool].format(**{"town": "", **arguments}))

    def _branch(
        self,
        writer: Writer,
        world: World,
        state: Shop,
        plan: RowPlan,
        index: int,
        *,
        first: Snapshot,
        told: Snapshot,
        tag: str,
    ) -> None:
        """Ask further questions here; the last turn gets twice its share."""
        turns = len(world.requests)
        count = plan.branches * (2 if index == turns - 1 else 1) // (turns + 1)
        rules = world.rules_in(state)
        pairs = [(topic, order.id) for topic in rules for order in state.orders]
        news = [pair for pair in pairs if _is_new(world, state, *pair)]
        chosen = self._rng.sample(news, min(count // 2, len(news)))
        chosen += self._rng.sample(pairs, min(count - len(chosen), len(pairs)))
        if "address change" in rules and count:
            chosen.append(("address change", self._rng.choice(state.orders).id))  # a town is copied nowhere else
        for topic, order in chosen:
            town = self._rng.choice(plan.size.vocabulary.towns)
            text = self._rng.choice(self._topics[topic].requests).format(id=order, town=town)
            request = Request({}, topic, order, text, town)
            tool, arguments = world.answer(state, request)
            kind = plan.head if plan.head != "errata" else _kind(world, state, request, first, told)
            writer.branch(text, _reason(plan, world, state, request), tool, arguments, kind)


def _reason(plan: RowPlan, world: World, state: Shop, request: Request) -> Reason:
    return None if plan.at_once else reason_text(world, state, request)


def _kind(world: World, state: Shop, request: Request, first: Snapshot, told: Snapshot) -> str:
    """`rule` if the head's rule would decide otherwise, `flip` if the head holds another value, else `same`."""
    if _is_new(world, state, request.topic, request.order_id):
        return "rule"
    path = field_path(world.rules_in(state)[request.topic].field, request.order_id)
    return "flip" if first[path] != told[path] else "same"


def _is_new(world: World, state: Shop, topic: str, order: str) -> bool:
    """Whether the rule that is in force decides otherwise than the head's, which it need not: one line may be new."""
    rule, before = world.rules_in(state)[topic], world.rules_in(world.shop).get(topic)
    tools = {dict(one.actions).get(read_field(state, one.field, order)) for one in (rule, before) if one is not None}
    return before is None or len(tools) > 1


def _states(world: World) -> Iterator[Shop]:
    shop = world.shop
    for request in world.requests:
        shop = apply_patch(shop, request.patch)
        yield shop


def _view(shop: Shop, keep: frozenset[str] | None, *, plain: bool = False) -> Snapshot:
    """The snapshot to show: some leaves left out for an easy start; `plain` shows the clock like any other field."""
    view = all_plain(snapshot(shop)) if plain else snapshot(shop)
    leaves = {path: text for path, text in view.leaves.items() if keep is None or path in keep}
    return replace(view, leaves=leaves)
