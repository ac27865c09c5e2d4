"""Random shops: other rules, other values, other customers, in the phrasing of the real one.

A world is a policy with random rules, a state, and a conversation in which fields change between turns. The training
script learns from such worlds and the parity benchmark draws held-out ones. The real shop (`policy.md`, `scenario.py`)
is in neither.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from pkv_agents import apply_patch

from .policy import Request, Rule, decide, field_path, read_field, rule_lines, rules_of, shop_sections
from .schema import Account, Customer, Order, Shop, SkilledShop
from .vocabulary import FIELDS, GENERAL_TOOLS, TOPICS, TRAINED, Topic, Vocabulary


@dataclass(frozen=True, slots=True)
class World:
    """A policy with its rules, the state at the start, and the turns.

    Attributes:
        policy: The text of the instructions.
        rules: The rules in it, by topic.
        shop: The state at the start.
        requests: The turns.
        values: The values that each deciding field can have.
    """

    policy: str
    rules: dict[str, Rule]
    shop: Shop
    requests: tuple[Request, ...]
    values: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def rules_in(self, shop: Shop) -> Mapping[str, Rule]:
        """The rules in force in a state: the policy's own, and those of the skills that are loaded."""
        return self.rules | skill_rules(shop) if isinstance(shop, SkilledShop) else self.rules

    def answer(self, shop: Shop, request: Request) -> tuple[str, dict[str, str]]:
        """The tool and its arguments that the rules in force want in this state."""
        return decide(self.rules_in(shop), shop, request)


@dataclass(frozen=True, slots=True)
class Size:
    """How large and how hard a world is."""

    topics: int = 12
    orders: int = 3
    prose: float = 1.0
    turns: int = 12
    vocabulary: Vocabulary = TRAINED
    paraphrase: bool = False
    changes: tuple[float, ...] = (0.2, 0.45, 0.25, 0.1)
    irrelevant: float = 0.25
    back: float = 0.3


def draw_world(rng: random.Random, size: Size) -> World:
    """A random world of the given size."""
    values = {name: _distinct(rng, size.vocabulary.values[name], rng.choice((3, 3, 4))) for name in FIELDS}
    topics = rng.sample(TOPICS, size.topics)
    rules = {topic.name: draw_rule(rng, topic, values) for topic in topics}
    shop = _draw_shop(rng, size, values)
    requests = _draw_requests(rng, size, topics, rules, values, shop)
    return World(compose(rng, size, rules), rules, shop, requests, values)


def skill_rules(shop: SkilledShop) -> dict[str, Rule]:
    """The rules of the skills that are loaded, read from their texts."""
    found: dict[str, Rule] = {}
    for text in shop.skills.active.values():
        assert isinstance(text, str), "the shop's skills are its own word"
        found |= rules_of(text)
    return found


def _distinct(rng: random.Random, pool: tuple[str, ...], count: int) -> list[str]:
    """Some values of a pool, none of which begins like another."""
    chosen: list[str] = []
    for value in rng.sample(pool, len(pool)):
        if len(chosen) < count and all(value[:3] != other[:3] for other in chosen):
            chosen.append(value)
    return chosen


def draw_rule(rng: random.Random, topic: Topic, values: Mapping[str, Sequence[str]]) -> Rule:
    """A random rule for a topic, over some values of one field."""
    name = rng.choices(tuple(FIELDS), (4, 2, 3, 3))[0]
    tools = list(GENERAL_TOOLS)
    rng.shuffle(tools)
    if topic.name == "address change":
        tools.insert(rng.randrange(len(values[name])), "change_address")
    if rng.random() < 0.15:
        tools[1] = tools[0]
    order = rng.sample(values[name], len(values[name]))
    return Rule(topic.name, name, tuple(zip(order, tools, strict=False)))


def _draw_shop(rng: random.Random, size: Size, values: dict[str, list[str]]) -> Shop:
    words = size.vocabulary
    letters = rng.sample("ABCDEFGHJKLMNPQRSTUVWXYZ", size.orders)
    orders = [
        Order(
            id=f"{letter}{rng.randrange(100, 1000)}",
            item=rng.choice(words.items),
            status=rng.choice(values["status"]),
            payment=rng.choice(values["payment"]),
            carrier=rng.choice(words.carriers),
            total=_money(rng),
        )
        for letter in letters
    ]
    start = datetime(2026, rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(8, 20), rng.randrange(60))
    return Shop(
        customer=Customer(name=rng.choice(words.names), tier=rng.choice(values["tier"]), town=rng.choice(words.towns)),
        account=Account(standing=rng.choice(values["standing"]), balance=_money(rng)),
        orders=orders,
        now=start,
    )


