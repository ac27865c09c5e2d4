"""An agent that exists, and the four lines that keep its prompt cached while its state changes.

The agent has tools of its own and state of its own: a record for each customer, which a tool changes and the warehouse
too. Before, a `dynamic_prompt` wrote the record into the system prompt, so each change cost the whole cached prefix.
The lines that changed end with `# +`. Nothing else did: the tool, the records and whoever writes to them are as before.

Two customers talk to it at once, each in a thread of their own. Each line of the output is one model call: how much of
the request repeats the one before it, and what was told at its end.

    python -m examples.wrap_existing_agent

It runs offline: a stand-in for a model answers from what stands in the request. Use any chat model in its place.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]  # untyped checkpointer there
from langchain.tools import ToolRuntime, tool
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from pydantic import BaseModel

from langchain_pkv import ModelCall, StateMiddleware  # +
from pkv_agents import TrackedState  # +

POLICY = "You are the support agent of a shop. Only orders that are still in the warehouse can be cancelled."


class Order(BaseModel):
    """An order, as the warehouse sees it."""

    item: str
    status: str = "in the warehouse"


class Customer(TrackedState):  # + was: BaseModel
    """A customer's record."""

    name: str
    orders: dict[str, Order]


@dataclass(frozen=True, slots=True)
class User:
    """Who is talking: the context of a run."""

    id: str


CUSTOMERS: dict[str, Customer] = {}


def fill() -> None:
    """The records, as they were this morning."""
    CUSTOMERS["mara"] = Customer(name="Mara Lindt", orders={"K417": Order(item="kettle"), "M220": Order(item="mug")})
    CUSTOMERS["jon"] = Customer(name="Jon Sato", orders={"P101": Order(item="pan")})


@tool
def cancel_order(order_id: str, runtime: ToolRuntime[User, Any]) -> str:
    """Stop an order that is still in the warehouse."""
    order = CUSTOMERS[runtime.context.id].orders[order_id]
    if order.status != "in the warehouse":
        return f"{order_id} cannot be cancelled any more."
    order.status = "cancelled"
    return f"{order_id} is cancelled."


def record_of(runtime: Runtime[User]) -> Customer:
    """The customer of a run, as the record is now."""
    return CUSTOMERS[runtime.context.id]


def make_agent(model: BaseChatModel, on_call: Any = None) -> Any:
    """The agent."""
    return create_agent(
        model,
        [cancel_order],
        context_schema=User,
        middleware=[StateMiddleware(Customer, instructions=POLICY, state=record_of, on_call=on_call)],  # +
        checkpointer=InMemorySaver(),
    )


class StandIn(BaseChatModel):
    """Answers like a model that has read everything: by the last thing that the request says about an order."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        asked = next(message.text for message in reversed(messages) if isinstance(message, HumanMessage))
        order = re.findall(r"\b[A-Z]\d{3}\b", asked)[0]
        told = re.findall(rf'orders\[{order}\]\.status: "([^"]*)"', "\n".join(message.text for message in messages))
        if "cancel" in asked and told[-1] == "in the warehouse" and not isinstance(messages[-1], ToolMessage):
            call = {"name": "cancel_order", "args": {"order_id": order}, "id": f"c{len(messages)}"}
            answer = AIMessage("", tool_calls=[call])
        else:
            answer = AIMessage(f"{order}: {told[-1]}.")
        return ChatResult(generations=[ChatGeneration(message=answer)])


def converse(agent: Any, user: str, order: str) -> list[str]:
    """One customer's conversation, with a write from outside in its middle."""
    thread: Any = {"configurable": {"thread_id": user}}
    answers: list[str] = []
    for turn, text in enumerate((f"Where is {order}?", f"Please cancel {order}.", f"Is {order} cancelled?")):
        if turn == 1 and user == "mara":
            CUSTOMERS[user].orders[order].status = "delivered"  # the warehouse
        out = agent.invoke({"messages": [HumanMessage(text)]}, thread, context=User(user))
        answers.append(out["messages"][-1].text)
    return answers


def main() -> None:
    """Two customers at once."""
    fill()
    calls: list[ModelCall] = []
    agent = make_agent(StandIn(), calls.append)
    with ThreadPoolExecutor(2) as pool:
        talks = [pool.submit(converse, agent, *who) for who in (("mara", "K417"), ("jon", "P101"))]
        for talk in talks:
            print("\n".join(talk.result()), end="\n\n")
    seen: dict[str, str] = {}
    for call in calls:
        request = "\n".join(message.text for message in call.messages)
        head = request.partition("</state>")[0]
        before = seen.get(head, "")
        told = call.plan.erratum.text.replace("\n", " ") if call.plan.erratum else "-"
        kept = len(before) if request.startswith(before) else 0
        print(f"{100 * kept / len(request):5.1f} % of the request was sent before; told: {told}")
        seen[head] = request


if __name__ == "__main__":
    main()
