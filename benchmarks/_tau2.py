"""Traces from the tasks of tau2-bench's retail domain, whose folder the caller names.

Each task is one conversation: the customer says why they call, the agent looks things up, asks for a yes before each
action that changes something, and does it. The calls and what they do to the orders are the task's own; what is said is
made up to a usual length. The state is the customer's profile and all their orders. What an action pays or refunds is
entered in the order's payments; the balance of a gift card is left as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Annotated, Any, cast

from pydantic import BaseModel

from benchmarks._frame import BenchmarkError
from benchmarks._shop import Words
from benchmarks._traces import Step, Trace, step_of
from pkv_agents import Message, ToolCall, Tracked, TrackedState

FILES = ("db.json", "policy.md", "tools.json", "tasks.json")


class Address(BaseModel):
    """Where somebody lives."""

    address1: str
    address2: str
    city: str
    state: str
    country: str
    zip: str


class Item(BaseModel):
    """One line of an order; `line` is its place in it, since an item may be ordered twice."""

    line: int
    name: str
    product_id: str
    item_id: str
    price: float
    options: dict[str, str]


class Payment(BaseModel):
    """One entry of an order's payments."""

    transaction_type: str
    amount: float
    payment_method_id: str


class Order(BaseModel):
    """An order, with what was asked for it since."""

    order_id: str
    status: str
    address: Address
    items: Annotated[list[Item], Tracked(key="line")]
    tracking: list[str]
    payments: list[Payment]
    cancel_reason: str | None = None
    return_items: list[str] | None = None
    exchange_items: list[str] | None = None
    exchange_new_items: list[str] | None = None
    refund_to: str | None = None


class PaymentMethod(BaseModel):
    """How a customer pays."""

    id: str
    source: str
    last_four: str | None = None
    balance: float | None = None


class Retail(TrackedState):
    """The customer and their orders."""

    user_id: str
    name: str
    email: str
    address: Address
    payment_methods: Annotated[list[PaymentMethod], Tracked(key="id")]
    orders: Annotated[list[Order], Tracked(key="order_id")]


class Shop:
    """The database, as far as it is read here.

    Args:
        folder: Where it lies.

    Raises:
        BenchmarkError: A file is missing or is not what it should be.
    """

    def __init__(self, folder: Path) -> None:
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise BenchmarkError(f"{folder} has no {', '.join(missing)}; --tau2 takes tau2-bench's retail domain")
        try:
            texts = {name: (folder / name).read_text(encoding="utf-8") for name in FILES}
            data = json.loads(texts["db.json"])
            self.users: Mapping[str, Any] = data["users"]
            self.orders: Mapping[str, Any] = data["orders"]
            self.variants = {key: value for one in data["products"].values() for key, value in one["variants"].items()}
            self.tools = json.dumps(json.loads(texts["tools.json"]))
            self.tasks: list[Any] = json.loads(texts["tasks.json"])
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise BenchmarkError(f"{folder} is not tau2-bench's retail domain: {error}") from error
        self.policy = texts["policy.md"]

    def state(self, user_id: str) -> Retail:
        """A customer as the database has them."""
        user = self.users[user_id]
        return Retail(
            user_id=user_id,
            name=" ".join(user["name"].values()),
            email=user["email"],
            address=user["address"],
            payment_methods=list(user["payment_methods"].values()),
            orders=[self._order(self.orders[order]) for order in user["orders"] if order in self.orders],
        )

    def _order(self, order: Mapping[str, Any]) -> Order:
        items = [Item(line=line, **item) for line, item in enumerate(order["items"], start=1)]
        tracking = [number for sent in order["fulfillments"] for number in sent["tracking_id"]]
        known = {name: order[name] for name in ("order_id", "status", "address")}
        return Order(items=items, tracking=tracking, payments=order["payment_history"], **known)

    def owner(self, actions: list[Any]) -> str | None:
        """Whose task it is: the customer of what it changes; None when nothing known is changed."""
        for action in actions:
            asked = action["arguments"]
            order = self.orders.get(asked.get("order_id", ""))
            user = order["user_id"] if order is not None else asked.get("user_id")
            if action["name"] in ACTIONS and user in self.users:
                return cast(str, user)
        return None


def _cancel(state: Retail, order: Order, asked: Mapping[str, Any], shop: Shop) -> None:
    order.status, order.cancel_reason = "cancelled", asked["reason"]
    paid = order.payments[0]
    refund = Payment(transaction_type="refund", amount=paid.amount, payment_method_id=paid.payment_method_id)
    order.payments = [*order.payments, refund]


