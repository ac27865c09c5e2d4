"""The shop's state: what the support agent has to know about a customer at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel

from pkv_agents import Skills, Snapshot, Tracked, TrackedState, Volatile


class Customer(BaseModel):
    """Who is writing."""

    name: str
    tier: str
    town: str


class Account(BaseModel):
    """How the shop stands with the customer."""

    standing: str
    balance: Decimal


class Order(BaseModel):
    """One order, known by a letter and three digits."""

    id: str
    item: str
    status: str
    payment: str
    carrier: str
    total: Decimal


class Shop(TrackedState):
    """Everything that may change during a conversation.

    The clock is Volatile: it never stands in the prompt's head, and is told again only after half an hour.
    """

    customer: Customer
    account: Account
    orders: Annotated[list[Order], Tracked(key="id")]
    now: Annotated[datetime, Volatile(resolution=timedelta(minutes=30))]


class SkilledShop(Shop):
    """The same of an agent whose rules are skills: what is loaded of them is part of the state."""

    skills: Skills = Skills()


def read_shop(data: Mapping[str, Any]) -> Shop:
    """The state from plain data, with its skills if it has any."""
    return (SkilledShop if "skills" in data else Shop).model_validate(data)


def all_plain(view: Snapshot) -> Snapshot:
    """A view of the state in which the clock is a field like any other, as people who rewrite their heads show it."""
    return replace(view, meta={path: meta for path, meta in view.meta.items() if not meta.volatile})
