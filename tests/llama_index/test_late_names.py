"""Tools whose names are taken, refused by providers, or misspelt where they are switched."""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from typing import Any

import pytest
from llama_index.core.tools import FunctionTool

from llama_index.llms.pkv import StatefulLLM, StateTools
from pkv_agents import AgentSession, ToolError
from tests.llama_index.late import UNREADABLE, Source, broken_halfway, fetched, paths
from tests.llama_index.providers import openai_llm, tool
from tests.llama_index.skills import Desk, SkillTalk, cancel, refund, registry, results, track
from tests.llama_index.talks import one_call

owned = pytest.mark.parametrize("owned", [False, True], ids=["context", "session"])


@owned
async def test_a_late_tool_with_the_name_of_another_is_refused_once(owned: bool) -> None:
    source, more = Source([tool(cancel)]), Source([])
    servers: Any = {"a b": [tool(track)], "a_b": more}
    talk = SkillTalk("function", lambda llm: StateTools(llm, source, servers=servers), skills=registry(), owned=owned)
    await talk.say("a")
    source.now = [*source.now, *(tool(track, name=name) for name in ("cancel", "call_tool", "load_skill"))]
    more.now = [tool(track)]
    await talk.say("b", one_call("cancel", "1", order_id="K1"), one_call("a_b__track", "2", parcel_id="P2"))
    await talk.say("c")
    assert results(talk.bodies[-1])[-2:] == ["cancelled K1", "P2 is in Lyon"]
    refused = ["cancel", "call_tool", "load_skill", "a_b__track@a_b"]
    assert sorted(paths(talk)) == sorted(("tool_refused", path) for path in refused)
    talk.assert_append_only()
    assert len(set(talk.arrays)) == 1


@pytest.mark.parametrize("name", ["cancel", "call_tool", "load_skill"])
async def test_a_tool_with_the_name_of_another_is_an_error_at_the_start(name: str) -> None:
    own = [cancel, tool(track, name=name)]
    talk = SkillTalk("function", lambda llm: StateTools(llm, own), skills=registry())
    with pytest.raises(ToolError, match=f"two tools have the name '{name}'"):
        await talk.say("a")
    assert talk.bodies == []


@pytest.mark.parametrize("name", ["call_tool", "load_skill", "read_skill_file"])
async def test_an_own_tool_with_one_of_our_names_stays_where_ours_is_not_used(name: str) -> None:
    own = [tool(track, name=name), tool(cancel)]
    talk = SkillTalk("function", lambda llm: StateTools(llm, own, bridge=False))
    await talk.say("a", one_call(name, "1", parcel_id="P1"))
    await talk.say("b")
    assert results(talk.bodies[-1]) == ["P1 is in Lyon"] and paths(talk) == []
    talk.assert_append_only()


ODD = ['a]b"\n.c</state>', "Привет", " ", "a.b", "x" * 65]


@pytest.mark.parametrize("odd", ODD)
async def test_a_name_that_providers_refuse(odd: str) -> None:
    source = Source([])
    servers: Any = {"my server/1": source}
    talk = SkillTalk("function", lambda llm: StateTools(llm, [cancel], servers=servers))
    await talk.say("a")
    source.now = [tool(track, name=odd)]
    await talk.say("b")
    (clean,) = [name for name in (await talk.state()).tools.specs if name != "cancel"]
    assert clean.startswith("my_server_1__") and len(clean) <= 64 and paths(talk) == []
    await talk.say("c", one_call("call_tool", "1", name=clean, arguments={"parcel_id": "P1"}))
    assert results(talk.bodies[-1]) == ["P1 is in Lyon"]
    late = Source([cancel])
    talk = SkillTalk("function", lambda llm: StateTools(llm, late))
    await talk.say("a")
    late.now = [cancel, tool(track, name=odd)]
    await talk.say("b")
    (said,) = [notice for notice in talk.notices if notice.code == "tool_refused"]
    assert "1 to 64" in said.message
    with pytest.raises(ToolError, match="1 to 64"):
        await SkillTalk("function", lambda llm: StateTools(llm, [tool(track, name=odd)])).say("a")


