"""Tools whose names are taken, refused by providers, or misspelt where they are switched."""

from __future__ import annotations

from typing import Any

import pytest

from pkv_agents import Notice, ToolError
from tests.langchain.late import Source, found
from tests.langchain.providers import openai_model
from tests.langchain.skilled import (
    CONFIG,
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
    state_of,
    user,
)
from tests.langchain.support import call


@pytest.mark.parametrize("taken", ["cancel", "call_tool", "load_skill"])
def test_a_late_tool_with_the_name_of_another_is_refused_once(taken: str) -> None:
    asked = [call("cancel", "c1", order_id="K1")]
    model, provider = openai_model(script=["a", asked, "b", "c"])
    said, late = list[Notice](), list[Any]()
    options: dict[str, Any] = {"tools": "tools", "skills": a_registry(), "late_tools": finds(late)}
    agent = agent_for(model, [made("cancel", says="own")], on_notice=said.append, **options)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late += [made(taken, says="late"), made("track", says="1"), made("track", says="2"), made("track", says="1")]
    out = agent.invoke(user("b"), CONFIG)
    assert results(out) == [("success", 'own({"order_id": "K1"})')]
    agent.invoke(user("c"), CONFIG)
    assert sorted(found(said)) == sorted([("tool_refused", taken), ("tool_refused", "track")])
    assert "track" in state_of(agent).tools.specs and len(set(arrays(provider))) == 1
    assert_kept(provider)
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    other, _ = openai_model()
    with pytest.raises(ToolError, match=taken):
        agent_for(other, [made("cancel")], **{**options, "late_tools": finds(late[:1])}).invoke(
            user("a", pkv_state=Desk()), CONFIG
        )


ODD = ['a]b"\n.c</state>', "Привет", " ", "a.b", "x" * 65]


