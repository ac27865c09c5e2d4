"""The scripted conversation: twelve turns in which the shop's state changes nearly every time.

It was fixed before the adapter was trained, and no training row contains it. What changes, turn by turn: an order's
status from outside (2, 4, 11, 12), the customer's tier there, back and there again (3, 5, 10), the account's standing
there and back (4, 6) and once more (12), a payment (8), something that does not matter (9), two things at once (4, 12),
and what the agent's own tools did (told at the next turn).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from .schema import Account, Customer, Order, Shop


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the script.

    Attributes:
        text: What the customer writes.
        topic: The policy's words for it.
        order_id: The order it is about.
        town: The town in an address change.
        outside: What changed since the turn before without the agent's doing, by path.
    """

    text: str
    topic: str
    order_id: str
    town: str = ""
    outside: dict[str, str] = field(default_factory=dict[str, str])


def initial_state() -> Shop:
    """The state at the start of the conversation."""
    return Shop(
        customer=Customer(name="Helma Brandt", tier="silver", town="Ghent"),
        account=Account(standing="good", balance=Decimal("12.50")),
        orders=[
            Order(
                id="K417",
                item="desk lamp",
                status="shipped",
                payment="paid",
                carrier="red van",
                total=Decimal("129.90"),
            ),
            Order(
                id="M802",
                item="kettle",
                status="processing",
                payment="paid",
                carrier="north post",
                total=Decimal("64.00"),
            ),
            Order(
                id="R365",
                item="linen throw",
                status="delivered",
                payment="paid",
                carrier="city bike",
                total=Decimal("88.50"),
            ),
        ],
        now=datetime(2026, 3, 14, 9, 30),
    )


TURNS = (
    Turn(
        "I have an address change request for order M802, to Lisbon.",
        "address change",
        "M802",
        town="Lisbon",
        outside={"now": "2026-03-14T09:30:00"},
    ),
    Turn(
        "Can you take a cancel request for order M802?",
        "cancel",
        "M802",
        outside={"orders[M802].status": "packed", "now": "2026-03-14T09:34:00"},
    ),
    Turn(
        "I have a rush request for order K417.",
        "rush",
        "K417",
        outside={"customer.tier": "gold", "now": "2026-03-14T09:39:00"},
    ),
    Turn(
        "This is a missing item request for order K417, please.",
        "missing item",
        "K417",
        outside={"orders[K417].status": "delivered", "account.standing": "review", "now": "2026-03-14T09:47:00"},
    ),
    Turn(
        "Hello, order K417 again: a damage request.",
        "damage",
        "K417",
        outside={"customer.tier": "silver", "now": "2026-03-14T09:52:00"},
    ),
    Turn(
        "I have a missing item request for order R365.",
        "missing item",
        "R365",
        outside={"account.standing": "good", "now": "2026-03-14T10:01:00"},
    ),
    Turn(
        "Can you take an address change request for order R365, to Porto?",
        "address change",
        "R365",
        town="Porto",
        outside={"now": "2026-03-14T10:05:00"},
    ),
    Turn(
        "This is a refund request for order R365, please.",
        "refund",
        "R365",
        outside={"orders[R365].payment": "disputed", "now": "2026-03-14T10:11:00"},
    ),
    Turn(
        "I have a return request for order K417.",
        "return",
        "K417",
        outside={"orders[M802].carrier": "city bike", "now": "2026-03-14T10:16:00"},
    ),
    Turn(
        "Can you take a discount request for order M802?",
        "discount",
        "M802",
        outside={"customer.tier": "gold", "now": "2026-03-14T10:24:00"},
    ),
    Turn(
        "This is a late delivery request for order M802, please.",
        "late delivery",
        "M802",
        outside={"orders[M802].status": "shipped", "now": "2026-03-14T10:31:00"},
    ),
    Turn(
        "I have a price match request for order M802.",
        "price match",
        "M802",
        outside={"account.standing": "restricted", "orders[M802].status": "delivered", "now": "2026-03-14T10:37:00"},
    ),
)
