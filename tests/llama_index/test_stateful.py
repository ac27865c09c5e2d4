"""`StatefulLLM` over OpenAI's class, without an agent: every way to call it, failures, and what it leaves alone."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
from llama_index.core.base.llms.types import CompletionResponse, MessageRole
from llama_index.core.llms import MockLLM
from openai import APIStatusError

from llama_index.llms.pkv import ModelCall, StatefulLLM
from pkv_agents import AgentSession
from tests.llama_index.providers import like_llm, openai_llm
from tests.llama_index.support import (
    HEAD,
    STREAMED,
    TAG,
    TEXT_WAYS,
    UPDATE,
    WAYS,
    a_session,
    a_shop,
    ask,
    assert_append_only,
    assistant,
    errata_in,
    system,
    user,
)


@pytest.mark.parametrize("way", WAYS)
async def test_the_payload_of_each_way(way: str) -> None:
    """R29: the same bytes and the same ledger however the call is made."""
    inner, provider = openai_llm(script=["one", "two words"], **STREAMED)
    session = a_session()
    llm = StatefulLLM(inner, session)
    history = [user("a"), (await ask(llm, way, [user("a")])).message, user("b")]
    before = copy.deepcopy(history)
    session.state.mode = "auto"
    answer = await ask(llm, way, history)
    assert answer.message.content == "two words"
    assert history == before
    first, second = provider.bodies
    assert first["messages"][0]["role"] == "system"
    assert first["messages"][0]["content"].startswith(HEAD)
    assert first["messages"][1:] == [{"role": "user", "content": "a"}]
    assert second["messages"][2:] == [
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "b"},
        {"role": "system", "content": f'{UPDATE}\nmode: "auto"\n</state-update>'},
    ]
    assert_append_only(provider.bodies)
    assert session.ledger is not None
    assert len(session.ledger.epochs[0].errata) == 1
    assert (session.usage.fresh, session.usage.cache_read, session.usage.output) == (20, 180, 10)
    assert session.report().total_turns == 2


@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
async def test_a_stream_without_usage_reports_none(way: str) -> None:
    inner, _ = openai_llm()
    session = a_session()
    await ask(StatefulLLM(inner, session), way, [user("a")])
    assert session.usage.input is None
    assert session.usage.cache_read is None


@pytest.mark.parametrize("way", TEXT_WAYS)
async def test_completion_of_a_chat_model(way: str) -> None:
    inner, provider = openai_llm(script=["two words"], **STREAMED)
    session = a_session()
    answer = await ask(StatefulLLM(inner, session), way, "hello")
    assert isinstance(answer, CompletionResponse)
    assert answer.text == "two words"
    assert provider.bodies[0]["messages"][0]["content"].startswith(HEAD)
    assert provider.bodies[0]["messages"][1:] == [{"role": "user", "content": "hello"}]
    assert session.usage.cache_read == 90


@pytest.mark.parametrize("way", TEXT_WAYS)
async def test_completion_of_a_model_without_messages(way: str) -> None:
    inner, provider = like_llm(["fine"], is_chat_model=False, is_function_calling_model=False, **STREAMED)
    session = a_session()
    answer = await ask(StatefulLLM(inner, session), way, "hello")
    assert answer.text == "fine"
    assert provider.bodies[0]["prompt"].startswith(HEAD)
    assert provider.bodies[0]["prompt"].endswith("</state>\n\nhello")
    assert session.usage.cache_read == 90


@pytest.mark.parametrize("way", WAYS)
async def test_chat_of_a_model_without_messages(way: str) -> None:
    inner, provider = like_llm(["fine"], is_chat_model=False, is_function_calling_model=False)
    assert (await ask(StatefulLLM(inner, a_session()), way, [user("hello")])).message.content == "fine"
    assert provider.bodies[0]["prompt"].startswith(f"system: {HEAD}")


@pytest.mark.parametrize("way", WAYS)
async def test_a_failed_call_leaves_the_erratum_pending(way: str) -> None:
    inner, provider = openai_llm(script=["one", 500, "two"])
    session = a_session()
    llm = StatefulLLM(inner, session)
    history = [user("a"), (await ask(llm, way, [user("a")])).message, user("b")]
    session.state.mode = "auto"
    ledger = session.ledger
    with pytest.raises(APIStatusError):
        await ask(llm, way, history)
    assert session.ledger == ledger
    session.state.cart_total = 7
    await ask(llm, way, history)
    assert errata_in(provider.bodies[-1]) == ['mode: "auto"\ncart_total: 7']
    assert_append_only([provider.bodies[0], provider.bodies[2]])


async def test_a_stream_that_is_given_up_leaves_the_erratum_pending() -> None:
    inner, provider = openai_llm(script=["one", "two words", "two words", "three"])
    session = a_session()
    llm = StatefulLLM(inner, session)
    history = [user("a"), llm.chat([user("a")]).message, user("b")]
    session.state.mode = "auto"
    stream: Any = llm.stream_chat(history)
    next(stream)
    stream.close()
    astream: Any = await llm.astream_chat(history)
    await anext(astream)
    await astream.aclose()
    assert session.ledger is not None
    assert session.ledger.epochs[0].errata == ()
    llm.chat(history)
    assert [errata_in(body) for body in provider.bodies[1:]] == [['mode: "auto"']] * 3


@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
async def test_a_change_during_a_stream_is_told_on_the_next_call(way: str) -> None:
    inner, provider = openai_llm(script=["one", "two words", "three"])
    session = a_session()
    llm = StatefulLLM(inner, session)
    history = [user("a"), llm.chat([user("a")]).message, user("b")]
    session.state.mode = "auto"
    if way == "stream_chat":
        for piece in llm.stream_chat(history):
            session.state.mode = "plan"
            history = [*history[:3], piece.message]
    else:
        async for piece in await llm.astream_chat(history):
            session.state.mode = "plan"
            history = [*history[:3], piece.message]
    llm.chat([*history, user("c")])
    assert errata_in(provider.bodies[-1]) == ['mode: "auto"', 'mode: "plan"']
    assert_append_only(provider.bodies)


@pytest.mark.parametrize("way", WAYS)
async def test_r07_an_endpoint_that_refuses_a_system_turn(way: str) -> None:
    refusal = (400, "messages: role 'system' is only allowed as the first message")
    inner, provider = openai_llm(script=["one", refusal, "two", "three"])
    session = a_session()
    llm = StatefulLLM(inner, session)
    history = [user("a"), (await ask(llm, way, [user("a")])).message, user("b")]
    session.state.mode = "auto"
    history.append((await ask(llm, way, history)).message)
    await ask(llm, way, [*history, user("c")])
    erratum = f'{UPDATE}\nmode: "auto"\n</state-update>'
    assert provider.bodies[1]["messages"][-1] == {"role": "system", "content": erratum}
    assert provider.bodies[2]["messages"][-1] == {"role": "user", "content": f"b\n\n{erratum}"}
    assert_append_only([provider.bodies[0], *provider.bodies[2:]])
    assert "system_refused" in [notice.code for notice in session.report().notices]


async def test_r02_changes_without_a_place() -> None:
    inner, provider = openai_llm()
    session = a_session()
    llm = StatefulLLM(inner, session)
    llm.chat([])
    session.state.mode = "auto"
    llm.chat([user("a")])
    session.state.mode = "plan"
    session.state.mode = "auto"
    session.state.cart_total = 1
    llm.chat([user("a"), assistant("ok")])
    for body in provider.bodies:
        roles = [message["role"] for message in body["messages"]]
        assert ("system", "system") not in zip(roles, roles[1:], strict=False)
    assert errata_in(provider.bodies[1])[-1:] == ['mode: "auto"']


async def test_leading_system_messages_stand_in_the_one_head() -> None:
    inner, provider = openai_llm()
    llm = StatefulLLM(inner, AgentSession(a_shop(), key="k", instructions="You help.", tag=TAG))
    llm.chat([system("Be brief."), user("a")])
    messages = provider.bodies[0]["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"].startswith("You help.\n\nBe brief.\n\nCurrent state.")


def test_what_a_provider_writes_into_messages_stays_in_the_copies() -> None:
    class Scribbles(MockLLM):
        def chat(self, messages: Any, **kwargs: Any) -> Any:
            for message in messages:
                message.additional_kwargs["cache_control"] = {"type": "ephemeral"}
                for block in message.blocks:
                    block.text += "!"
            return super().chat(messages, **kwargs)

    messages = [system("s"), user("a"), assistant("b"), user("c")]
    before = copy.deepcopy(messages)
    StatefulLLM(cast("Any", Scribbles)(), a_session()).chat(messages)
    assert messages == before


def test_it_is_what_the_inner_model_is() -> None:
    inner, _ = openai_llm(system_prompt="Be brief.")
    llm = StatefulLLM(inner, a_session())
    assert llm.metadata == inner.metadata
    assert llm.inner is inner
    assert llm.callback_manager is inner.callback_manager
    assert llm.system_prompt == "Be brief."
    assert llm.class_name() == "StatefulLLM"
    assert "sk-" not in str(llm.to_dict())


def test_on_call_tells_what_was_planned_and_reported() -> None:
    calls: list[ModelCall] = []
    inner, _ = openai_llm(script=["one", "two"])
    session = a_session()
    llm = StatefulLLM(inner, session, on_call=calls.append)
    history = [user("a"), llm.chat([user("a")]).message, user("b")]
    session.state.mode = "auto"
    llm.chat(history)
    assert [call.usage.cache_read if call.usage else None for call in calls] == [90, 90]
    assert calls[1].plan.erratum is not None
    assert [message.role for message in calls[1].messages][-1] == MessageRole.SYSTEM
    assert calls[1].answer.message.content == "two"


@pytest.mark.parametrize("way", WAYS)
async def test_a_monitor_that_fails_costs_neither_the_answer_nor_the_ledger(way: str) -> None:
    inner, provider = openai_llm(script=["one", "two", "three"], **STREAMED)
    session = a_session()

    def broken(call: ModelCall) -> None:
        raise LookupError(str(call))

    llm = StatefulLLM(inner, session, on_call=broken)
    with pytest.warns(RuntimeWarning, match="on_call raised LookupError"):
        history = [user("a"), (await ask(llm, way, [user("a")])).message, user("b")]
    session.state.mode = "auto"
    with pytest.warns(RuntimeWarning, match="on_call raised LookupError"):
        history.append((await ask(llm, way, history)).message)
    with pytest.warns(RuntimeWarning, match="on_call raised LookupError"):
        await ask(llm, way, [*history, user("c")])
    assert errata_in(provider.bodies[-1]) == ['mode: "auto"']
    assert_append_only(provider.bodies)
