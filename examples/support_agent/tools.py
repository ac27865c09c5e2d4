"""The shop's tools: ordinary LangChain tools that change the tracked state and tell the customer so.

A tool returns a patch by path and a message. Its words go to the customer as they are (`return_direct`), so a turn is
one model call. What it changed is told to the model at the next turn, by whatever means an arm has.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command

from pkv_agents import LOAD_SKILL, SkillRegistry, answer_skill_call

from .schema import Shop, SkilledShop, read_shop
from .vocabulary import TOOL_DOCS, ToolDoc

CREDIT = Decimal("10.00")

Patch = dict[str, str]


def _order(field: str, value: str) -> Callable[[Shop, str], Patch]:
    return lambda shop, order_id: {f"orders[{order_id}].{field}": value}


def _nothing(shop: Shop, order_id: str) -> Patch:
    return {}


def _credit(shop: Shop, order_id: str) -> Patch:
    return {"account.balance": str(shop.account.balance + CREDIT)}


EFFECTS: dict[str, Callable[[Shop, str], Patch]] = {
    "cancel_order": _order("status", "cancelled"),
    "change_address": _nothing,
    "decline_request": _nothing,
    "escalate_case": _nothing,
    "expedite_order": _order("carrier", "red van"),
    "hold_order": _order("status", "on hold"),
    "issue_credit": _credit,
    "open_return": _nothing,
    "refund_order": _order("payment", "refunded"),
    "send_replacement": _order("status", "processing"),
}
"""What each tool changes in the state, as a patch."""


def shop_tools() -> list[BaseTool]:
    """The tools, sorted by name: their order is part of the prompt's head."""
    return [_tool(doc) for doc in sorted(TOOL_DOCS, key=lambda doc: doc.name)]


def _tool(doc: ToolDoc) -> BaseTool:
    def for_order(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        return _run(doc, runtime, order_id)

    def for_order_and_town(order_id: str, town: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        return _run(doc, runtime, order_id, town)

    function = for_order_and_town if "town" in doc.arguments else for_order
    return StructuredTool.from_function(function, name=doc.name, description=doc.description, return_direct=True)


def _run(doc: ToolDoc, runtime: ToolRuntime[Any, Any], order_id: str, town: str = "") -> Command[Any]:
    shop = read_shop(runtime.state["pkv_state"])
    if all(order.id != order_id for order in shop.orders):
        words, patch, status = f"There is no order {order_id}.", {}, "error"
    else:
        words = doc.reply.format(order_id=order_id, town=town)
        patch, status = EFFECTS[doc.name](shop, order_id), "success"
    message = ToolMessage(words, name=doc.name, tool_call_id=runtime.tool_call_id, status=status)
    return Command(update={"pkv_state": patch, "messages": [message]})


def skill_tool(registry: Callable[[], SkillRegistry]) -> BaseTool:
    """The tool with which a model loads a skill; its text follows with the next request, so it asks again.

    Args:
        registry: Gives the skills of the moment.
    """

    def load(name: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        shop = read_shop(runtime.state["pkv_state"])
        assert isinstance(shop, SkilledShop), "an agent with this tool has skills"
        answer = answer_skill_call(registry(), LOAD_SKILL.name, {"name": name}, shop.skills)
        assert answer is not None, "the call is one of ours"
        message = ToolMessage(answer.text, name=LOAD_SKILL.name, tool_call_id=runtime.tool_call_id)
        return Command(update={"pkv_state": answer.patch, "messages": [message]})

    return StructuredTool.from_function(load, name=LOAD_SKILL.name, description=LOAD_SKILL.description)


__all__ = ["EFFECTS", "shop_tools", "skill_tool"]
