"""The shop's state: what the support agent has to know about a customer at any moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel

from pkv_agents import Tracked, TrackedState, Volatile


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
