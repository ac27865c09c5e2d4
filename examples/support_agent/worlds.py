"""Random shops: other rules, other values, other customers, in the phrasing of the real one.

A world is a policy with random rules, a state, and a conversation in which fields change between turns. The training
script learns from such worlds and the parity benchmark draws held-out ones. The real shop (`policy.md`, `scenario.py`)
is in neither.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

from pkv_agents import apply_patch

from .schema import Account, Customer, Order, Shop
from .vocabulary import FIELDS, GENERAL_TOOLS, HELD_OUT, TOPICS, TRAINED, Topic, Vocabulary

POLICY_FILE = Path(__file__).with_name("policy.md")
_LINE = re.compile(
    r'- On an? (?P<topic>[a-z ]+) request, if (?P<field>[a-z\' ]+) is "(?P<value>[a-z ]+)", call `(?P<tool>\w+)`\.'
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do about one topic: which tool for which value of one field."""

    topic: str
    field: str
    actions: tuple[tuple[str, str], ...]

    def tool(self, value: str) -> str:
        """The tool for `value`."""
        return dict(self.actions)[value]


@dataclass(frozen=True, slots=True)
class Request:
    """One turn of a conversation.

    Attributes:
        patch: What changed since the turn before, by path.
        topic: What the customer wants.
        order_id: About which order.
        text: What the customer writes.
        town: The town in an address change.
    """

    patch: dict[str, str]
    topic: str
    order_id: str
    text: str
    town: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """A policy with its rules, the state at the start, and the turns."""

    policy: str
    rules: dict[str, Rule]
    shop: Shop
    requests: tuple[Request, ...]

    def answer(self, shop: Shop, request: Request) -> tuple[str, dict[str, str]]:
        """The tool and its arguments that the policy wants in this state."""
        return decide(self.rules, shop, request)


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


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the policy: its title, its prose, and the topic that its rules are about."""

    title: str
    prose: str
    topic: str | None = field(default=None)


def decide(rules: dict[str, Rule], shop: Shop, request: Request) -> tuple[str, dict[str, str]]:
    """The tool and its arguments that `rules` want for `request` in the state `shop`."""
    rule = rules[request.topic]
    tool = rule.tool(read_field(shop, rule.field, request.order_id))
    arguments = {"order_id": request.order_id}
    return tool, {**arguments, "town": request.town} if tool == "change_address" else arguments


def read_field(shop: Shop, name: str, order_id: str) -> str:
    """The value of a deciding field, for an order."""
    if name == "tier":
        return shop.customer.tier
    if name == "standing":
        return shop.account.standing
    order = next(order for order in shop.orders if order.id == order_id)
    return order.status if name == "status" else order.payment


def field_path(name: str, order_id: str) -> str:
    """The path of a deciding field, for an order."""
    return {
        "tier": "customer.tier",
        "standing": "account.standing",
        "status": f"orders[{order_id}].status",
        "payment": f"orders[{order_id}].payment",
    }[name]


@cache
def shop_sections() -> tuple[str, tuple[Section, ...]]:
    """The opening and the sections of the shop's own policy."""
    opening, *parts = POLICY_FILE.read_text(encoding="utf-8").strip().split("\n\n## ")
    names = {topic.name for topic in TOPICS}
    sections: list[Section] = []
    for part in parts:
        title, _, body = part.partition("\n")
        prose = "\n".join(line for line in body.split("\n") if not line.startswith("- On "))
        sections.append(Section(title, prose.strip(), title.lower() if title.lower() in names else None))
    return opening, tuple(sections)


@cache
def shop_rules() -> dict[str, Rule]:
    """The rules of the shop's own policy, read from its text."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for match in _LINE.finditer(POLICY_FILE.read_text(encoding="utf-8")):
        name = next(name for name, words in FIELDS.items() if words == match["field"])
        found.setdefault(match["topic"], []).append((name, match["value"], match["tool"]))
    return {
        topic: Rule(topic, lines[0][0], tuple((value, tool) for _, value, tool in lines))
        for topic, lines in found.items()
    }


def rule_lines(rule: Rule, *, paraphrase: bool = False) -> str:
    """The lines of a rule as the policy shows them."""
    article = "an" if rule.topic[0] in "aeiou" else "a"
    words = FIELDS[rule.field]
    if paraphrase:
        return "\n".join(
            f'- Use `{tool}` for {article} {rule.topic} when {words} says "{value}".' for value, tool in rule.actions
        )
    return "\n".join(
        f'- On {article} {rule.topic} request, if {words} is "{value}", call `{tool}`.' for value, tool in rule.actions
    )


def draw_world(rng: random.Random, size: Size) -> World:
    """A random world of the given size."""
    values = {name: _distinct(rng, size.vocabulary.values[name], rng.choice((3, 3, 4))) for name in FIELDS}
    topics = rng.sample(TOPICS, size.topics)
    rules = {topic.name: _draw_rule(rng, topic, values) for topic in topics}
    shop = _draw_shop(rng, size, values)
    requests = _draw_requests(rng, size, topics, rules, values, shop)
    return World(_compose(rng, size, rules), rules, shop, requests)


def _distinct(rng: random.Random, pool: tuple[str, ...], count: int) -> list[str]:
    """Some values of a pool, none of which begins like another."""
    chosen: list[str] = []
    for value in rng.sample(pool, len(pool)):
        if len(chosen) < count and all(value[:3] != other[:3] for other in chosen):
            chosen.append(value)
    return chosen


def _draw_rule(rng: random.Random, topic: Topic, values: dict[str, list[str]]) -> Rule:
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


def _compose(rng: random.Random, size: Size, rules: dict[str, Rule]) -> str:
    """A policy's text: the shop's prose where there is room for it, and these rules in it."""
    opening, sections = shop_sections()
    prose = {section.topic: section for section in sections if section.topic}
    parts: list[str] = []
    for name, rule in rules.items():
        text = prose[name].prose if rng.random() < size.prose else ""
        body = rule_lines(rule, paraphrase=size.paraphrase)
        parts.append(f"## {name.capitalize()}\n{text}\n{body}" if text else f"## {name.capitalize()}\n{body}")
    others = [s for s in sections if s.topic is None and rng.random() < size.prose]
    for section in others:
        parts.insert(rng.randrange(len(parts) + 1), f"## {section.title}\n{section.prose}")
    lead = opening if rng.random() < max(size.prose, 0.2) else ""
    return "\n\n".join([lead, *parts] if lead else parts)


__all__ = ["HELD_OUT", "TRAINED", "Request", "Rule", "Size", "World", "decide", "draw_world", "shop_rules"]
