"""R17 to R20 through `StateTools`: any order of discovery, equal names, schemas as declared, off and on, arguments."""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

import json
from itertools import permutations
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ToolCallBlock as CallBlock
from llama_index.core.llms import ChatMessage
from pydantic import BaseModel, Field

from llama_index.llms.pkv import StatefulLLM, StateTools
from pkv_agents import AgentSession, ToolSpec, tool_json
from tests.llama_index.more_providers import anthropic_llm, bedrock_llm
from tests.llama_index.providers import call, like_llm, openai_llm, tool
from tests.llama_index.skills import Desk, SkillTalk, results
from tests.llama_index.support import TAG, a_session, assert_append_only, errata_in, user
from tests.llama_index.talks import one_call, with_tools


def named(name: str) -> Any:
    return tool(lambda: f"{name} ran", name=name, description=f"Does {name}.")


@with_tools
@pytest.mark.parametrize("make", [openai_llm, like_llm])
async def test_r17_six_orders_and_a_late_one(kind: str, make: Any) -> None:
    arrays: set[str] = set()
    for some in permutations(["zeta", "alpha", "mu"]):
        now = [named(name) for name in some]
        talk = SkillTalk(kind, lambda llm, now=now: StateTools(llm, lambda: now), make=make)
        for text in "abcd":
            await talk.say(text)
        now.insert(0, named("beta"))
        await talk.say("e", one_call("call_tool", "1", name="beta", arguments={}))
        assert results(talk.bodies[-1])[-1].endswith("beta ran")
        assert len(talk.errata) == 1 and talk.errata[0].startswith('tools.changed[beta].status: "on"')
        talk.assert_append_only()
        assert "tools_changed" not in talk.codes()
        arrays |= set(talk.arrays)
    (array,) = arrays
    order = [array.index(name) for name in ("Does alpha", "Does mu", "Does zeta")]
    assert order == sorted(order) and "Does beta" not in array


class Place(BaseModel):
    zip: str
    kind: Literal["shelf", "box"]


class Search(BaseModel):
    """Sucht Bücher 東京."""

    query: str = Field(description="Wonach, z. B. Größe")
    at: Place
    above: float = Field(ge=1.0)


def book(**_: Any) -> str:
    return "a book"


def file(**_: Any) -> str:
    return "a file"


def from_servers() -> dict[str, list[Any]]:
    books = tool(book, name="search", description="Sucht Bücher 東京.", fn_schema=Search)
    files = tool(file, name="search", description="Finds files.", fn_schema=Place)
    return {"books": [books, named("count")], "files": [files, named("alpha")]}


@with_tools
@pytest.mark.parametrize("make", [openai_llm, like_llm])
async def test_r18_equal_names_and_schemas_as_declared(kind: str, make: Any) -> None:
    arrays: set[str] = set()
    for turned in (False, True):
        servers = {name: list(reversed(tools)) if turned else tools for name, tools in from_servers().items()}
        if turned:
            servers = dict(reversed(servers.items()))
        made: Any = servers
        talk = SkillTalk(kind, lambda llm, made=made: StateTools(llm, [named("own")], servers=made), make=make)
        given: Any = {"query": "tea", "at": {"zip": "1", "kind": "box"}, "above": 1}
        await talk.say(
            "a", one_call("books__search", "1", **given), one_call("files__search", "2", zip="1", kind="box")
        )
        assert [text.rpartition(" ")[2] for text in results(talk.bodies[-1])] == ["book", "file"]
        talk.assert_append_only()
        arrays |= set(talk.arrays)
    (array,) = arrays
    shown = array if kind == "react" else json.dumps(json.loads(array), ensure_ascii=False)
    shown = shown[shown.index("books__search") : shown.index("call_tool")]
    assert "Sucht Bücher 東京." in shown and "Größe" in shown
    assert '"enum": ["shelf", "box"]' in shown and '"required": ["query", "at", "above"]' in shown
    assert '"minimum": 1,' in shown and '"$ref": "#/$defs/Place"' in shown
    assert shown.index('"query": {') < shown.index('"at": {') < shown.index('"above": {')


def test_r18_one_server_more_renames_nothing() -> None:
    inner, provider = openai_llm()
    servers: dict[str, Any] = {"books": from_servers()["books"]}
    llm = StatefulLLM(inner, AgentSession(Desk(), key="k", tag=TAG))
    llm.chat_with_tools(StateTools(llm, servers=servers).retrieve(""), user_msg="a")
    kit = StateTools(llm, servers=from_servers())
    llm.chat_with_tools(kit.retrieve(""), chat_history=[user("a")], user_msg="b")
    assert provider.bodies[0]["tools"] == provider.bodies[1]["tools"]
    (told,) = errata_in(provider.bodies[1])
    assert 'tools.changed[files__search].outside.description (untrusted): "Finds files."' in told
    assert "books" not in told


