"""Many fields amended by errata, and a question that one of them decides.

    head: 14 orders | turn 0 | turn 1, errata | turn 2, errata | turn 3, errata | question, errata

So many distinct fields are told anew, spread over four turns; the deciding one is told in the first of them, in the
middle or with the question. What a session sends is held against a clean prefill of a head with the values as they are.
Two orders never change, and all turns before the question are about them, so history and oracle are the same wherever
the deciding field is told.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from benchmarks._cases import MONEY, Case, draw_tag
from benchmarks._modes import Question, Subject, common
from benchmarks._modes_answers import Decision
from benchmarks._modes_long import clean_ids, told_by_session
from examples.support_agent.policy import Request, Rule, field_path, read_field
from examples.support_agent.schema import Shop
from examples.support_agent.vocabulary import HELD_OUT, TOPICS
from examples.support_agent.worlds import Size, World, draw_world

COUNTS = (1, 5, 20, 50)
TURNS = 4
"""Turns that tell something; the last is the question's."""
TOLD: Mapping[str, int] = {"start": 1, "middle": 2, "end": TURNS}
"""When the deciding field is told."""
ORDERS, QUIET = 14, 2

_TOPICS = {topic.name: topic for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class AmendedRow:
    """One question behind so many errata.

    Attributes:
        seed: The world.
        fields: How many fields were amended.
        told: When the deciding one was told.
        tokens: Of the prompt with errata.
        ours: Whether errata make the model name the right value and take the right tool.
        clean: The same of the clean prefill.
        agrees: Whether value and tool are the clean prefill's.
    """

    seed: int
    fields: int
    told: str
    tokens: int
    ours: bool
    clean: bool
    agrees: bool


@dataclass(frozen=True, slots=True)
class Amended:
    """A world, a question, and what may be amended before it.

    Attributes:
        case: The world, with its turns and no change in them.
        deciding: The deciding field and its new value.
        others: Other fields and their new values, in the order in which they are taken.
    """

    case: Case
    deciding: tuple[str, str]
    others: tuple[tuple[str, str], ...]

    def told(self, fields: int, told: str) -> Case:
        """The case in which so many fields are amended."""
        patches: list[dict[str, str]] = [{} for _ in range(TURNS + 1)]
        for index, (path, value) in enumerate(self.others[: fields - 1]):
            patches[1 + index % TURNS][path] = value
        patches[TOLD[told]] |= dict([self.deciding])
        requests = zip(self.case.world.requests, patches, strict=True)
        changed = tuple(replace(request, patch=patch) for request, patch in requests)
        return replace(self.case, world=replace(self.case.world, requests=changed))


def amended_rows(subject: Subject, drawn: Amended, counts: Sequence[int]) -> Iterator[AmendedRow]:
    """Each count, each place in the list."""
    cases = {(fields, told): drawn.told(fields, told) for fields in counts for told in TOLD}
    sent = {key: list(told_by_session(subject, case))[-1] for key, case in cases.items()}
    _, first = next(iter(sent.values()))
    shared = subject.segments.prefill(first[: min(common(first, ids) for _, ids in sent.values()) - 1]).segment
    oracle: dict[int, Decision] = {}
    for (fields, told), case in cases.items():
        messages, ids = sent[fields, told]
        asked = Question(case, subject)
        if fields not in oracle:
            clean = clean_ids(subject, case, case.states()[-1], messages)
            oracle[fields] = asked.decide(subject.segments.prefill(clean).segment)
        truth, ours = oracle[fields], asked.decide(subject.segments.forward(shared, ids[len(shared) :]).segment)
        yield AmendedRow(case.seed, fields, told, len(ids), ours.is_new, truth.is_new, ours.same_as(truth))


def amended_worlds(*, orders: int = ORDERS) -> Iterator[Amended]:
    """Worlds with many orders, in the order of their seeds."""
    return (draw_amended(seed, orders=orders) for seed in count())


def draw_amended(seed: int, *, orders: int = ORDERS) -> Amended:
    """The world of a seed, any whole number from 0."""
    rng = random.Random(f"parity/amended/{seed}")
    tag = draw_tag(rng)
    while True:
        world = draw_world(rng, Size(topics=2, orders=orders, prose=0.0, turns=1, vocabulary=HELD_OUT))
        if any(rule.field not in ("status", "payment") for rule in world.rules.values()):
            continue  # the rules read fields of orders, so that two quiet orders are enough to ask about
        ids = [order.id for order in world.shop.orders]
        quiet = rng.sample(ids, QUIET)
        rule, order = rng.choice(list(world.rules.values())), rng.choice([one for one in ids if one not in quiet])
        old = read_field(world.shop, rule.field, order)
        new = rng.choice([value for value, tool in rule.actions if tool != rule.tool(old)])
        calm = [pair for pair in _pairs(world, quiet) if (pair[0], _value(world, *pair)) != (rule.topic, new)]
        if not calm:
            continue  # else the answer to the question would stand in the history
        asked = [*(rng.choice(calm) for _ in range(TURNS)), (rule.topic, order)]
        case = Case(
            seed=seed,
            head="short",
            phrasing="trained",
            kind="several",
            variant="over turns",
            world=replace(world, requests=tuple(_request(rng, *pair) for pair in asked)),
            tag=tag,
        )
        deciding = field_path(rule.field, order)
        others = [(path, value) for path, value in _changes(rng, world, quiet) if path != deciding]
        rng.shuffle(others)
        return Amended(case, (deciding, new), tuple(others))


def _pairs(world: World, orders: Sequence[str]) -> list[tuple[str, str]]:
    return [(topic, order) for topic in world.rules for order in orders]


def _value(world: World, topic: str, order: str) -> str:
    rule: Rule = world.rules[topic]
    return read_field(world.shop, rule.field, order)


def _request(rng: random.Random, topic: str, order: str) -> Request:
    town = rng.choice(HELD_OUT.towns)
    return Request({}, topic, order, rng.choice(_TOPICS[topic].requests).format(id=order, town=town), town)


def _changes(rng: random.Random, world: World, quiet: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A new value for every field but those of the quiet orders."""
    shop: Shop = world.shop
    pools: dict[str, tuple[Sequence[str], str]] = {
        "customer.tier": (world.values["tier"], shop.customer.tier),
        "customer.town": (HELD_OUT.towns, shop.customer.town),
        "account.standing": (world.values["standing"], shop.account.standing),
        "account.balance": (MONEY, str(shop.account.balance)),
    }
    for order in shop.orders:
        if order.id not in quiet:
            path = f"orders[{order.id}]"
            pools |= {
                f"{path}.status": (world.values["status"], order.status),
                f"{path}.payment": (world.values["payment"], order.payment),
                f"{path}.carrier": (HELD_OUT.carriers, order.carrier),
                f"{path}.total": (MONEY, str(order.total)),
            }
    for path, (values, now) in pools.items():
        yield path, rng.choice([value for value in values if value != now])
