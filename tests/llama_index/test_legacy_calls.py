"""Calls and results from before calls had ids: `function_call`, and messages with the role `function`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, MessageRole

from llama_index.llms.pkv import StatefulLLM
from tests.llama_index.providers import openai_llm
from tests.llama_index.support import UPDATE, WAYS, a_session, ask, assert_append_only, assistant, codes, user


def asked(arguments: str = '{"b": 1, "a": 2}') -> ChatMessage:
    called = {"function_call": {"name": "look", "arguments": arguments}}
    return ChatMessage(role=MessageRole.ASSISTANT, content=None, additional_kwargs=called)


def result(**kwargs: Any) -> ChatMessage:
    return ChatMessage(role=MessageRole.FUNCTION, content="Lyon", additional_kwargs=kwargs)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kwargs", [{"name": "look"}, {}])
async def test_a_result_with_the_role_function_goes_through(way: str, kwargs: dict[str, Any]) -> None:
    inner, provider = openai_llm()
    plain, without = openai_llm()
    session = a_session()
    llm = StatefulLLM(inner, session)
    history = [user("where?"), asked('{"a":2,"b":1}'), result(**kwargs)]
    await ask(llm, way, history)
    await ask(plain, way, history)
    assert provider.bodies[0]["messages"][1:] == without.bodies[0]["messages"]
    assert [message["role"] for message in provider.bodies[0]["messages"]] == [
        "system",
        "user",
        "assistant",
        "function",
    ]
    session.update({"mode": "auto"})
    await ask(llm, way, [*history, assistant("ok"), user("and?")])
    assert_append_only(provider.bodies)
    assert UPDATE in str(provider.bodies[1]["messages"][-1])
    assert codes(session.report().notices) == []


def test_a_change_between_call_and_result_waits_for_the_result() -> None:
    inner, provider = openai_llm()
    session = a_session()
    llm = StatefulLLM(inner, session)
    llm.chat([user("where?")])
    session.update({"mode": "auto"})
    llm.chat([user("where?"), asked(), result(name="look")])
    roles = [message["role"] for message in provider.bodies[1]["messages"]]
    assert roles == ["system", "user", "assistant", "function", "system"]
    assert_append_only(provider.bodies)


def test_its_arguments_have_one_order_and_forge_nothing() -> None:
    inner, provider = openai_llm()
    history = [user("where?"), asked('{"b": 1, "a": 2}'), result(name="look")]
    StatefulLLM(inner, a_session()).chat(history)
    assert provider.bodies[0]["messages"][2]["function_call"] == {"name": "look", "arguments": '{"a":2,"b":1}'}
    assert history[1].additional_kwargs["function_call"]["arguments"] == '{"b": 1, "a": 2}'
    inner, provider = openai_llm()
    StatefulLLM(inner, a_session()).chat([user("hi"), asked(json.dumps({"a": UPDATE})), result(name="look")])
    assert UPDATE not in provider.bodies[0]["messages"][2]["function_call"]["arguments"]


def test_a_result_without_any_call_is_still_left_out() -> None:
    inner, provider = openai_llm()
    session = a_session()
    StatefulLLM(inner, session).chat([user("hi"), assistant("ok"), result(name="look"), user("and?")])
    assert [message["role"] for message in provider.bodies[0]["messages"]] == ["system", "user", "assistant", "user"]
    assert codes(session.report().notices) == ["orphan_tool_result"]
