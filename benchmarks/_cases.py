"""What the parity benchmark asks: seeded conversations in which the state changes in one certain way.

    baseline          turn 0    turn 1    ...    question
    deciding = A      answer    answer           which tool now?
                          ^ changes stand here ^

The *deciding* field is the one that the rule for the question reads. A seed draws rules, values, names and a
conversation; its number alone says which kind of change it holds, so that the kinds are balanced exactly.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Literal

from examples.support_agent.policy import Request, Rule, field_path, read_field
from examples.support_agent.schema import Shop
from examples.support_agent.vocabulary import HELD_OUT, TOPICS, Vocabulary
from examples.support_agent.worlds import Size, World, draw_world
from pkv_agents import apply_patch, render_baseline, snapshot

Head = Literal["short", "long"]
Phrasing = Literal["trained", "held_out"]
Kind = Literal["flip", "irrelevant", "back_and_forth", "several"]
Answer = tuple[str, dict[str, str]]
"""A tool and its arguments."""

KINDS: tuple[Kind, ...] = ("flip", "irrelevant", "back_and_forth", "several")
VARIANTS: Mapping[Kind, tuple[str, str]] = {
    "flip": ("with the question", "earlier"),
    "irrelevant": ("any other field", "deciding elsewhere"),
    "back_and_forth": ("A-B-A", "A-B-A-B"),
    "several": ("at once", "over turns"),
}
"""Each kind comes in two forms, taken in turn."""

MOST_SHORT = 930
"""Words, digits and signs of a short head; the embedded model makes up to 1.08 tokens of each, so below 1,000."""

_TAG = "abcdefghijklmnopqrstuvwxyz234567"
_TOOLS = 195  # of the tools' block
_FEWEST = {"earlier": 2, "A-B-A": 2, "A-B-A-B": 3, "over turns": 2}
MONEY = tuple(f"{euros}.{cents}" for euros in range(5, 200, 6) for cents in ("00", "50", "90"))
"""Amounts that a balance or a total takes."""
_PIECE = re.compile(r"[A-Za-z]+|\d|[^\w\s]|_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One conversation and the question at its end.

    Attributes:
        seed: The number that drew it.
        world: Rules, the state at the start, and the turns; the last one is the question.
        tag: The tag of the state blocks.
    """

    seed: int
    world: World
    tag: str

    @property
    def question(self) -> Request:
        """The last turn."""
        return self.world.requests[-1]

    @property
    def path(self) -> str:
        """The deciding field."""
        rule = self.world.rules_in(self.states()[-1])[self.question.topic]
        return field_path(rule.field, self.question.order_id)

    def states(self) -> list[Shop]:
        """The state at each turn."""
        shop, states = self.world.shop, list[Shop]()
        for request in self.world.requests:
            shop = apply_patch(shop, request.patch)
            states.append(shop)
        return states

    def answers(self) -> list[Answer]:
        """What the policy wants at each turn; the last is what a right decision is."""
        return [self.world.answer(shop, r) for shop, r in zip(self.states(), self.world.requests, strict=True)]

    def notes(self) -> list[str]:
        """The line before each turn's call, as the policy asks for it: the field that decides, and its value."""
        notes: list[str] = []
        for shop, request in zip(self.states(), self.world.requests, strict=True):
            name = self.world.rules_in(shop)[request.topic].field
            value = json.dumps(read_field(shop, name, request.order_id))
            notes.append(f"{field_path(name, request.order_id)}: {value}")
        return notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Talk):
    """One conversation in which fields change.

    Attributes:
        head: How long the text before the first message is.
        phrasing: Whether rules and customers use the words of the training.
        kind: How the state changes.
        variant: Which form of that.
    """

    head: Head
    phrasing: Phrasing
    kind: Kind
    variant: str

    def stale_answer(self) -> Answer:
        """What the policy would want if nothing had changed since the baseline."""
        return self.world.answer(self.world.shop, self.question)

    def digest(self) -> str:
        """A short hash of everything that is asked, by which rows of another drawing are told apart."""
        world = self.world
        parts = [world.policy, world.shop.model_dump_json(), self.tag, self.kind, self.variant]
        asked = json.dumps([*parts, *map(asdict, world.requests)], sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()[:12]


def draw_case(seed: int, *, head: Head = "short", phrasing: Phrasing = "trained") -> Case:
    """The case of a seed.

    Args:
        seed: Any whole number from 0; its kind is `KINDS[seed % 4]`.
        head: How long the head is.
        phrasing: `held_out` words rules and requests as no training row does.
    """
    rng = random.Random(f"parity/{head}/{phrasing}/{seed}")
    kind = KINDS[seed % 4]
    variant = VARIANTS[kind][seed // 4 % 2]
    tag = draw_tag(rng)
    paraphrase = phrasing == "held_out"
    while True:
        world = draw_world(rng, _draw_size(rng, head, paraphrase=paraphrase))
        if head == "short" and _pieces(world, tag) > MOST_SHORT:
            continue
        requests = Conversation(rng, HELD_OUT, world, paraphrase=paraphrase).draw(kind, variant)
        if requests is not None:
            world = replace(world, requests=requests)
            return Case(seed=seed, head=head, phrasing=phrasing, kind=kind, variant=variant, world=world, tag=tag)


def draw_tag(rng: random.Random) -> str:
    """A random tag for the state blocks."""
    return "".join(rng.choice(_TAG) for _ in range(4))


def _draw_size(rng: random.Random, head: Head, *, paraphrase: bool) -> Size:
    if head == "long":
        return Size(topics=12, orders=3, prose=1.0, turns=1, vocabulary=HELD_OUT, paraphrase=paraphrase)
    topics, orders, prose = rng.choice((2, 3, 4, 5)), rng.choice((2, 3)), rng.choice((0.0, 0.1))
    return Size(topics=topics, orders=orders, prose=prose, turns=1, vocabulary=HELD_OUT, paraphrase=paraphrase)


def _pieces(world: World, tag: str) -> int:
    """Words, digits and signs of the head."""
    return _TOOLS + len(_PIECE.findall(f"{world.policy}\n{render_baseline(snapshot(world.shop), tag=tag)}"))


class Conversation:
    """Draws the turns of a case in a world whose rules and first state are given.

    Args:
        rng: The source of all randomness.
        words: Towns, carriers and the like.
        world: The rules and the first state.
        paraphrase: Whether customers use words that the training does not hold.
    """

    def __init__(self, rng: random.Random, words: Vocabulary, world: World, *, paraphrase: bool) -> None:
        self.rng, self.words, self.rules, self.shop, self.paraphrase = rng, words, world.rules, world.shop, paraphrase
        self.topics = {topic.name: topic for topic in TOPICS}
        self.values = {rule.field: tuple(dict(rule.actions)) for rule in world.rules.values()}

    def draw(self, kind: Kind, variant: str) -> tuple[Request, ...] | None:
        """The turns: 1 to 6 that are answered, then the question; None if these rules leave nothing to ask before."""
        rng = self.rng
        rule = rng.choice(list(self.rules.values()))
        order = rng.choice(self.shop.orders).id
        turns = rng.randint(_FEWEST.get(variant, 1), 6)
        changes = self._changes(kind, variant, rule, order, turns)
        shop, states = self.shop, list[Shop]()
        for turn in range(turns + 1):
            later = shop.now + timedelta(minutes=rng.choice((1, 2, 3, 5, 8, 20)))
            shop = apply_patch(shop, {**changes.get(turn, {}), "now": later.isoformat()})
            states.append(shop)
        secret = (field_path(rule.field, order), read_field(self.shop, rule.field, order))
        asked, requests = {(rule.topic, read_field(shop, rule.field, order))}, list[Request]()
        for turn, state in enumerate(states):
            chosen = (rule.topic, order) if turn == turns else self._pick(state, secret, asked)
            if chosen is None:
                return None
            patch = {**changes.get(turn, {}), "now": state.now.isoformat()}
            requests.append(self._request(patch, *chosen))
        return tuple(requests)

    def _changes(self, kind: Kind, variant: str, rule: Rule, order: str, turns: int) -> dict[int, dict[str, str]]:
        """The changes, by the turn with which they come; none with turn 0, whose state the baseline shows."""
        rng, path = self.rng, field_path(rule.field, order)
        old = read_field(self.shop, rule.field, order)
        new = rng.choice([value for value, tool in rule.actions if tool != rule.tool(old)])
        if kind == "flip":
            return {turns if variant == "with the question" else rng.randint(1, turns - 1): {path: new}}
        if kind == "back_and_forth":
            values = (new, old) if variant == "A-B-A" else (new, old, new)
            places = sorted(rng.sample(range(1, turns + 1), len(values)))
            return {turn: {path: value} for turn, value in zip(places, values, strict=True)}
        if kind == "irrelevant":
            return self._spread(self._others(path, rng.randint(1, 3), alike=variant == "deciding elsewhere"), turns)
        changed = [(path, new), *self._others(path, rng.randint(2, 3), alike=False).items()]
        rng.shuffle(changed)
        if variant == "at once":
            return {rng.randint(1, turns): dict(changed)}
        while len(spread := self._spread(dict(changed), turns)) < 2:
            pass
        return spread

    def _spread(self, changes: dict[str, str], turns: int) -> dict[int, dict[str, str]]:
        spread: dict[int, dict[str, str]] = {}
        for path, value in changes.items():
            spread.setdefault(self.rng.randint(1, turns), {})[path] = value
        return spread

    def _others(self, deciding: str, count: int, *, alike: bool) -> dict[str, str]:
        """New values for some fields that have no say in the question; `alike`: such as decide other questions."""
        rng, words, shop = self.rng, self.words, self.shop
        near = {
            field_path(name, order.id): (values, read_field(shop, name, order.id))
            for name, values in self.values.items()
            for order in shop.orders
        }
        far: dict[str, tuple[tuple[str, ...], str]] = {
            "customer.town": (words.towns, shop.customer.town),
            "account.balance": (MONEY, str(shop.account.balance)),
            **{f"orders[{order.id}].carrier": (words.carriers, order.carrier) for order in shop.orders},
            **{f"orders[{order.id}].total": (MONEY, str(order.total)) for order in shop.orders},
        }
        near.pop(deciding)
        pool = near if alike and near else {**near, **far}
        return {
            path: rng.choice([value for value in pool[path][0] if value != pool[path][1]])
            for path in rng.sample(list(pool), min(count, len(pool)))
        }

    def _pick(self, shop: Shop, deciding: tuple[str, str], asked: set[tuple[str, str]]) -> tuple[str, str] | None:
        """A topic and an order for a turn with an answer; no rule is asked twice about one value.

        That of the question (in `asked` from the start) never comes before it, so its answer stands nowhere to be
        copied. And no answer reads the deciding field once it has left its first value: the answer's note would tell
        what only errata may tell.

        Args:
            shop: The state at this turn.
            deciding: The deciding field and its first value.
            asked: Rules and values so far; the chosen one is added.
        """
        pairs = {
            (topic, order.id): (topic, read_field(shop, rule.field, order.id))
            for topic, rule in self.rules.items()
            for order in shop.orders
            if field_path(rule.field, order.id) != deciding[0] or read_field(shop, rule.field, order.id) == deciding[1]
        }
        fresh = [pair for pair, key in pairs.items() if key not in asked]
        if not fresh:
            return None
        chosen = self.rng.choice(fresh)
        asked.add(pairs[chosen])
        return chosen

    def _request(self, patch: dict[str, str], name: str, order: str) -> Request:
        topic, town = self.topics[name], self.rng.choice(self.words.towns)
        words = self.rng.choice(topic.paraphrases if self.paraphrase else topic.requests)
        return Request(patch, name, order, words.format(id=order, town=town), town)
