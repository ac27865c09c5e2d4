"""Random shops whose rules are skills: loaded, replaced by new versions, brought back and retired in mid-conversation.

A skill holds the sections of some topics, in the phrasing of the shop. What a version of it says is drawn like any
rule. Names of skills have a trained half and a half that no training row uses, as all words do.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pkv_agents import Skill, SkillRegistry, Skills, apply_patch

from .policy import Request, Rule, read_field, rule_lines, rules_of, shop_sections
from .schema import Shop, SkilledShop
from .vocabulary import TOPICS
from .worlds import Size, World, compose, draw_rule, draw_world, rule_section

Change = Literal["field", "tools", "line"]
"""What a new version of a rule has otherwise: another field decides, other tools for all values, or one of them."""
CHANGES: tuple[Change, ...] = ("field", "tools", "line")

TRAINED_NAMES = tuple("orders care money service claims parcels desk returns-desk house-rules aftercare".split())
HELD_OUT_NAMES = tuple("refunds shipping escalation goodwill".split())

_TOPICS = {topic.name: topic for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class SkillPlan:
    """How a world's rules are spread over skills, and what becomes of them.

    Attributes:
        skills: How many there are.
        names: Their names are some of these.
        own: How many topics stay in the policy's own text.
        late: How likely a skill is not loaded at the start; 0: none is loaded later, and none retired.
        events: How likely something happens to the skills between two turns.
        small: How likely a new version has one line otherwise, and no more.
    """

    skills: int = 3
    names: Sequence[str] = TRAINED_NAMES
    own: int = 0
    late: float = 0.2
    events: float = 0.5
    small: float = 0.0


class Shelf:
    """The skills of a world as they are now: who holds which topics, and with which rules.

    Args:
        rng: The source of all randomness.
        size: How much prose stands beside the rules.
        values: The values that each deciding field can have.
        held: The rules, by skill and topic.
    """

    def __init__(
        self,
        rng: random.Random,
        size: Size,
        values: Mapping[str, Sequence[str]],
        held: Mapping[str, Mapping[str, Rule]],
    ) -> None:
        self._rng, self._size, self._values = rng, size, values
        self.rules = {name: dict(rules) for name, rules in held.items()}
        self._sections = {r.topic: rule_section(rng, size, r) for rules in held.values() for r in rules.values()}
        self.former: dict[str, list[Skill]] = {name: [] for name in held}
        self.registry = SkillRegistry([self._skill(name) for name in held])

    def replace(self, name: str, rules: Mapping[str, Rule]) -> None:
        """A new version of a skill, in which some of its rules are others."""
        self.former[name].append(self.registry[name])
        for topic, rule in rules.items():
            old = self.rules[name][topic]
            self.rules[name][topic] = rule
            self._sections[topic] = _with_rule(self._sections[topic], old, rule)
        self.registry = self.registry.replaced(self._skill(name))

    def restore(self, name: str, version: Skill, rules: Mapping[str, Rule]) -> None:
        """An older version is in force again."""
        for topic, rule in rules.items():
            self._sections[topic] = _with_rule(self._sections[topic], self.rules[name][topic], rule)
            self.rules[name][topic] = rule
        self.registry = self.registry.replaced(version)

    def changed(self, rule: Rule, how: Change) -> Rule:
        """Another rule for the same topic."""
        return change_rule(self._rng, rule, how, self._values)

    def _skill(self, name: str) -> Skill:
        topics = ", ".join(self.rules[name])
        parts = "\n\n".join(self._sections[topic] for topic in self.rules[name])
        return Skill(name, f"Rules for these requests: {topics}.", f"# {name.capitalize()}\n\n{parts}")


def change_rule(rng: random.Random, rule: Rule, how: Change, values: Mapping[str, Sequence[str]]) -> Rule:
    """Another rule for the same topic.

    Args:
        rng: The source of all randomness.
        rule: The rule so far.
        how: In what it is another.
        values: The values that each deciding field can have.
    """
    topic = _TOPICS[rule.topic]
    while True:
        new = draw_rule(rng, topic, values)
        if how == "field":
            if new.field != rule.field:
                return new
            continue
        tools = [tool for _, tool in new.actions]
        if len(tools) < len(rule.actions):
            continue
        mixed = tuple((value, tool) for (value, _), tool in zip(rule.actions, tools, strict=False))
        differ = [one != other for one, other in zip(mixed, rule.actions, strict=True)]
        if how == "tools" and all(differ):
            return replace(rule, actions=mixed)
        if how == "line" and any(differ):
            at = rng.choice([index for index, other in enumerate(differ) if other])
            return replace(rule, actions=(*rule.actions[:at], mixed[at], *rule.actions[at + 1 :]))


def draw_skilled_world(rng: random.Random, size: Size, plan: SkillPlan) -> World:
    """A random world whose rules are skills, with a conversation in which they change."""
    world, shelf = draw_shelf(rng, size, plan)
    names = list(shelf.rules)
    active = [name for name in names if rng.random() >= plan.late] or [rng.choice(names)]
    shop = skilled(world.shop, shelf.registry.start(*active))
    world = replace(world, shop=shop)
    requests: list[Request] = []
    for turn, request in enumerate(world.requests):
        patch: dict[str, object] = dict(request.patch)
        if turn and rng.random() < plan.events:
            patch |= _event(rng, shelf, shop, plan)
        shop = apply_patch(shop, patch)
        requests.append(_asked(rng, world, shop, replace(request, patch=patch)))
    return replace(world, requests=tuple(requests))


def draw_shelf(rng: random.Random, size: Size, plan: SkillPlan) -> tuple[World, Shelf]:
    """A random world, its policy without the rules that are in skills, and the skills."""
    world = draw_world(rng, size)
    topics = rng.sample(list(world.rules), len(world.rules))
    own = {topic: world.rules[topic] for topic in topics[: min(plan.own, len(topics) - 1)]}
    spread = topics[len(own) :]
    names = rng.sample(list(plan.names), min(plan.skills, len(spread)))
    cuts = sorted(rng.sample(range(1, len(spread)), len(names) - 1))
    parts = [spread[a:b] for a, b in zip([0, *cuts], [*cuts, len(spread)], strict=True)]
    held = {name: {topic: world.rules[topic] for topic in part} for name, part in zip(names, parts, strict=True)}
    opening, _ = shop_sections()
    text = compose(rng, size, own)
    policy = text if text.startswith(opening) else f"{opening}\n\n{text}".strip()
    return replace(world, policy=policy, rules=own), Shelf(rng, size, world.values, held)


def skilled(shop: Shop, skills: Skills) -> SkilledShop:
    """The same state, with skills."""
    return SkilledShop.model_validate({**shop.model_dump(), "skills": skills.model_dump()})


def _event(rng: random.Random, shelf: Shelf, shop: SkilledShop, plan: SkillPlan) -> dict[str, object]:
    """Something happens to the skills: one is loaded, or a loaded one is replaced, restored or retired."""
    loaded = [name for name in shelf.rules if name in shop.skills.active]
    absent = [name for name in shelf.rules if name not in shop.skills.active]
    draw = rng.random()
    if absent and (draw < 0.4 or not loaded):
        return shelf.registry.load(rng.choice(absent), shop.skills)
    if plan.late and len(loaded) > 1 and draw > 0.93:
        return shelf.registry.retire(rng.choice(loaded), shop.skills)
    name = rng.choice(loaded)
    if shelf.former[name] and rng.random() < 0.3:
        _restore(rng, shelf, name)
    elif plan.small and rng.random() < plan.small:
        topic, rule = rng.choice(list(shelf.rules[name].items()))
        shelf.replace(name, {topic: _line_changed(rng, shelf, shop, rule)})
    else:
        rules = shelf.rules[name]
        topics = rng.sample(list(rules), min(len(rules), rng.choice((1, 1, 1, 2, 4))))
        shelf.replace(name, {topic: shelf.changed(rules[topic], rng.choice(CHANGES)) for topic in topics})
    return shelf.registry.refresh(shop.skills)


def _line_changed(rng: random.Random, shelf: Shelf, shop: Shop, rule: Rule) -> Rule:
    """A rule with another line, one that decides about an order as it is now where a few draws find one."""
    order = rng.choice(shop.orders).id
    value = read_field(shop, rule.field, order)
    drawn = [shelf.changed(rule, "line") for _ in range(6)]
    return next((new for new in drawn if new.tool(value) != rule.tool(value)), drawn[0])


def _restore(rng: random.Random, shelf: Shelf, name: str) -> None:
    version = rng.choice(shelf.former[name])
    shelf.restore(name, version, rules_of(version.body))


def _asked(rng: random.Random, world: World, shop: Shop, request: Request) -> Request:
    """The request, about a topic for which there is a rule now."""
    rules = world.rules_in(shop)
    if request.topic in rules:
        return request
    topic = _TOPICS[rng.choice(list(rules))]
    text = rng.choice(topic.requests).format(id=request.order_id, town=request.town)
    return replace(request, topic=topic.name, text=text)


def _with_rule(section: str, old: Rule, new: Rule) -> str:
    """A section with other lines for its rule; its prose stays."""
    return section.replace(rule_lines(old), rule_lines(new))


__all__ = [
    "CHANGES",
    "HELD_OUT_NAMES",
    "TRAINED_NAMES",
    "Change",
    "Shelf",
    "SkillPlan",
    "change_rule",
    "draw_shelf",
    "draw_skilled_world",
    "skilled",
]
