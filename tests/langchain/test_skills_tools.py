"""R17 to R20 and their kinds with `StateMiddleware(tools=)`: the array of a thread stays, and what changed is told."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from pkv_agents import Notice, ToolError
from tests.langchain.providers import openai_model
from tests.langchain.skilled import (
    CONFIG,
    MODELS,
    Desk,
    Offered,
    a_registry,
    agent_for,
    arrays,
    assert_kept,
    assert_told_is_true,
    finds,
    made,
    names,
    results,
    run,
    shown,
    state_of,
    user,
)
from tests.langchain.support import call


@pytest.mark.parametrize("name", MODELS)
def test_r17_six_orders_and_a_late_tool(name: str) -> None:
    tools, arrays_seen = [made(one) for one in ("zeta", "alpha", "mu")], set[str]()
    for number, order in enumerate(itertools.permutations(tools)):
        config: RunnableConfig = {"configurable": {"thread_id": f"t{number}"}}
        script = ["a", [call("beta", "c1", order_id="K1")], "b", "c"]
        if name != "anthropic-native":
            script[1] = [call("call_tool", "c1", name="beta", arguments={"order_id": "K1"})]
        model, provider = MODELS[name](script)
        late: list[Any] = []
        said: list[Notice] = []
        agent = agent_for(model, order, tools="tools", late_tools=finds(late), on_notice=said.append)
        agent.invoke(user("a", pkv_state=Desk()), config)
        late.append(made("beta"))
        out = agent.invoke(user("b"), config)
        assert results(out) == [("success", 'beta({"order_id": "K1"})')]
        assert_told_is_true(provider.bodies[-1], state_of(agent, config))
        late.clear()
        agent.invoke(user("c"), config)
        assert_told_is_true(provider.bodies[-1], state_of(agent, config))
        assert_kept(provider)
        assert said == [] and names(provider.bodies[-1]) == ["alpha", "call_tool", "mu", "zeta"]
        assert len(set(arrays(provider))) == 1
        arrays_seen |= set(arrays(provider))
    assert len(arrays_seen) == 1


def test_r17_without_a_bridge_a_late_tool_moves_the_array_once_and_says_so(saver: Any) -> None:
    said: list[Notice] = []
    model, provider = openai_model(script=["a", "b", [call("beta", "c1", order_id="K1")], "c"])
    for text in ("a", "b", "c"):
        tools = [made("mu"), made("alpha"), *([made("beta")] if text != "a" else [])]
        agent = agent_for(model, tools, saver=saver, tools="tools", on_notice=said.append)
        out = agent.invoke(user(text, **({"pkv_state": Desk()} if text == "a" else {})), CONFIG)
        assert_told_is_true(provider.bodies[-1], state_of(agent))
    assert [names(body) for body in provider.bodies] == [["alpha", "mu"], *[["alpha", "mu", "beta"]] * 3]
    assert [notice.code for notice in said] == ["rebase_requested", "tool_late"]
    assert results(out) == [("success", 'beta({"order_id": "K1"})')]


def test_r18_one_name_from_two_servers_odd_schemas_and_floats() -> None:
    odd: dict[str, Any] = {
        "type": "object",
        "properties": {"z": {"$ref": "#/$defs/Z"}, "a": {"type": "number", "minimum": 1.0, "maximum": 2.5}},
        "required": ["z", "a"],
        "$defs": {"Z": {"type": "string", "enum": ["b", "a"], "description": "Größe"}},
    }
    books, files = made("search", odd, description="Sucht Bücher 東京", says="books"), made("search", says="files")
    sent: set[str] = set()
    orders = ({"books": [books], "files": [files]}, {"files": [files], "books": [books]})
    for number, (servers, own) in enumerate(itertools.product(orders, itertools.permutations([made("b"), made("a")]))):
        config: RunnableConfig = {"configurable": {"thread_id": f"t{number}"}}
        ask = [call("files__search", "c1", order_id="7"), call("books__search", "c2", z="b", a=1.5)]
        model, provider = openai_model(script=[ask, [call("books__search", "c3", z="c", a=0)], "ok"])
        agent = agent_for(model, own, tools="tools", late_tools=finds(servers))
        out = agent.invoke(user("find", pkv_state=Desk()), config)
        good, also, (status, why) = results(out)
        assert (good, also) == (("success", 'files({"order_id": "7"})'), ("success", 'books({"z": "b", "a": 1.5})'))
        assert status == "error" and "books__search' was not called" in why
        sent |= set(arrays(provider))
        assert names(provider.bodies[0]) == ["a", "b", "books__search", "call_tool", "files__search"]
    (array,) = sent
    assert '"minimum": 1, "maximum"' in array or '"maximum": 2.5, "minimum": 1,' in array
    assert array.index('"z": {') < array.index('"a": {"') and '"enum": ["b", "a"]' in array and "東京" in array


def test_r18_tools_that_cannot_be_told_apart_are_refused() -> None:
    model, _ = openai_model()
    agent = agent_for(model, [made("search")], tools="tools", late_tools=finds([made("search", says="else")]))
    with pytest.raises(ToolError, match="two tools have the name 'search'"):
        agent.invoke(user("a", pkv_state=Desk()), CONFIG)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_r19_a_selector_turns_a_tool_off_and_on(name: str, asynchronous: bool) -> None:
    refund = call("refund", "c1", order_id="K1")
    script = ["a", [refund], "b", [{**refund, "id": "c2"}], "c", "d"]
    model, provider = MODELS[name](script)
    both, one = ["refund", "cancel"], ["cancel"]
    selector = Offered(both, one, one, both, both, both)
    agent = agent_for(model, [made("refund"), made("cancel")], before=[selector], tools="tools", strict=True)
    seen: list[tuple[str, str]] = []
    for text in ("a", "b", "c", "d"):
        given = user(text, **({"pkv_state": Desk()} if text == "a" else {}))
        seen = results(await run(agent, given, asynchronous))
        assert_told_is_true(provider.bodies[-1], state_of(agent))
    assert seen == [
        ("error", "Error: 'refund' is switched off at the moment; nothing was done."),
        ("success", 'refund({"order_id": "K1"})'),
    ]
    assert_kept(provider)
    assert len(set(arrays(provider))) == 1
    last = shown(provider.bodies[-1])
    assert [last.count(f'tools.changed[refund].status: "{status}"') for status in ("off", "on")] == [1, 1]


def test_r19_what_openai_may_choose_follows() -> None:
    model, provider = openai_model(script=["a", "b", "c"])
    selector = Offered(["refund", "cancel"], ["cancel"], ["refund", "cancel"])
    agent = agent_for(model, [made("refund"), made("cancel")], before=[selector], tools="tools")
    for text in ("a", "b", "c"):
        agent.invoke(user(text, **({"pkv_state": Desk()} if text == "a" else {})), CONFIG)
    listed = [{"type": "function", "function": {"name": "cancel"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": listed}}
    assert [body.get("tool_choice") for body in provider.bodies] == [None, choice, None]


def test_a_field_that_turns_tools_off_counts_too() -> None:
    model, provider = openai_model(script=["a", [call("refund", "c1", order_id="K1")], "b"])
    agent = agent_for(model, [made("refund"), made("cancel")], tools="tools", tools_on="switches")
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    out = agent.invoke(user("b", pkv_state={"switches[refund]": False}), CONFIG)
    assert results(out)[0][0] == "error" and "turned off" in results(out)[0][1]
    (only,) = provider.bodies[-1]["tool_choice"]["allowed_tools"]["tools"]
    assert only["function"]["name"] == "cancel"
    assert_kept(provider)
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_r20_arguments_that_a_store_reordered() -> None:
    def sent(arguments: dict[str, Any], thread: str) -> str:
        model, provider = openai_model()
        history = [
            HumanMessage("go"),
            AIMessage("", tool_calls=[call("look", "c1", **arguments)]),  # pyright: ignore[reportArgumentType]
            ToolMessage("ok", tool_call_id="c1"),
            HumanMessage("so"),
        ]
        agent = agent_for(model, [made("look")], tools="tools", skills=a_registry())
        agent.invoke({"messages": history, "pkv_state": Desk()}, {"configurable": {"thread_id": thread}})
        return json.dumps([provider.bodies[0]["messages"], provider.bodies[0]["tools"]])

    assert sent({"city": "Tokyo", "unit": "c"}, "a") == sent({"unit": "c", "city": "Tokyo"}, "b")
