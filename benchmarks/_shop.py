"""The states of the wire benchmark: a customer and orders, small or large, with a clock or without."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Annotated

from pydantic import BaseModel

from pkv_agents import Tracked, TrackedState, Volatile

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
ORDERS, ITEMS = 12, 4
STATUSES = ("packed", "in transit", "delayed", "delivered")


class Line(BaseModel):
    """One line of an order."""

    id: str
    name: str
    quantity: int
    price: float
    status: str


class Order(BaseModel):
    """An order."""

    id: str
    status: str
    carrier: str
    eta: str
    items: Annotated[list[Line], Tracked(key="id")]


class Customer(BaseModel):
    """Who the agent talks to."""

    name: str
    email: str
    tier: str
    city: str
    street: str
    points: int
    language: str
    note: str


class Small(TrackedState):
    """About ten fields."""

    customer: str
    tier: str
    city: str
    order_id: str
    order_status: str
    carrier: str
    eta: str
    refund: str
    ticket: str
    note: str


class Large(TrackedState):
    """A customer with a dozen orders of a few lines each."""

    customer: Customer
    orders: Annotated[list[Order], Tracked(key="id")]


class SmallWithClock(Small):
    """With a clock, which every request may move."""

    now: Annotated[datetime, Volatile(resolution=timedelta(minutes=1))]


class LargeWithClock(Large):
    """With a clock, which every request may move."""

    now: Annotated[datetime, Volatile(resolution=timedelta(minutes=1))]


class Words:
    """Text that looks like text, from a seed."""

    _SYLLABLES = "ba ce di fo gu ha ke li mo nu pa re si to vu wa xe yi zo an el in or us".split()

    def __init__(self, random: Random) -> None:
        self.random = random

    def word(self) -> str:
        """Two or three syllables."""
        return "".join(self.random.choices(self._SYLLABLES, k=self.random.choice((2, 3))))

    def text(self, tokens: int) -> str:
        """So many tokens of four characters."""
        words, length = list[str](), 0
        while length < 4 * tokens:
            words.append(self.word())
            length += len(words[-1]) + 1
        return " ".join(words)[: 4 * tokens]


def new_state(words: Words, *, large: bool, clock: bool) -> TrackedState:
    """The state at the start."""
    if not large:
        names = ("customer", "tier", "city", "order_id", "carrier", "eta", "refund", "ticket", "note")
        made = {name: f"{words.word()} {words.word()}" for name in names}
        made["order_status"] = STATUSES[0]
        return SmallWithClock(**made, now=START) if clock else Small(**made)
    texts = {name: f"{words.word()} {words.word()}" for name in Customer.model_fields if name != "points"}
    orders = [new_order(4400 + number, words) for number in range(ORDERS)]
    customer = Customer(points=120, **texts)
    if clock:
        return LargeWithClock(customer=customer, orders=orders, now=START)
    return Large(customer=customer, orders=orders)


def new_order(number: int, words: Words) -> Order:
    """An order with its lines."""
    lines = [
        Line(id=f"I{index}", name=f"{words.word()} {words.word()}", quantity=1, price=12.5 + index, status="packed")
        for index in range(ITEMS)
    ]
    eta = (START + timedelta(days=number % 7)).date().isoformat()
    return Order(id=f"W{number}", status=STATUSES[0], carrier=words.word(), eta=eta, items=lines)


def assignments(state: TrackedState, words: Words) -> list[Callable[[str], None]]:
    """What may change, each by a new text: six fields, or three busy orders and some of their lines."""

    def field_of(owner: object, name: str) -> Callable[[str], None]:
        return lambda text: setattr(owner, name, text)

    if isinstance(state, Large):
        busy = words.random.sample(list(state.orders), 3)
        deep = [field_of(line, "status") for order in busy for line in order.items[:2]]
        return [*(field_of(order, name) for order in busy for name in ("status", "eta")), *deep]
    return [field_of(state, name) for name in ("order_status", "eta", "carrier", "refund", "ticket", "note")]
