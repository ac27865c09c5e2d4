"""Late and changed tools with `StateMiddleware(tools=)`: natively or through a bridge, run where none is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from pkv_agents import Notice
from tests.langchain.providers import anthropic_model, assert_append_only, openai_model
from tests.langchain.skilled import (
    CONFIG,
    MODELS,
    ORDER,
    Desk,
    Offered,
    agent_for,
    arrays,
    assert_kept,
    assert_told_is_true,
    finds,
    made,
    names,
    results,
    state_of,
    user,
)
from tests.langchain.support import call


def test_anthropics_own_changes_of_tools(saver: Any) -> None:
    script = ["a", [call("beta", "c1", order_id="K1")], "b", "c", "d"]
    model, provider = anthropic_model("claude-opus-5", script)
    late: list[Any] = []
    agent = agent_for(model, [made("alpha")], saver=saver, tools="tools", late_tools=finds(late), strict=True)
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
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=finds(late))
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
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=finds(late), on_notice=said.append)
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
    out: dict[str, Any] = {}
    forms = (made("refund"), made("refund", limited, description="Refunds 50 euros."), made("refund", wider))
    for text, refund in zip("abc", forms, strict=True):
        options: dict[str, Any] = {"tools": "tools", "late_tools": finds([]), "on_notice": said.append}
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
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=finds(late))
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late.append(rename)
    agent.invoke(user("b"), CONFIG)
    assert state_of(agent).customer == "Ann"
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_bad_calls_of_the_bridge_and_of_what_is_unknown() -> None:
    bad = [call("call_tool", "c1", name="none", arguments={}), call("call_tool", "c2", name="call_tool", arguments={})]
    bad += [call("call_tool", "c3", name="alpha", arguments=[1]), call("ghost", "c4")]
    model, _ = openai_model(script=[bad, "ok"])
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=finds([]), strict=True)
    out = agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    assert [status for status, _ in results(out)] == ["error"] * 4 and out["messages"][-1].text == "ok"


def test_a_late_tool_whose_schema_is_none_is_left_out() -> None:
    model, provider = openai_model()
    said: list[Notice] = []
    broken = made("broken", {"type": "object", "properties": []})  # type: ignore[dict-item]
    agent = agent_for(model, [made("alpha")], tools="tools", late_tools=finds([broken]), on_notice=said.append)
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


@pytest.mark.parametrize("name", MODELS)
def test_a_cold_cache_begins_with_a_new_array(name: str, saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the prefix is served any more, so the late tool moves into the array, and no erratum is left."""

    class Clock:
        moment = datetime(2026, 11, 1, tzinfo=UTC)

        @classmethod
        def now(cls, _: object) -> datetime:
            return cls.moment

    monkeypatch.setattr("langchain_pkv.middleware.datetime", Clock)
    model, provider = MODELS[name](["a", "b", [call("beta", "c1", order_id="K1")], "c", "d"])
    late, said = list[Any](), list[Notice]()
    agent = agent_for(model, [made("alpha")], saver=saver, tools="tools", late_tools=finds(late), on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late.append(made("beta"))
    agent.invoke(user("b"), CONFIG)
    assert state_of(agent).tools.changed and said == []
    late.append(made("gamma"))
    Clock.moment += timedelta(days=30)
    out = agent.invoke(user("c"), CONFIG)
    assert names(provider.bodies[-1]) == ["alpha", "beta", "call_tool", "gamma"]
    assert results(out) == [("success", 'beta({"order_id": "K1"})')] and state_of(agent).tools.changed == {}
    assert [notice.is_advice for notice in said] == [True] and "cache_cold" in str(said[0])
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    agent.invoke(user("d"), CONFIG)
    assert_append_only(provider.bodies[2:])
