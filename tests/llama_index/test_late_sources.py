"""Sources of tools that cannot be read, or hold no tools: an error at the start, a notice later."""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.tools import FunctionTool, ToolMetadata

from llama_index.llms.pkv import StatefulLLM, StateTools
from pkv_agents import AgentSession, SkillError, ToolError
from tests.llama_index.late import UNREADABLE, Finder, Source, fetched, paths
from tests.llama_index.providers import openai_llm, tool
from tests.llama_index.skills import REFUNDS, Desk, SkillTalk, cancel, load, refund, registry, results, track
from tests.llama_index.support import TAG, codes, user
from tests.llama_index.talks import one_call

owned = pytest.mark.parametrize("owned", [False, True], ids=["context", "session"])

WAYS: dict[str, tuple[Callable[[Any, Source], StateTools], str, str]] = {
    "tools": (lambda llm, now: StateTools(llm, now), "tools", ""),
    "servers": (lambda llm, now: StateTools(llm, [refund], servers={"s": now}), "servers['s']", "s__"),
    "retriever": (lambda llm, now: StateTools(llm, Finder(now)), "retriever", ""),
}


@owned
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", UNREADABLE)
async def test_what_cannot_be_read_later_stays_as_it_is_known(wrong: str, way: str, owned: bool) -> None:
    make, path, prefix = WAYS[way]
    source = Source([tool(cancel)])
    talk = SkillTalk("function", lambda llm: make(llm, source), owned=owned)
    await talk.say("a")
    known = [*source.now, tool(track)]
    source.now = known
    await talk.say("b")
    source.now = UNREADABLE[wrong]
    through = one_call("call_tool", "1", name=f"{prefix}track", arguments={"parcel_id": "P1"})
    await talk.say("c", through)
    after = "P1 is in Lyon" if way == "retriever" else "track cannot be run here at the moment; nothing was done."
    assert results(talk.bodies[-1])[-1].endswith(after)
    await talk.say("d")
    assert paths(talk) == [("tools_unreadable", path)], "once, and not with each turn"
    assert {f"{prefix}track", f"{prefix}cancel"} <= (await talk.state()).tools.specs.keys()
    source.now = known
    await talk.say("e", through)
    assert results(talk.bodies[-1])[-1].endswith("P1 is in Lyon") and len(talk.errata) == 1
    talk.assert_append_only()


@owned
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", UNREADABLE)
async def test_what_cannot_be_read_at_the_start_is_an_error_that_says_what_to_do(
    wrong: str, way: str, owned: bool
) -> None:
    make, path, _ = WAYS[way]
    talk = SkillTalk("function", lambda llm: make(llm, Source(UNREADABLE[wrong])), owned=owned)
    with pytest.raises((ToolError, OSError)) as raised:
        await talk.say("a")
    if isinstance(raised.value, ToolError):
        assert str(raised.value).startswith(path) and "is needed" in str(raised.value)
    assert talk.bodies == []


@pytest.mark.parametrize("wrong", [None, 3, "track", object], ids=str)
async def test_something_that_is_no_tool_is_left_out_and_the_others_are_kept(wrong: Any) -> None:
    source = Source([cancel])
    talk = SkillTalk("function", lambda llm: StateTools(llm, source, servers={"s": source}))
    await talk.say("a")
    source.now = [wrong, cancel, track]
    await talk.say("b", one_call("call_tool", "1", name="track", arguments={"parcel_id": "P1"}))
    await talk.say("c")
    assert results(talk.bodies[-1])[-1] == "P1 is in Lyon"
    assert paths(talk) == [("tool_refused", "tools[0]"), ("tool_refused", "servers['s'][0]")]
    talk.assert_append_only()
    with pytest.raises(ToolError, match=r"tools\[0\]: a tool is a "):
        await SkillTalk("function", lambda llm: StateTools(llm, source)).say("a")


class Stubborn(FunctionTool):
    """A tool whose schema cannot be read."""

    @property
    def metadata(self) -> ToolMetadata:
        raise RuntimeError("no")


async def test_a_tool_that_cannot_say_what_it_is() -> None:
    source = Source([cancel])
    bad = Stubborn(fn=track, metadata=tool(track).metadata)
    talk = SkillTalk("function", lambda llm: StateTools(llm, source, servers={"s": source}))
    await talk.say("a")
    source.now = [cancel, bad]
    await talk.say("b")
    assert {code for code, _ in paths(talk)} == {"tool_refused"}
    talk.assert_append_only()


async def test_a_state_that_is_set_anew_leaves_the_array_where_it_is() -> None:
    now: list[Any] = [cancel]
    talk = SkillTalk("function", lambda llm: StateTools(llm, lambda: now))
    await talk.say("a")
    now.append(track)
    await talk.say("b")
    await talk.session.set(talk.ctx, Desk(customer="Eve"))
    await talk.say("c", one_call("call_tool", "1", name="track", arguments={"parcel_id": "P1"}))
    assert results(talk.bodies[-1]) == ["P1 is in Lyon"] and len(set(talk.arrays)) == 1 and paths(talk) == []
    talk.assert_append_only()


def test_without_a_bridge_the_first_tool_that_comes_late_is_said() -> None:
    inner, provider = openai_llm()
    said: list[Any] = []
    source = Source([])
    llm = StatefulLLM(inner, AgentSession(Desk(), key="k", tag=TAG, on_notice=said.append))
    tools = StateTools(llm, source, bridge=False)
    assert tools.retrieve("") == []
    llm.chat([user("a")])
    source.now = ConnectionError("down")
    assert tools.retrieve("") == []
    source.now = [cancel]
    llm.chat_with_tools(tools.retrieve(""), chat_history=[user("a")], user_msg="b")
    assert codes(said) == ["tools_unreadable", "tool_late"]
    assert [one["function"]["name"] for one in provider.bodies[-1]["tools"]] == ["cancel"]


@owned
async def test_a_models_call_while_the_skills_cannot_be_read(owned: bool) -> None:
    source = Source(registry(REFUNDS))
    talk = SkillTalk("function", lambda llm: StateTools(llm, [cancel]), skills=source, owned=owned)
    await talk.say("a")
    source.now = ConnectionError("secret")
    await talk.say("b", load("refunds"))
    assert "The skills cannot be read at present; nothing was done." in results(talk.bodies[-1])[-1]
    assert "secret" not in results(talk.bodies[-1])[-1]


def test_an_async_function_of_skills_is_refused() -> None:
    inner, _ = openai_llm()
    with pytest.raises(SkillError, match="not an async one"):
        StatefulLLM(inner, AgentSession(Desk(), key="k"), skills=fetched)  # type: ignore[arg-type]


@owned
async def test_a_conversation_without_skills_goes_on_where_they_cannot_be_read(owned: bool) -> None:
    source = Source(registry())
    talk = SkillTalk("function", lambda llm: StateTools(llm, [cancel]), skills=source, owned=owned)
    await talk.say("a")
    for wrong in (None, registry(field="customer")):
        source.now = wrong
        await talk.say("b")
    assert codes(talk.notices).count("skills_unreadable") == 1
    talk.assert_append_only()
