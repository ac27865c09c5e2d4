"""LangChain's own middleware beside ours: the state is told, and the prefix breaks only where a notice says so."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langchain_pkv import StateMiddleware, read_ledger
from pkv_agents import Notice
from tests.langchain.support import TAG, Scripted, Shop, a_shop, call, texts, wire_of

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}
ORDERS = pytest.mark.parametrize("ours_is_last", [True, False], ids=["ours last", "ours first"])


@tool
def ship(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Mark an order as delivered."""
    answer = ToolMessage(f"{order_id} was handed over", tool_call_id=runtime.tool_call_id)
    return Command(update={"pkv_state": {f"orders[{order_id}].status": "delivered"}, "messages": [answer]})


@tool
def look(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: " + "on its way " * 50


def calls(*made: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=list(made))


class Beside:
    """An agent with one neighbour, and what was sent and said."""

    def __init__(self, neighbour: Any, script: list[Any], *, ours_is_last: bool = True, tools: Any = None) -> None:
        self.model = Scripted(script=script)
        self.notices: list[Notice] = []
        ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG, on_notice=self.notices.append)
        around = [neighbour, ours] if ours_is_last else [ours, neighbour]
        self.agent: Any = create_agent(
            self.model, tools or [ship, look], middleware=around, checkpointer=InMemorySaver()
        )

    def say(self, text: str, **rest: Any) -> Any:
        state = {} if self.model.requests else {"pkv_state": a_shop()}
        return self.agent.invoke({"messages": [HumanMessage(text)], **state, **rest}, CONFIG)

    @property
    def codes(self) -> list[str]:
        return [notice.code for notice in self.notices]

    def breaks(self) -> int:
        """How many requests do not begin with the one before."""
        sent = [wire_of(request) for request in self.model.requests]
        return sum(two[: len(one)] != one for one, two in zip(sent, sent[1:], strict=False))

    def is_told(self, line: str) -> bool:
        """Whether the last word of the latest request about a path is this line."""
        path = line.partition(":")[0]
        said = texts(self.model.requests[-1]).replace('\\"', '"').replace("\\n", "\n")
        return [one for one in said.splitlines() if one.startswith(f"{path}: ")][-1:] == [line]


@ORDERS
def test_summarisation(ours_is_last: bool) -> None:
    summariser = Scripted(script=[AIMessage("They talked.")] * 9)
    neighbour = SummarizationMiddleware(model=summariser, trigger=("messages", 6), keep=("messages", 2))
    beside = Beside(neighbour, [], ours_is_last=ours_is_last)
    beside.say("one")
    beside.say("two", pkv_state={"mode": "auto"})
    beside.say("three")
    assert beside.breaks() == 0 and beside.codes == []
    beside.say("four", pkv_state={"cart_total": 7})
    assert "They talked." in texts(beside.model.requests[-1])
    assert beside.is_told('mode: "auto"') and beside.is_told("cart_total: 7")
    assert beside.breaks() == 1 and "history_rewritten" in beside.codes


@ORDERS
def test_context_editing(ours_is_last: bool) -> None:
    """It edits requests, not the thread; listed behind ours it edits the planned one, which is planned anew."""
    edit = ClearToolUsesEdit(trigger=120, keep=1)
    script = [calls(call("look", "c1", order_id="K417")), calls(call("look", "c2", order_id="M220")), AIMessage("so")]
    beside = Beside(ContextEditingMiddleware(edits=[edit]), script, ours_is_last=ours_is_last)
    beside.say("go")
    beside.say("and?", pkv_state={"mode": "auto"})
    assert "[cleared]" in texts(beside.model.requests[-1])
    assert beside.is_told('mode: "auto"')
    assert beside.breaks() == 1 and [code for code in beside.codes if code.startswith("history_")]
    assert "not_sent" not in beside.codes


@ORDERS
def test_a_human_in_the_loop(ours_is_last: bool) -> None:
    neighbour = HumanInTheLoopMiddleware(interrupt_on={"ship": True})
    beside = Beside(neighbour, [calls(call("ship", "c1", order_id="K417")), AIMessage("ok")], ours_is_last=ours_is_last)
    assert beside.say("ship it")["__interrupt__"]
    beside.agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert beside.is_told('orders[K417].status: "delivered"')
    assert beside.breaks() == 0 and beside.codes == []


@ORDERS
def test_a_tool_that_is_tried_again(ours_is_last: bool) -> None:
    tries: list[str] = []

    @tool
    def flaky(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Fail once."""
        tries.append("x")
        if len(tries) == 1:
            raise ConnectionError("later")
        return Command(
            update={"pkv_state": {"cart_total": 3}, "messages": [ToolMessage("ok", tool_call_id=runtime.tool_call_id)]}
        )

    neighbour = ToolRetryMiddleware(max_retries=2, initial_delay=0)
    beside = Beside(neighbour, [calls(call("flaky", "c1")), AIMessage("ok")], ours_is_last=ours_is_last, tools=[flaky])
    beside.say("go")
    assert len(tries) == 2 and beside.is_told("cart_total: 3")
    assert beside.breaks() == 0 and beside.codes == []


@ORDERS
def test_redacted_messages(ours_is_last: bool) -> None:
    beside = Beside(PIIMiddleware("email", strategy="redact"), [], ours_is_last=ours_is_last)
    beside.say("I am mara@example.org")
    beside.say("and now?", pkv_state={"mode": "auto"})
    assert "mara@example.org" not in texts(beside.model.requests[-1])
    assert beside.is_told('mode: "auto"') and beside.breaks() == 0 and beside.codes == []


def test_selected_tools_move_the_prefix_and_that_is_said() -> None:
    chosen = iter((["ship"], ["look"], ["look"]))

    class Selector(Scripted):
        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            from langchain_core.runnables import RunnableLambda

            return RunnableLambda(lambda _: {"tools": next(chosen)})

    beside = Beside(LLMToolSelectorMiddleware(model=Selector()), [])
    beside.say("one")
    beside.say("two", pkv_state={"mode": "auto"})
    assert beside.codes == ["tools_changed"] and beside.is_told('mode: "auto"')
    beside.say("three")
    assert beside.codes == ["tools_changed"]


def test_deep_agents() -> None:
    deepagents = pytest.importorskip("deepagents")
    model, notices = Scripted(script=[calls(call("ship", "c1", order_id="K417"))]), list[Notice]()
    ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG, on_notice=notices.append)
    agent = deepagents.create_deep_agent(model, [ship], middleware=[ours], checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("ship it")], "pkv_state": a_shop()}, CONFIG)
    agent.invoke({"messages": [HumanMessage("thanks")], "pkv_state": {"mode": "auto"}}, CONFIG)
    sent = [wire_of(request) for request in model.requests]
    assert all(two[: len(one)] == one for one, two in zip(sent, sent[1:], strict=False))
    assert [notice.code for notice in notices] == []
    assert texts(model.requests[-1]).count("<state-update id=") == 3
    record = read_ledger(agent.get_state(CONFIG).values)
    assert record is not None and record.calls == 3