def test_r18_a_server_that_declares_no_schema_loses_that_tool_alone() -> None:
    class Wrong(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return {"type": "objekt"}

    inner, provider = openai_llm()
    session = AgentSession(Desk(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session)
    wrong = tool(lambda: "", name="wrong", description="w", fn_schema=Wrong)
    kit = StateTools(llm, servers={"web": [wrong, named("right")]}, bridge=False)
    llm.chat_with_tools(kit.retrieve(""), user_msg="a")
    assert [one["function"]["name"] for one in provider.bodies[0]["tools"]] == ["web__right"]
    (said,) = [notice for notice in session.report().notices if notice.code == "tool_refused"]
    assert said.path == "wrong@web"


@with_tools
async def test_r19_off_and_on_again_costs_two_lines(kind: str) -> None:
    off: set[str] = set()
    talk = SkillTalk(kind, lambda llm: StateTools(llm, [named("look"), named("own")], off=lambda _: off))
    await talk.say("a", one_call("look", "1"))
    off.add("look")
    await talk.say("b", one_call("look", "2"))
    assert results(talk.bodies[-1])[-1].endswith("'look' is switched off at the moment; nothing was done.")
    off.clear()
    await talk.say("c", one_call("look", "3"))
    assert results(talk.bodies[-1])[-1].endswith("look ran")
    assert talk.errata == [f'tools.changed[look].status: "{status}"' for status in ("off", "on")]
    talk.assert_append_only()


ARGUMENTS: Any = {"city": "Tokyo", "unit": {"b": 1.5, "a": ["é", {"z": 1, "y": 2}]}}


def as_it_is(value: Any) -> Any:
    """A store that changes nothing."""
    return value


def turned(value: Any) -> Any:
    """The same with all keys the other way round, as a store may give it back."""
    if isinstance(value, dict):
        return {key: turned(one) for key, one in reversed(value.items())}
    return [turned(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", ["function", "workflow"])
async def test_r20_a_store_that_turns_the_keys_of_arguments(kind: str) -> None:
    def look(city: str, unit: dict[str, Any]) -> str:
        """Looks."""
        return "seen"

    after: list[Any] = []
    for back in (as_it_is, turned):
        talk = SkillTalk(kind, lambda llm: StateTools(llm, [look]))
        await talk.say("a", [call("look", "1", **ARGUMENTS)])
        memory = await talk.ctx.store.get("memory")
        kept = [message.model_copy(deep=True) for message in memory.get_all()]
        for block in (block for message in kept for block in message.blocks if isinstance(block, CallBlock)):
            block.tool_kwargs = back(json.loads(str(block.tool_kwargs)))
        memory.set(kept)
        await talk.ctx.store.set("memory", memory)
        await talk.say("b")
        await talk.say("c")
        assert_append_only(talk.bodies[2:])
        after.append(talk.bodies[2:])
    assert after[0] == after[1] and '"city": "Tokyo", "unit"' in json.dumps(after[0]).replace("\\", "")


@given(st.dictionaries(st.text(max_size=4), st.dictionaries(st.text(max_size=3), st.integers()), max_size=4))
def test_r20_any_arguments(arguments: dict[str, Any]) -> None:
    sent: list[Any] = []
    for given_back in (arguments, turned(arguments)):
        block = CallBlock(tool_call_id="1", tool_name="look", tool_kwargs=given_back)
        result = ChatMessage(role="tool", content="ok", additional_kwargs={"tool_call_id": "1"})
        inner, provider = openai_llm()
        StatefulLLM(inner, a_session()).chat([user("a"), ChatMessage(role="assistant", blocks=[block]), result])
        sent.append(provider.bodies[0])
    assert json.dumps(sent[0]) == json.dumps(sent[1])


def several(now: list[Any], back: Any) -> Any:
    return lambda: back(now)


@pytest.mark.parametrize("make", [like_llm, bedrock_llm, "anthropic"])
async def test_r17_to_r20_on_other_packages(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    for back in (as_it_is, turned):
        inner, provider = anthropic_llm(monkeypatch) if make == "anthropic" else make()
        llm = StatefulLLM(inner, AgentSession(Desk(), key="k", tag=TAG))
        now = [named("zeta"), named("alpha")]
        block = CallBlock(tool_call_id="1", tool_name="alpha", tool_kwargs=back(ARGUMENTS))
        result = ChatMessage(role="tool", content="ok", additional_kwargs={"tool_call_id": "1"})
        history = [user("a"), ChatMessage(role="assistant", blocks=[block]), result]
        kit = StateTools(llm, several(now, back), servers=back(from_servers()))
        await llm.achat_with_tools(await kit.aretrieve("a"), chat_history=history)
        now.append(named("beta"))
        more = [*history, ChatMessage(role="assistant", content="ok"), user("b")]
        await llm.achat_with_tools(await kit.aretrieve("b"), chat_history=more)
        assert_append_only(provider.bodies)
        assert errata_in(provider.bodies[1])[0].startswith('tools.changed[beta].status: "on"')
        sent.append(provider.bodies)
    assert json.dumps(sent[0]) == json.dumps(sent[1])


def test_the_array_is_the_cores_canonical_form() -> None:
    inner, provider = openai_llm()
    session = AgentSession(Desk(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session)
    llm.chat_with_tools(StateTools(llm, servers=from_servers()).retrieve(""), user_msg="a")
    for sent, spec in zip(provider.bodies[0]["tools"], session.state.tools.array, strict=True):
        function = sent["function"]
        parameters = {**function["parameters"]}
        if spec.parameters.get("additionalProperties") is None:
            assert parameters.pop("additionalProperties") is False  # which OpenAI's class adds
        assert tool_json(ToolSpec(function["name"], function["description"], parameters)) == tool_json(spec)
        assert json.dumps(parameters) == json.dumps(spec.parameters)


def test_r18_a_server_whose_name_no_provider_takes() -> None:
    inner, provider = openai_llm(script=[[call("my_server_2__count", "1")]])
    llm = StatefulLLM(inner, AgentSession(Desk(), key="k", tag=TAG))
    kit = StateTools(llm, servers={"my server.2": [named("count")]})
    answer = llm.chat_with_tools(kit.retrieve(""), user_msg="a")
    (chosen,) = llm.get_tool_calls_from_response(answer)
    by_name: Any = {one.metadata.name: one for one in kit.retrieve("")}
    assert str(by_name[chosen.tool_name].call(**chosen.tool_kwargs)) == "count ran"
    assert provider.bodies[0]["tools"][1]["function"]["name"] == chosen.tool_name