@pytest.mark.parametrize("odd", ODD)
def test_a_name_that_providers_refuse(odd: str) -> None:
    """A server's is made one that they take; the application's own is an error at the start and a notice later."""
    model, provider = openai_model(script=["a", "b", [call("call_tool", "c1", name="s__ok", arguments={})], "c"])
    said, source = list[Notice](), Source({})
    agent = agent_for(model, [made("cancel")], tools="tools", late_tools=source, on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    source.now = {"my server/1": [made(odd, says="it")], "": [made(odd)], "s": [made("ok", {})]}
    agent.invoke(user("b"), CONFIG)
    (clean,) = [name for name in state_of(agent).tools.specs if name.startswith("my_server_1__")]
    assert len(clean) <= 64 and all(char.isascii() and (char.isalnum() or char in "_-") for char in clean)
    assert [notice.code for notice in said] == ["tool_refused"] and "1 to 64" in said[0].message
    out = agent.invoke(user("c"), CONFIG)
    assert results(out)[-1] == ("success", "ok({})")
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    for own, late in (([made(odd)], []), ([], [made(odd)])):
        other, none = openai_model()
        with pytest.raises(ToolError, match="1 to 64"):
            agent_for(other, own, tools="tools", late_tools=finds(late)).invoke(user("a", pkv_state=Desk()), CONFIG)
        assert none.bodies == []


def test_text_that_cannot_be_sent_is_left_out() -> None:
    model, provider = openai_model(script=["a", "b"])
    said, source = list[Notice](), Source({})
    agent = agent_for(model, [made("cancel")], tools="tools", late_tools=source, on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    source.now = {"s": [made("half \ud800", description="x"), made("ok", description="half \ud800"), made("good")]}
    agent.invoke(user("b"), CONFIG)
    assert list(state_of(agent).tools.specs) == ["cancel", "s__good"]
    assert sorted(found(said)) == [("tool_refused", "half \\ud800@s"), ("tool_refused", "ok@s")]
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_names_of_servers_go_out_as_providers_take_them() -> None:
    model, provider = openai_model(script=[[call("my_server_1__search", "c1", order_id="7")], "a"])
    agent = agent_for(model, tools="tools", late_tools=finds({"my server/1": [made("search")]}), strict=True)
    out = agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    assert names(provider.bodies[0]) == ["call_tool", "my_server_1__search"]
    assert results(out) == [("success", 'search({"order_id": "7"})')]


@pytest.mark.parametrize("name", ["call_tool", "load_skill", "read_skill_file"])
def test_a_tool_of_the_agents_own_with_one_of_our_names_stays_where_ours_is_not_used(name: str) -> None:
    model, provider = openai_model(script=[[call(name, "c1", order_id="7")], "a", "b"])
    agent = agent_for(model, [made(name), made("cancel")], tools="tools", strict=True)
    out = agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    assert names(provider.bodies[0]) == sorted([name, "cancel"])
    assert results(out) == [("success", f'{name}({{"order_id": "7"}})')]
    agent.invoke(user("b"), CONFIG)
    assert_kept(provider)


class Only(Desk):
    on: tuple[str, ...] = ("cancel",)


def test_a_list_of_those_that_are_on_holds_for_such_a_one_too() -> None:
    model, _ = openai_model(script=[[call("load_skill", "c1", order_id="7")], "a"])
    agent = agent_for(model, [made("load_skill"), made("cancel")], schema=Only, tools_on="on")
    out = agent.invoke(user("a", pkv_state=Only()), CONFIG)
    assert results(out)[0][0] == "error" and "turned off" in results(out)[0][1]


@pytest.mark.parametrize("shelved", [True, False])
def test_such_a_tool_is_a_clash_where_ours_is_used(shelved: bool, saver: Any) -> None:
    more: dict[str, Any] = {"tools": "tools", "late_tools": finds([])} if shelved else {}
    clashing = [made("load_skill", says="own"), *([made("call_tool", says="own")] if shelved else [])]
    model, provider = openai_model()
    with pytest.raises(ToolError, match="the agent has a tool 'load_skill' of its own"):
        agent_for(model, clashing, skills=a_registry(), **more).invoke(user("a", pkv_state=Desk()), CONFIG)
    assert provider.bodies == []
    # A thread that is under way, which a new version of the agent takes further: ours stays in the array.
    said = list[Notice]()
    model, provider = openai_model(script=["a", [call("load_skill", "c1", name="refunds")], "b"])
    agent_for(model, saver=saver, skills=a_registry(), **more).invoke(user("a", pkv_state=Desk()), CONFIG)
    agent = agent_for(model, clashing, saver=saver, skills=a_registry(), on_notice=said.append, **more)
    out = agent.invoke(user("b"), CONFIG)
    text = "Error: load_skill cannot be run here at the moment; nothing was done."
    assert results(out) == [("error", text)], "the agent's would do something else than the array says"
    assert set(found(said)) == {("tool_refused", one.name) for one in clashing}
    assert len(set(arrays(provider))) == 1
    assert_told_is_true(provider.bodies[-1], state_of(agent))


@pytest.mark.parametrize("with_array", [True, False])
def test_a_switch_of_a_tool_that_there_is_not_is_noticed_once(with_array: bool) -> None:
    model, _ = openai_model(script=["a", "b", "c"])
    said, source = list[Notice](), Source([])
    more: dict[str, Any] = {"tools": "tools", "late_tools": source} if with_array else {}
    agent = agent_for(model, [made("cancel")], tools_on="switches", on_notice=said.append, **more)
    agent.invoke(user("a", pkv_state=Desk(switches={"cancle": False, "cancel": True})), CONFIG)
    agent.invoke(user("b"), CONFIG)
    assert found(said) == [("tool_unknown", "switches[cancle]")]
    source.now = [made("cancle")]
    agent.invoke(user("c"), CONFIG)
    assert len(said) == 1


class Rewrites(Offered):
    """A middleware that describes all tools in its own words."""

    def _chosen(self, request: Any) -> Any:
        return request.override(tools=[one.model_copy(update={"description": "In brief."}) for one in request.tools])


def test_ours_in_the_words_of_another_middleware_is_no_clash() -> None:
    model, provider = openai_model(script=[[call("load_skill", "c1", name="refunds")], "a"])
    agent = agent_for(model, before=[Rewrites()], skills=a_registry(), strict=True)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    assert "refunds" in state_of(agent).skills.active
    assert_told_is_true(provider.bodies[-1], state_of(agent))
