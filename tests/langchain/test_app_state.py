"""State that the application owns, rebases that it asks for, and notices that it gets."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from langchain_pkv import StateMiddleware, read_ledger, rebase_update
from pkv_agents import GENERIC, SchemaError, StateError, StrictNoticeError
from tests.langchain.support import TAG, Scripted, Shop, a_shop, call, errata_in, wire_of

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}


def agent_for(model: Any, tools: Any = (), *, saver: Any = None, context: Any = None, **options: Any) -> Any:
    middleware = StateMiddleware(Shop, tag=TAG, **options)
    memory = saver if saver is not None else InMemorySaver()
    return create_agent(model, list(tools), middleware=[middleware], checkpointer=memory, context_schema=context)


def user(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **rest}


def test_an_object_of_the_application() -> None:
    model, shop = Scripted(), a_shop()
    agent = agent_for(model, state=shop)
    agent.invoke(user("hello"), CONFIG)
    shop.mode = "auto"
    out = agent.invoke(user("again"), CONFIG)
    assert errata_in(model.requests[-1]) == ['mode: "auto"']
    assert set(out) == {"messages"}


@dataclass
class Who:
    name: str


def test_a_function_of_the_runs_context() -> None:
    """One agent, two users, two threads: each is told about its own state."""
    model = Scripted()
    shops = {"ann": a_shop(mode="plan"), "bob": a_shop(mode="auto")}
    agent = agent_for(model, state=lambda runtime: shops[runtime.context.name], context=Who)  # pyright: ignore[reportUnknownLambdaType]
    for name in ("ann", "bob"):
        agent.invoke(user("hello"), {"configurable": {"thread_id": name}}, context=Who(name))
    shops["ann"].cart_total = 3
    for name in ("ann", "bob"):
        agent.invoke(user("again"), {"configurable": {"thread_id": name}}, context=Who(name))
    ann, bob = model.requests[2:]
    assert ('mode: "plan"' in ann[0].text, 'mode: "auto"' in bob[0].text) == (True, True)
    assert (errata_in(ann), errata_in(bob)) == (["cart_total: 3"], [])


def test_a_function_that_returns_something_else() -> None:
    def wrong(_: Any) -> dict[str, Any]:
        return {}

    with pytest.raises(StateError, match="expected a Shop, not dict"):
        agent_for(Scripted(), state=wrong).invoke(user("hello"), CONFIG)


def test_an_async_function_is_refused_where_it_is_given() -> None:
    async def read(_: Any) -> Shop:
        return a_shop()

    with pytest.raises(SchemaError, match=r"a function that is not async: .*abefore_model"):
        StateMiddleware(Shop, state=cast("Any", read))


def test_a_tools_patch_has_no_place_then() -> None:
    @tool
    def switch(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Switch the mode."""
        answer = ToolMessage("switched", tool_call_id=runtime.tool_call_id)
        return Command(update={"pkv_state": {"mode": "auto"}, "messages": [answer]})

    notices: list[Any] = []
    model = Scripted(script=[AIMessage("", tool_calls=[call("switch", "1")])])
    out = agent_for(model, [switch], state=a_shop(), on_notice=notices.append).invoke(user("go"), CONFIG)
    assert [notice.code for notice in notices] == ["patch_refused"]
    assert "belongs to the application" in out["messages"][2].text


def test_a_rebase_on_request() -> None:
    model = Scripted(script=[AIMessage("1"), AIMessage("2"), ConnectionError("down"), AIMessage("3")])
    notices: list[Any] = []
    agent = agent_for(model, on_notice=notices.append, strict=True)
    assert rebase_update({}) == {}
    agent.invoke(user("a", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("b", pkv_state={"mode": "auto"}), CONFIG)
    agent.update_state(CONFIG, rebase_update(agent.get_state(CONFIG).values, "a quiet hour"))
    with pytest.raises(ConnectionError):
        agent.invoke(user("c"), CONFIG)
    agent.invoke(None, CONFIG)
    assert errata_in(model.requests[-1]) == []
    assert 'mode: "auto"' in model.requests[-1][0].text
    record = read_ledger(agent.get_state(CONFIG).values)
    assert record is not None
    assert (record.rebase, record.ledger.epochs[-1].reason) == (None, "a quiet hour")
    agent.invoke(user("d"), CONFIG)
    assert wire_of(model.requests[-1])[: len(model.requests[-2])] == wire_of(model.requests[-2])
    assert {notice.code for notice in notices} == {"rebase_requested"}


def test_a_notice_comes_once_for_each_cause(caplog: pytest.LogCaptureFixture) -> None:
    notices: list[Any] = []
    agent = agent_for(Scripted(), on_notice=notices.append)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    asked = HumanMessage("where is it?", id="m2")
    agent.invoke({"messages": [asked], "pkv_state": {"cart_total": 3}}, CONFIG)
    with caplog.at_level(logging.WARNING, logger="pkv_agents"):
        agent.invoke({"messages": [HumanMessage("where is my order?", id="m2"), HumanMessage("well?")]}, CONFIG)
        agent.invoke(user("thanks"), CONFIG)
    assert [notice.code for notice in notices] == ["history_rewritten"]
    assert caplog.text.count("history_rewritten") == 1


def test_strict_raises_a_notice() -> None:
    agent = agent_for(Scripted(), strict=True)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.update_state(CONFIG, {"pkv_ledger": {"format": "pkv-langgraph/99"}})
    with pytest.raises(StrictNoticeError, match="ledger_unreadable"):
        agent.invoke(user("again"), CONFIG)


def test_a_profile_of_ones_own() -> None:
    model = Scripted()
    agent = agent_for(model, profile=GENERIC)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("again", pkv_state={"mode": "auto"}), CONFIG)
    assert [message.type for message in model.requests[-1]] == ["system", "human", "ai", "human"]
    assert errata_in(model.requests[-1]) == ['mode: "auto"']


async def test_an_async_checkpointer(tmp_path: Any) -> None:
    model = Scripted()
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        agent = agent_for(model, saver=saver)
        await agent.ainvoke(user("hello", pkv_state=a_shop()), CONFIG)
        await agent.ainvoke(user("again", pkv_state={"mode": "auto"}), CONFIG)
        await agent.ainvoke(user("thanks"), CONFIG)
    assert errata_in(model.requests[-1]) == ['mode: "auto"']
    assert wire_of(model.requests[2])[: len(model.requests[1])] == wire_of(model.requests[1])


def test_the_graphs_json_schemas() -> None:
    agent = agent_for(Scripted())
    inputs, outputs = agent.get_input_jsonschema(), agent.get_output_jsonschema()
    assert set(inputs["properties"]) == {"messages", "pkv_state"}
    assert "pkv_ledger" not in json.dumps([inputs, outputs])