@owned
@pytest.mark.parametrize("wrong", {**UNREADABLE, "map": {"cancel": True}, "numbers": [3]}.items(), ids=lambda w: w[0])
async def test_what_is_off_cannot_be_told(wrong: tuple[str, Any], owned: bool) -> None:
    """What was off stays off, what was on stays on, and nothing is called while that is so."""
    if wrong[0] == "generator":
        wrong = ("generator", lambda _: broken_halfway())  # pyright: ignore[reportUnknownLambdaType]
    off = Source(["cancel"])
    talk = SkillTalk("function", lambda llm: StateTools(llm, [cancel, refund], off=off), owned=owned)
    await talk.say("a")
    off.now = wrong[1]
    await talk.say("b", [*one_call("refund", "1", amount=3), *one_call("cancel", "2", order_id="K1")])
    assert results(talk.bodies[-1]) == [
        "refund may not be called while that cannot be told; nothing was done.",
        "'cancel' is switched off at the moment; nothing was done.",
    ]
    await talk.say("c")
    assert paths(talk) == [("tools_unreadable", "off")]
    off.now = ["refund"]
    await talk.say("d", one_call("cancel", "3", order_id="K1"))
    assert results(talk.bodies[-1])[-1] == "cancelled K1"
    talk.assert_append_only()
    first = SkillTalk("function", lambda llm: StateTools(llm, [cancel], off=Source(wrong[1])), owned=owned)
    with pytest.raises((ToolError, OSError)):
        await first.say("a")
    assert first.bodies == []


@pytest.mark.parametrize("fixed", [True, False])
async def test_a_misspelt_name_in_off_is_noticed_once(fixed: bool) -> None:
    """Where the tools are fixed, too, and only a call can tell what is off."""
    source: Any = [cancel] if fixed else Source([cancel])
    off: Any = Source(["cancle"]) if fixed else ["cancle"]
    talk = SkillTalk("function", lambda llm: StateTools(llm, source, off=off))
    await talk.say("a")
    await talk.say("b")
    assert paths(talk) == [("tool_unknown", "off[cancle]")]


def kit(*tools: Any, **options: Any) -> StateTools:
    inner, _ = openai_llm()
    return StateTools(StatefulLLM(inner, AgentSession(Desk(), key="k")), *tools, **options)


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        (cancel, {}, "tools: a list of tools, or a function without arguments .* this is a tool: put it into a list"),
        (FunctionTool.from_defaults(cancel), {}, "tools: .* this is a tool"),
        (FunctionTool, {}, "tools: .* this is a tool"),
        (fetched, {}, "tools: a plain function is needed, not an async one"),
        (None, {}, "tools: a list of tools is needed, not a NoneType"),
        (3, {}, "tools: a list of tools is needed, not a int"),
        ("abc", {}, "tools: a list of tools is needed, not a str"),
        ({"s": [cancel]}, {}, "tools: a list of tools is needed, not a dict"),
        ((), {"servers": [cancel]}, "servers: lists of tools by the names of servers, not a list"),
        ((), {"servers": {"": [cancel]}}, "servers: a server has no name"),
        ((), {"servers": {3: [cancel]}}, "servers: a server has no name"),
        ((), {"servers": {"s": cancel}}, r"servers\['s'\]: .* this is a tool"),
        ((), {"servers": {"s": None}}, r"servers\['s'\]: a list of tools is needed"),
        ([cancel], {"off": "cancel"}, "off: a list of tools' names is needed, not a str"),
        ([cancel], {"off": None}, "off: a list of tools' names is needed"),
        ([cancel], {"off": [cancel]}, "off: a list of tools' names is needed, and it has a function"),
        ([cancel], {"off": fetched}, "off: a plain function is needed, not an async one"),
        ([cancel], {"off": ["cancle"]}, "off: there is no tool 'cancle'; there are: cancel"),
        ([cancel], {"off": ["call_tool"]}, "off: there is no tool 'call_tool'"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_written(given: Any, options: Any, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        kit(given, **options)


async def test_names_that_can_be_read_once_are_kept() -> None:
    talk = SkillTalk("function", lambda llm: StateTools(llm, [cancel, refund], off=iter(["cancel"])))  # type: ignore[arg-type]
    for text in ("a", "b"):
        await talk.say(text, one_call("cancel", text, order_id="K1"))
        assert "switched off" in results(talk.bodies[-1])[-1]
    talk.assert_append_only()
