"""Traces from a folder of tau2-bench's shape: each action does to the state what it does to the order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks._frame import BenchmarkError
from benchmarks._tau2 import ACTIONS, Shop, act, tau2_traces
from pkv_agents import diff, snapshot

HOME = {"address1": "1 A", "address2": "", "city": "B", "state": "C", "country": "USA", "zip": "1"}
AWAY = {**HOME, "address1": "2 Z", "zip": "9"}
BLUE = {"name": "Shirt", "product_id": "p1", "item_id": "i1", "price": 10.0, "options": {"shirt size": "M"}}


def order(number: str, status: str) -> dict[str, Any]:
    paid = {"transaction_type": "payment", "amount": 20.0, "payment_method_id": "card_1"}
    sent = [{"tracking_id": ["900"], "item_ids": ["i1", "i1"]}] if status == "delivered" else []
    return {
        "order_id": number,
        "user_id": "ann_1",
        "address": HOME,
        "items": [BLUE, BLUE],
        "status": status,
        "fulfillments": sent,
        "payment_history": [paid],
    }


def task(number: int, *actions: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    calls = [{"name": name, "arguments": arguments} for name, arguments in actions]
    told = {"instructions": {"reason_for_call": "You want something."}}
    return {"id": str(number), "user_scenario": told, "evaluation_criteria": {"actions": calls or None}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    user = {
        "name": {"first_name": "Ann", "last_name": "Bo"},
        "address": HOME,
        "email": "ann@example.com",
        "payment_methods": {"card_1": {"source": "credit_card", "id": "card_1", "brand": "visa", "last_four": "0001"}},
        "orders": ["#W1", "#W2", "#W-gone"],
    }
    variants = {"i2": {"item_id": "i2", "price": 12.5, "options": {"shirt size": "L"}}}
    data = {
        "users": {"ann_1": user},
        "orders": {"#W1": order("#W1", "pending"), "#W2": order("#W2", "delivered")},
        "products": {"p1": {"variants": variants}},
    }
    tasks = [
        task(0),
        task(1, ("find_user_id_by_email", {"email": "ann@example.com"}), ("get_order_details", {"order_id": "#W1"})),
        task(
            2,
            ("get_user_details", {"user_id": "ann_1"}),
            ("cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"}),
        ),
        task(3, ("cancel_pending_order", {"order_id": "#W-other", "reason": "no longer needed"})),
    ]
    (tmp_path / "db.json").write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    (tmp_path / "tools.json").write_text('[{"type": "function"}]', encoding="utf-8")
    (tmp_path / "policy.md").write_text("Be kind.", encoding="utf-8")
    return tmp_path


def test_a_task_becomes_a_conversation(folder: Path) -> None:
    (trace,) = tau2_traces(folder)  # only task 2 changes an order that is there
    assert trace == tau2_traces(folder)[0]
    assert (trace.policy, trace.tools, trace.turns) == ("Be kind.", '[{"type": "function"}]', 2)
    roles = ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    assert [message.role for message in trace.history] == roles
    assert [step.count for step in trace.steps] == [1, 3, 5, 7]
    before, after = trace.steps[-2], trace.steps[-1]
    assert [change.path for change in diff(before.state, after.state)] == [
        'orders["#W1"].status',
        'orders["#W1"].payments[1].transaction_type',
        'orders["#W1"].payments[1].amount',
        'orders["#W1"].payments[1].payment_method_id',
        'orders["#W1"].cancel_reason',
    ]
    assert '"cancel_reason":"no longer needed"' in after.data


ENTRY = {f"payments[1].{name}" for name in ("transaction_type", "amount", "payment_method_id")}
PAY = {"payment_method_id": "card_1"}
DONE: list[tuple[str, dict[str, Any], set[str]]] = [
    ("modify_user_address", {"user_id": "ann_1", **AWAY}, {"address.address1", "address.zip"}),
    ("cancel_pending_order", {"order_id": "#W1", "reason": "x"}, {"status", "cancel_reason"} | ENTRY),
    ("modify_pending_order_address", {"order_id": "#W1", **AWAY}, {"address.address1", "address.zip"}),
    ("modify_pending_order_payment", {"order_id": "#W1", **PAY}, ENTRY | {path.replace("1", "2") for path in ENTRY}),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", "item_ids": ["i1"], "new_item_ids": ["i2"], **PAY},
        {"status", "items[1].item_id", "items[1].price", 'items[1].options["shirt size"]'} | ENTRY,
    ),
    (
        "return_delivered_order_items",
        {"order_id": "#W2", "item_ids": ["i1"], **PAY},
        {"status", "return_items", "refund_to"},
    ),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W2", "item_ids": ["i1"], "new_item_ids": ["i2"], **PAY},
        {"status", "exchange_items", "exchange_new_items", "refund_to"},
    ),
]


@pytest.mark.parametrize(("name", "asked", "paths"), DONE, ids=[name for name, _, _ in DONE])
def test_what_an_action_changes(folder: Path, name: str, asked: dict[str, Any], paths: set[str]) -> None:
    shop = Shop(folder)
    state = shop.state("ann_1")
    before = snapshot(state)
    act(state, {"name": name, "arguments": asked}, shop)
    prefix = f'orders["{asked["order_id"]}"].' if "order_id" in asked else ""
    assert {change.path.removeprefix(prefix) for change in diff(before, snapshot(state))} == paths


def test_all_actions_are_here() -> None:
    assert {name for name, _, _ in DONE} == ACTIONS


def test_a_folder_that_is_something_else(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"has no db\.json, policy\.md"):
        tau2_traces(tmp_path / "nowhere")
    (folder / "db.json").write_text("[]", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="is not tau2-bench"):
        tau2_traces(folder)
