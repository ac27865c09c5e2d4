"""R17 to R20 and their kinds with `StateMiddleware(tools=)`: the array of a thread stays, and what changed is told."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.types import Command

from pkv_agents import Notice, ToolError
from tests.langchain.providers import anthropic_model, openai_model
from tests.langchain.skilled import (
    CONFIG,
    MODELS,
    Desk,
    a_registry,
    agent_for,
    arrays,
    assert_kept,
    assert_told_is_true,
    names,
    run,
    shown,
    state_of,
    user,
)
from tests.langchain.support import call

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}},
    "required": ["order_id"],
}


def made(name: str, schema: dict[str, Any] = ORDER, *, description: str = "", says: str = "") -> Any:
    """A tool as an MCP client makes it: its schema is a dict."""

    def run(**arguments: Any) -> str:
        return f"{says or name}({json.dumps(arguments)})"

    return StructuredTool.from_function(
        run, name=name, description=description or f"Does {name}.", args_schema=dict(schema)
    )


def results(out: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.status, one.text) for one in out["messages"] if isinstance(one, ToolMessage)]


class Offered(AgentMiddleware[Any, Any, Any]):
    """A middleware that chooses tools for each call, as selectors and permissions do."""

    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self.steps = list(steps)

    def _chosen(self, request: Any) -> Any:
        wanted = self.steps.pop(0) if self.steps else None
        if wanted is None:
            return request
        return request.override(tools=[one for one in request.tools if getattr(one, "name", "") in wanted])

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self._chosen(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._chosen(request))


@pytest.mark.parametrize("name", MODELS)
def test_r17_six_orders_and_a_late_tool(name: str, saver: Any) -> None:
    tools, arrays_seen = [made(one) for one in ("zeta", "alpha", "mu")], set[str]()
    for number, order in enumerate(itertools.permutations(tools)):
        config: RunnableConfig = {"configurable": {"thread_id": f"t{number}"}}
        script = ["a", [call("beta", "c1", order_id="K1")], "b", "c"]
        if name != "anthropic-native":
            script[1] = [call("call_tool", "c1", name="beta", arguments={"order_id": "K1"})]
        model, provider = MODELS[name](script)
        late: list[Any] = []
        said: list[Notice] = []
        agent = agent_for(
            model, order, saver=saver, tools="tools", late_tools=lambda _, late=late: late, on_notice=said.append
        )
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
        agent = agent_for(model, own, tools="tools", late_tools=lambda _, found=servers: found)
        out = agent.invoke(user("find", pkv_state=Desk()), config)
        good, also, (status, why) = results(out)
        assert (good, also) == (("success", 'files({"order_id": "7"})'), ("success", 'books({"z": "b", "a": 1.5})'))
        assert status == "error" and "books__search' was not called" in why
        sent |= set(arrays(provider))
    (array,) = sent
    assert names(provider.bodies[0]) == ["a", "b", "books__search", "call_tool", "files__search"]
    assert '"minimum": 1, "maximum"' in array or '"maximum": 2.5, "minimum": 1,' in array
    assert array.index('"z": {') < array.index('"a": {"') and '"enum": ["b", "a"]' in array and "東京" in array


def test_r18_tools_that_cannot_be_told_apart_are_refused() -> None:
    model, _ = openai_model()
    agent = agent_for(model, [made("search")], tools="tools", late_tools=lambda _: [made("search", says="else")])
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


def test_anthropics_own_changes_of_tools(saver: Any) -> None:
    script = ["a", [call("beta", "c1", order_id="K1")], "b", "c", "d"]
    model, provider = anthropic_model("claude-opus-5", script)
    late: list[Any] = []
    agent = agent_for(model, [made("alpha")], saver=saver, tools="tools", late_tools=lambda _: late, strict=True)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late.append(made("beta"))
    agent.invoke(user("b"), CONFIG)
    late.clear()
    agent.invoke(user("c"), CONFIG)
    late.append(made("beta"))
    agent.invoke(user("d"), CONFIG)
    blocks = [
        part
        for message in provider.bodies[-1]["messages"]
        if message["role"] == "system"
        for part in message["content"]
        if part["type"] != "text"
    ]
    definition = {"name": "beta", "description": "Does beta.", "input_schema": ORDER}
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    removed = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "beta"}}
    assert blocks == [added, removed, added]
    assert_kept(provider)
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_a_fork_is_told_of_a_late_tool_anew() -> None:
    """Each branch has its own block, though the ledger keeps both."""
    model, provider = anthropic_model("claude-opus-5", ["a", "b", "c", "d"])
    late: list[Any] = []
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=lambda _: late)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    before = agent.get_state(CONFIG).config
    late.append(made("beta"))
    agent.invoke(user("b"), CONFIG)
    agent.invoke(user("another b"), before)
    for body in (provider.bodies[1], provider.bodies[2]):
        assert json.dumps(body["messages"][-1]).count("tool_definition") == 1
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_a_rebase_puts_a_native_tool_into_the_array() -> None:
    """Its block stood in an erratum that a new head folds in: the provider would no longer know the tool."""
    from langchain_pkv import rebase_update

    model, provider = anthropic_model("claude-opus-5", ["a", "b", [call("beta", "c1", order_id="K1")], "c"])
    late: list[Any] = []
    said: list[Notice] = []
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=lambda _: late, on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late.append(made("beta"))
    agent.invoke(user("b"), CONFIG)
    agent.update_state(CONFIG, rebase_update(agent.get_state(CONFIG).values, "the policy changed"))
    out = agent.invoke(user("c"), CONFIG)
    assert names(provider.bodies[-1]) == ["alpha", "beta", "call_tool"] and state_of(agent).tools.changed == {}
    assert "tool_definition" not in json.dumps(provider.bodies[-1]) and results(out)[0][0] == "success"
    assert [notice.code for notice in said] == ["rebase_requested"] and "the policy changed" in str(said[0])
    assert_told_is_true(provider.bodies[-1], state_of(agent))


@pytest.mark.parametrize("name", ["openai", "anthropic-suffix"])
def test_changed_descriptions_limits_and_parameters(name: str, saver: Any) -> None:
    limited = {**ORDER, "properties": {"order_id": {"type": "string", "maxLength": 3}}}
    wider = {**ORDER, "properties": {**ORDER["properties"], "reason": {"type": "string"}}, "required": ["reason"]}
    script = ["a", [call("refund", "c1", order_id="K12345")], "b"]
    script += [[call("call_tool", "c2", name="refund", arguments='{"reason": "late"}')], "c"]  # type: ignore[list-item]
    model, provider = MODELS[name](script)
    said: list[Notice] = []
    forms = (made("refund"), made("refund", limited, description="Refunds 50 euros."), made("refund", wider))
    for text, refund in zip("abc", forms, strict=True):
        options: dict[str, Any] = {"tools": "tools", "late_tools": lambda _: [], "on_notice": said.append}
        agent = agent_for(model, [refund], saver=saver, **options)
        out = agent.invoke(user(text, **({"pkv_state": Desk()} if text == "a" else {})), CONFIG)
        assert_told_is_true(provider.bodies[-1], state_of(agent))
    assert_kept(provider)
    assert len(set(arrays(provider))) == 1 and [notice.code for notice in said] == ["tool_parameters_changed"]
    assert [status for status, _ in results(out)] == ["error", "success"]
    assert results(out)[1][1] == 'refund({"reason": "late"})'


def test_a_late_tool_gets_the_runtime_and_changes_the_state() -> None:
    def rename(name: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Rename the customer."""
        done = ToolMessage("done", tool_call_id=runtime.tool_call_id)
        return Command(update={"pkv_state": {"customer": name}, "messages": [done]})

    model, provider = openai_model(script=["a", [call("call_tool", "c1", name="rename", arguments={"name": "Ann"})]])
    late: list[Any] = []
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=lambda _: late)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late.append(rename)
    agent.invoke(user("b"), CONFIG)
    assert state_of(agent).customer == "Ann"
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_bad_calls_of_the_bridge_and_of_what_is_unknown() -> None:
    bad = [call("call_tool", "c1", name="none", arguments={}), call("call_tool", "c2", name="call_tool", arguments={})]
    bad += [call("call_tool", "c3", name="alpha", arguments=[1]), call("ghost", "c4")]
    model, _ = openai_model(script=[bad, "ok"])
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=lambda _: [], strict=True)
    out = agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    assert [status for status, _ in results(out)] == ["error"] * 4 and out["messages"][-1].text == "ok"


def test_a_late_tool_whose_schema_is_none_is_left_out() -> None:
    model, provider = openai_model()
    said: list[Notice] = []
    broken = made("broken", {"type": "object", "properties": []})  # type: ignore[dict-item]
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=lambda _: [broken], on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    assert names(provider.bodies[-1]) == ["alpha", "call_tool"]
    assert [(notice.code, notice.path) for notice in said] == [("tool_refused", "broken")]


def test_a_providers_own_tools_stand_behind_the_array() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    model, provider = anthropic_model("claude-opus-5", ["a", "b"])
    selector = Offered(None, None)
    agent = agent_for(model, [search, made("alpha")], before=[selector], tools="tools")
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    agent.invoke(user("b"), CONFIG)
    assert names(provider.bodies[-1]) == ["alpha", "web_search"] and state_of(agent).tools.array[0].name == "alpha"
    assert_kept(provider)


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