def _modify_items(state: Retail, order: Order, asked: Mapping[str, Any], shop: Shop) -> None:
    order.status, difference = "pending (item modified)", 0.0
    for old, new in zip(asked["item_ids"], asked["new_item_ids"], strict=True):
        item = next((item for item in order.items if item.item_id == old), None)
        if item is not None and new in shop.variants:
            variant = shop.variants[new]
            difference += variant["price"] - item.price
            item.item_id, item.price, item.options = new, variant["price"], variant["options"]
    kind, amount = ("payment" if difference > 0 else "refund"), round(abs(difference), 2)
    entry = Payment(transaction_type=kind, amount=amount, payment_method_id=asked["payment_method_id"])
    order.payments = [*order.payments, entry]


def _modify_payment(state: Retail, order: Order, asked: Mapping[str, Any], shop: Shop) -> None:
    paid = order.payments[0]
    method = asked["payment_method_id"]
    again = Payment(transaction_type="payment", amount=paid.amount, payment_method_id=method)
    back = Payment(transaction_type="refund", amount=paid.amount, payment_method_id=paid.payment_method_id)
    order.payments = [*order.payments, again, back]


def _modify_address(state: Retail, order: Order, asked: Mapping[str, Any], shop: Shop) -> None:
    order.address = _address(asked)


def _return(state: Retail, order: Order, asked: Mapping[str, Any], shop: Shop) -> None:
    order.status, order.return_items = "return requested", list(asked["item_ids"])
    order.refund_to = asked["payment_method_id"]


def _exchange(state: Retail, order: Order, asked: Mapping[str, Any], shop: Shop) -> None:
    order.status, order.refund_to = "exchange requested", asked["payment_method_id"]
    order.exchange_items, order.exchange_new_items = list(asked["item_ids"]), list(asked["new_item_ids"])


def _address(asked: Mapping[str, Any]) -> Address:
    return Address(**{name: asked[name] for name in Address.model_fields})


Act = Callable[[Retail, Order, Mapping[str, Any], Shop], None]
ORDER_ACTIONS: dict[str, Act] = {
    "cancel_pending_order": _cancel,
    "modify_pending_order_items": _modify_items,
    "modify_pending_order_payment": _modify_payment,
    "modify_pending_order_address": _modify_address,
    "return_delivered_order_items": _return,
    "exchange_delivered_order_items": _exchange,
}
ACTIONS = {*ORDER_ACTIONS, "modify_user_address"}


def act(state: Retail, action: Mapping[str, Any], shop: Shop) -> None:
    """Do to the state what an action of a task does."""
    name, asked = action["name"], action["arguments"]
    if name == "modify_user_address":
        state.address = _address(asked)
    order = order_of(state, asked)
    if name in ORDER_ACTIONS and order is not None:
        ORDER_ACTIONS[name](state, order, asked, shop)


def order_of(state: Retail, asked: Mapping[str, Any]) -> Order | None:
    """The customer's order that a call is about."""
    return next((order for order in state.orders if order.order_id == asked.get("order_id")), None)


def result_of(state: Retail, action: Mapping[str, Any], words: Words) -> str:
    """What a tool answers: the order or the customer it is about, or something of a usual length."""
    order = order_of(state, action["arguments"])
    if order is not None:
        return order.model_dump_json(exclude_none=True)
    if action["name"] == "get_user_details":
        return state.model_dump_json(exclude_none=True, exclude={"orders"})
    if action["name"].startswith("find_user"):
        return state.user_id
    return words.text(words.random.randint(60, 600))


def tau2_traces(folder: Path) -> list[Trace]:
    """One conversation for each task that changes an order or a customer of the database.

    Raises:
        BenchmarkError: The folder does not hold the domain.
    """
    shop = Shop(folder)
    made: list[Trace] = []
    for task in shop.tasks:
        actions = cast("list[Any]", task["evaluation_criteria"]["actions"] or [])
        user = shop.owner(actions)
        if user is not None:
            reason = str(task["user_scenario"]["instructions"]["reason_for_call"])
            made.append(_trace(shop, shop.state(user), str(task["id"]), reason, actions))
    return made


def _trace(shop: Shop, state: Retail, name: str, reason: str, actions: list[Any]) -> Trace:
    words = Words(Random(f"tau2/{name}"))
    random, history, steps = words.random, [Message("user", reason)], list[Step]()
    turn, at = 0, 0.0
    for number, action in enumerate(actions):
        if action["name"] in ACTIONS:  # the policy wants a yes to everything that changes something
            steps.append(step_of(turn, len(history), state, at))
            history.append(Message("assistant", words.text(random.randint(60, 200))))
            history.append(Message("user", words.text(random.randint(5, 40))))
            turn, at = turn + 1, at + random.uniform(10, 58)
        steps.append(step_of(turn, len(history), state, at))
        call = ToolCall(action["name"], action["arguments"], str(number))
        act(state, action, shop)
        history.append(Message("assistant", "", tool_calls=(call,)))
        history.append(Message("tool", result_of(state, action, words), tool_call_id=str(number)))
        at += random.uniform(2, 8)
    steps.append(step_of(turn, len(history), state, at))
    return Trace(shop.tools, shop.policy, tuple(history), tuple(steps))
