"""The shop's policy as data: its sections, the rules in its own lines, and what they want in a state.

The text is the truth (`policy.md`); the rules are read from it, so that what is measured is what the model was shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from .schema import Shop
from .vocabulary import FIELDS, TOPICS

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

    patch: Mapping[str, object]
    topic: str
    order_id: str
    text: str
    town: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the policy: its title, its prose, and the topic that its rules are about."""

    title: str
    prose: str
    topic: str | None = field(default=None)


def decide(rules: Mapping[str, Rule], shop: Shop, request: Request) -> tuple[str, dict[str, str]]:
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
    return dict(rules_of(POLICY_FILE.read_text(encoding="utf-8")))


@lru_cache(maxsize=512)
def rules_of(text: str) -> Mapping[str, Rule]:
    """The rules that stand in a text, by topic."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for match in _LINE.finditer(text):
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
