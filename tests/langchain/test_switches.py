"""R19: tools that a field of the state turns on and off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from pydantic import Field

from langchain_pkv import StateMiddleware
from langchain_pkv._switches import names_off
from pkv_agents import SchemaError, TrackedState
from tests.langchain.providers import anthropic_model, assert_append_only, openai_model
from tests.langchain.support import TAG, call

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}
RUNS: list[str] = []


class Desk(TrackedState):
    tools: dict[str, bool] = Field(default_factory=lambda: {"refund": True})
    only: set[str] = Field(default_factory=set[str])
    name: str = "Mara"


@tool
def refund(order_id: str) -> str:
    """Give the money back."""
    RUNS.append(order_id)
    return f"{order_id} was refunded"


@tool
def switch(name: str, is_on: bool, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Turn a tool on or off."""
    done = ToolMessage("done", tool_call_id=runtime.tool_call_id)
    return Command(update={"pkv_state": {f"tools[{name}]": is_on}, "messages": [done]})


def user(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **rest}


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
@pytest.mark.parametrize("provider_name", ["openai", "anthropic"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_r19_on_off_on(saver: str, provider_name: str, asynchronous: bool, tmp_path: Any) -> None:
    RUNS.clear()
    script = [
        [call("refund", "c1", order_id="K1")],
        "one",
        [call("refund", "c2", order_id="K2")],
        "two",
        [call("refund", "c3", order_id="K3")],
        "three",
    ]
    model, provider = (
        openai_model("gpt-4.1", script) if provider_name == "openai" else anthropic_model("claude-opus-5", script)
    )
    ours = StateMiddleware(Desk, tag=TAG, tools_on="tools", strict=True)
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as sqlite:
        checkpointer = InMemorySaver() if saver == "memory" or asynchronous else sqlite
        agent: Any = create_agent(model, [refund, switch], middleware=[ours], checkpointer=checkpointer)
        for turn, state in enumerate((Desk(), {"tools[refund]": False}, {"tools[refund]": True})):
            given = user(f"refund {turn}", pkv_state=state)
            out = await agent.ainvoke(given, CONFIG) if asynchronous else agent.invoke(given, CONFIG)
            answer = out["messages"][-2]
            assert (answer.status, "turned off" in answer.text) == (
                ("error", True) if turn == 1 else ("success", False)
            )
    assert RUNS == ["K1", "K3"]
    assert_append_only(provider.bodies)
    assert len({json.dumps(body["tools"]) for body in provider.bodies}) == 1
    told = json.dumps(provider.bodies[-1]).replace('\\"', '"')
    assert told.count("tools[refund]: false") == 1 and told.count("tools[refund]: true") == 1 + 1  # one in the head


def test_a_tool_turns_another_off() -> None:
    RUNS.clear()
    model, _ = openai_model(
        "gpt-4.1", [[call("switch", "c1", name="refund", is_on=False)], [call("refund", "c2", order_id="K2")]]
    )
    ours = StateMiddleware(Desk, tag=TAG, tools_on="tools")
    agent: Any = create_agent(model, [refund, switch], middleware=[ours])
    out = agent.invoke(user("go", pkv_state=Desk()))
    assert RUNS == [] and "turned off" in out["messages"][-2].text


@pytest.mark.parametrize(("only", "runs"), [({"refund"}, ["K1"]), (set[str](), [])])
def test_a_set_of_those_that_are_on_in_the_applications_state(only: set[str], runs: list[str]) -> None:
    RUNS.clear()
    model, _ = openai_model("gpt-4.1", [[call("refund", "c1", order_id="K1")]])
    ours = StateMiddleware(Desk, tag=TAG, state=lambda runtime: Desk(only=only), tools_on="only")
    agent: Any = create_agent(model, [refund, switch], middleware=[ours])
    agent.invoke(user("go"))
    assert runs == RUNS


@pytest.mark.parametrize(
    ("name", "words"),
    [("nothing", r"no field 'nothing'; declare it there, `nothing: dict\[str, bool\] = {}`"), ("name", "dict")],
)
def test_what_is_no_switch(name: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        StateMiddleware(Desk, tools_on=name)


def test_a_list_of_those_that_are_on_leaves_the_tools_that_ask_for_others_on() -> None:
    names = ("cancel", "refund", "load_skill", "read_skill_file", "call_tool")
    assert names_off(["refund"], names, names[2:]) == {"cancel"}
    assert names_off({"load_skill": False}, names, names[2:]) == {"load_skill"}
    assert names_off(["refund"], names) == {*names} - {"refund"}, "the application's own of these names"
