"""The shop that the tests of both frameworks' adapters are about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from pkv_agents import Hidden, Tracked, TrackedState, Volatile

TAG = "k7f3"
UPDATE = f'<state-update id="{TAG}">'


class Customer(TrackedState):
    name: str
    tier: str = "gold"


class Order(TrackedState):
    id: str
    status: str = "in transit"
    total: Decimal = Decimal("129.90")


class Shop(TrackedState):
    customer: Customer
    orders: Annotated[list[Order], Tracked(key="id")] = Field(default_factory=list[Order])
    mode: Literal["plan", "auto"] = "plan"
    cart_total: int = 0
    notes: dict[str, str] = Field(default_factory=dict)


class ClockShop(Shop):
    now: Annotated[datetime, Volatile(resolution=timedelta(minutes=10))] = datetime(2026, 3, 1, 9, 0, 7, tzinfo=UTC)
    audit: Annotated[str, Hidden()] = "internal-4711"


def a_shop(**values: Any) -> Shop:
    return Shop(customer=Customer(name="Mara Lindt"), orders=[Order(id="K417"), Order(id="M220")], **values)