def _money(rng: random.Random) -> Decimal:
    return Decimal(f"{rng.randrange(5, 200)}.{rng.choice(('00', '50', '90'))}")


def _draw_requests(
    rng: random.Random,
    size: Size,
    topics: list[Topic],
    rules: dict[str, Rule],
    values: dict[str, list[str]],
    shop: Shop,
) -> tuple[Request, ...]:
    """Turns in which the fields that decide change often, and are asked about often after they did."""
    requests: list[Request] = []
    asked: set[tuple[str, str]] = set()
    former: dict[str, str] = {}
    touched: list[str] = []
    for turn in range(size.turns):
        patch = {} if turn == 0 else _draw_patch(rng, size, rules, values, shop, former)
        for path in patch:
            if path in touched:
                touched.remove(path)
            touched.append(path)
        minutes = rng.choice((1, 2, 3, 5, 8, 20))
        shop = apply_patch(shop, {**patch, "now": (shop.now + timedelta(minutes=minutes)).isoformat()})
        topic, order = _pick(rng, topics, rules, shop, touched, asked)
        asked.add((topic.name, read_field(shop, rules[topic.name].field, order)))
        town = rng.choice(size.vocabulary.towns)
        words = rng.choice(topic.paraphrases if size.paraphrase else topic.requests)
        patch = {**patch, "now": shop.now.isoformat()}
        requests.append(Request(patch, topic.name, order, words.format(id=order, town=town), town))
    return tuple(requests)


def _draw_patch(
    rng: random.Random,
    size: Size,
    rules: dict[str, Rule],
    values: dict[str, list[str]],
    shop: Shop,
    former: dict[str, str],
) -> dict[str, str]:
    """Up to three changes; a value often goes back to what it was."""
    patch: dict[str, str] = {}
    names = [rule.field for rule in rules.values()]
    for _ in range(rng.choices(range(len(size.changes)), size.changes)[0]):
        order = rng.choice(shop.orders)
        if rng.random() < size.irrelevant:
            path, value = rng.choice(
                (
                    (f"orders[{order.id}].carrier", rng.choice(size.vocabulary.carriers)),
                    (f"orders[{order.id}].total", str(_money(rng))),
                    ("account.balance", str(_money(rng))),
                    ("customer.town", rng.choice(size.vocabulary.towns)),
                )
            )
            patch[path] = value
            continue
        name = rng.choice(names)
        path, old = field_path(name, order.id), read_field(shop, name, order.id)
        if path in patch:
            continue
        back = former.get(path)
        if back is not None and back != old and rng.random() < size.back:
            patch[path] = back
        else:
            patch[path] = rng.choice([value for value in values[name] if value != old])
        former[path] = old
    return patch


def _pick(
    rng: random.Random,
    topics: list[Topic],
    rules: dict[str, Rule],
    shop: Shop,
    touched: list[str],
    asked: set[tuple[str, str]],
) -> tuple[Topic, str]:
    """A topic and an order; a pair of topic and value seldom comes twice, so that no answer can be copied."""
    pairs = [(topic, order.id) for topic in topics for order in shop.orders]
    fresh = [(t, o) for t, o in pairs if (t.name, read_field(shop, rules[t.name].field, o)) not in asked]
    if fresh and rng.random() < 0.85:
        pairs = fresh
    hot = [(t, o) for t, o in pairs if field_path(rules[t.name].field, o) in touched]
    if hot and rng.random() < 0.7:
        pairs = hot
    return rng.choice(pairs)


def compose(rng: random.Random, size: Size, rules: Mapping[str, Rule]) -> str:
    """A policy's text: the shop's prose where there is room for it, and these rules in it."""
    opening, sections = shop_sections()
    parts = [rule_section(rng, size, rule) for rule in rules.values()]
    others = [s for s in sections if s.topic is None and rng.random() < size.prose]
    for section in others:
        parts.insert(rng.randrange(len(parts) + 1), f"## {section.title}\n{section.prose}")
    lead = opening if rng.random() < max(size.prose, 0.2) else ""
    return "\n\n".join([lead, *parts] if lead else parts)


def rule_section(rng: random.Random, size: Size, rule: Rule) -> str:
    """The section of a rule, below the shop's prose where there is room for it."""
    prose = next(section.prose for section in shop_sections()[1] if section.topic == rule.topic)
    text = f"{prose}\n" if rng.random() < size.prose else ""
    return f"## {rule.topic.capitalize()}\n{text}{rule_lines(rule, paraphrase=size.paraphrase)}"
