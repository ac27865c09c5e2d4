"""What the benchmark of followed skills asks: seeded conversations in which a skill becomes another one.

    head: skills, version 1    turn 0    turn 1    ...    question
                               answer    answer           which tool, by the version in force?
                                    ^ version 2 is told here ^

A seed's number says what becomes of the skill, so that the kinds are balanced exactly. Rules, values, names of people,
towns and skills are held out from the training.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Literal, get_args

from benchmarks._cases import Answer, Talk, draw_tag
from examples.support_agent.policy import Request, Rule, decide, read_field
from examples.support_agent.schema import SkilledShop
from examples.support_agent.skill_worlds import CHANGES, HELD_OUT_NAMES, Change, Shelf, SkillPlan, draw_shelf, skilled
from examples.support_agent.vocabulary import HELD_OUT, TOPICS
from examples.support_agent.worlds import Size, World
from pkv_agents import apply_patch

SkillKind = Literal["other field", "other tools", "one value", "all rules", "loaded", "restored", "beside"]
KINDS: tuple[SkillKind, ...] = get_args(SkillKind)
"""What becomes of the rule that is asked about, in the order of the seeds.

other field     the new version decides by another field
other tools     by the same field, with other tools
one value       with another tool for one value, the asked one
all rules       all rules of the skill are others, so it is told whole
loaded          the skill stood in no head; it came in mid-conversation
restored        it was replaced, and is the first version again
beside          it stayed, and another rule of its skill is another
"""

_HOW: Mapping[SkillKind, Change] = {"other field": "field", "other tools": "tools", "one value": "line"}
_TOPICS = {topic.name: topic for topic in TOPICS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCase(Talk):
    """One conversation in which a skill changes.

    Attributes:
        kind: What becomes of the rule that is asked about.
        asked_before: Its topic was asked about and answered before, by the version of that time.
        other: What a version that is not in force would want; None where there is none that would decide otherwise.
    """

    kind: SkillKind
    asked_before: bool
    other: Answer | None

    def digest(self) -> str:
        """A short hash of everything that is asked."""
        world = self.world
        parts = [world.policy, world.shop.model_dump_json(), self.tag, self.kind]
        asked = json.dumps([*parts, *map(asdict, world.requests)], sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()[:12]


def draw_skill_case(seed: int) -> SkillCase:
    """The case of a seed.

    Args:
        seed: Any whole number from 0; its kind is `KINDS[seed % 7]`.
    """
    rng = random.Random(f"skills followed/{seed}")
    kind, asked_before = KINDS[seed % len(KINDS)], bool(seed // len(KINDS) % 2)
    while True:
        topics, orders = rng.choice((3, 4, 5)), rng.choice((2, 3))
        size = Size(topics=topics, orders=orders, prose=0.0, turns=1, vocabulary=HELD_OUT)
        world, shelf = draw_shelf(rng, size, SkillPlan(skills=rng.choice((2, 3)), names=HELD_OUT_NAMES))
        case = _Drawing(rng, world, shelf).draw(seed, kind, asked_before=asked_before and kind != "loaded")
        if case is not None:
            return case


class _Drawing:
    """Draws the conversation of a case, in a world and with skills that are given."""

    def __init__(self, rng: random.Random, world: World, shelf: Shelf) -> None:
        self.rng, self.world, self.shelf = rng, world, shelf
        self.name = rng.choice(list(shelf.rules))
        self.topic = rng.choice(list(shelf.rules[self.name]))
        self.order = rng.choice(world.shop.orders).id

    def draw(self, seed: int, kind: SkillKind, *, asked_before: bool) -> SkillCase | None:
        """The case; None if these rules leave no question of this kind."""
        rng, shelf = self.rng, self.shelf
        active = [name for name in shelf.rules if kind != "loaded" or name != self.name]
        shop = skilled(self.world.shop, shelf.registry.start(*active))
        turns = rng.randint(3 if kind == "restored" else 2 if asked_before else 1, 4)
        first, *rest = sorted(rng.sample(range(2 if asked_before else 1, turns + 1), 2 if kind == "restored" else 1))
        old = shelf.rules[self.name][self.topic]
        rules = self._news(kind)
        if rules is None or not self._decides(kind, rules, shop):
            return None
        if kind == "loaded":
            patches = {first: shelf.registry.load(self.name, shop.skills)}
        else:
            version = shelf.registry[self.name]
            former = {topic: shelf.rules[self.name][topic] for topic in rules}
            shelf.replace(self.name, rules)
            patches = {first: shelf.registry.refresh(shop.skills)}
            if rest:
                shelf.restore(self.name, version, former)
                patches[rest[0]] = shelf.registry.refresh(apply_patch(shop, patches[first]).skills)
        world = replace(self.world, shop=shop)
        requests = self._requests(world, shop, patches, turns, asked_before=first if asked_before else 0)
        if requests is None:
            return None
        world = replace(world, requests=requests)
        other = {"loaded": None, "beside": None, "restored": rules.get(self.topic, old)}.get(kind, old)
        return SkillCase(
            seed=seed,
            world=world,
            tag=draw_tag(rng),
            kind=kind,
            asked_before=asked_before,
            other=decide({self.topic: other}, shop, requests[-1]) if other else None,
        )

    def _news(self, kind: SkillKind) -> dict[str, Rule] | None:
        """The rules that the new version has otherwise."""
        rules, rng = self.shelf.rules[self.name], self.rng
        if kind == "beside":
            others = [topic for topic in rules if topic != self.topic]
            if not others:
                return None
            topic = rng.choice(others)
            return {topic: self.shelf.changed(rules[topic], rng.choice(CHANGES))}
        if kind == "all rules":
            return {topic: self.shelf.changed(rule, rng.choice(("field", "tools"))) for topic, rule in rules.items()}
        how = _HOW.get(kind) or rng.choice(CHANGES)
        return {self.topic: self.shelf.changed(rules[self.topic], how)}

    def _decides(self, kind: SkillKind, rules: Mapping[str, Rule], shop: SkilledShop) -> bool:
        """Whether the old version and the new one want different tools, where that is asked."""
        if kind in ("loaded", "beside"):
            return True
        old, new = self.shelf.rules[self.name][self.topic], rules[self.topic]
        return len({rule.tool(read_field(shop, rule.field, self.order)) for rule in (old, new)}) == 2

    def _requests(
        self,
        world: World,
        shop: SkilledShop,
        patches: Mapping[int, dict[str, object]],
        turns: int,
        *,
        asked_before: int,
    ) -> tuple[Request, ...] | None:
        """The turns, the question last; before turn `asked_before`, the question's topic is asked about once."""
        rng, requests, asked = self.rng, list[Request](), set[tuple[str, str]]()
        early = rng.randrange(asked_before) if asked_before else -1
        for turn in range(turns + 1):
            later = shop.now + timedelta(minutes=rng.choice((1, 2, 3, 5, 8, 20)))
            patch = {**patches.get(turn, {}), "now": later.isoformat()}
            shop = apply_patch(shop, patch)
            pairs = [(t, o.id) for t in world.rules_in(shop) for o in shop.orders if t != self.topic]
            fresh = [pair for pair in pairs if pair not in asked]
            chosen = (self.topic, self.order) if turn in (turns, early) else rng.choice(fresh) if fresh else None
            if chosen is None:
                return None
            asked.add(chosen)
            topic, town = _TOPICS[chosen[0]], rng.choice(HELD_OUT.towns)
            text = rng.choice(topic.requests).format(id=chosen[1], town=town)
            requests.append(Request(patch, topic.name, chosen[1], text, town))
        return tuple(requests)
