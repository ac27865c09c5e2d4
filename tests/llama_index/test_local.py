"""`LocalLLM` on a tiny random model: its text is noise, its plumbing is real."""

from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.workflow import Context
from pydantic import BaseModel, Field

from llama_index.llms.pkv import ContextSession, LocalLLM, ModelCall, StatefulLLM, StateMemory
from pkv_agents import AgentSession, ModelError, normalise_usage
from tests.llama_index.providers import tool
from tests.llama_index.support import TAG, Shop, a_session, a_shop, user
from tests.local.tiny import tiny_model


class Verdict(BaseModel):
    """A verdict."""

    allowed: bool
    grade: int = Field(ge=0, le=9)


def cancel_order(order_id: bool) -> str:
    """Stop an order."""
    return "stopped"


@pytest.fixture
def llm() -> LocalLLM:
    return LocalLLM(local=tiny_model(), max_tokens=12)


async def test_all_ways_give_the_same_answer(llm: LocalLLM) -> None:
    messages = [user("hello")]
    whole = llm.chat(messages)
    chunks = list(llm.stream_chat(messages))
    others = [piece async for piece in await llm.astream_chat(messages)]
    completions = (
        [*llm.stream_complete("hello")][-1],
        [piece async for piece in await llm.astream_complete("hello")][-1],
    )
    assert len(chunks) > 3
    assert "".join(chunk.delta or "" for chunk in chunks) == whole.message.content
    answers = [chunks[-1], others[-1], await llm.achat(messages)]
    assert {answer.message.content for answer in answers} == {whole.message.content}
    texts = {llm.complete("hello").text, (await llm.acomplete("hello")).text, *(one.text for one in completions)}
    assert texts == {whole.message.content}


def test_usage_and_times(llm: LocalLLM) -> None:
    first, second = (normalise_usage(llm.chat([user("hello")])) for _ in range(2))
    assert first.cache_read == 0
    assert first.output == 12
    assert second.fresh == 1
    raw: Any = llm.chat([user("hello")]).raw
    assert raw["finish_reason"] == "length"
    assert 0 < raw["ttft_s"] <= raw["total_s"]


def test_a_stream_that_is_given_up_frees_the_cache(llm: LocalLLM) -> None:
    stream: Any = llm.stream_chat([user("hello")])
    next(stream)
    stream.close()
    llm.local.check_integrity()
    assert normalise_usage(llm.chat([user("hello")])).cache_read


async def test_an_asynchronous_stream_that_is_given_up_frees_the_cache(llm: LocalLLM) -> None:
    stream: Any = await llm.astream_chat([user("hello")])
    await anext(stream)
    await stream.aclose()
    llm.local.check_integrity()


def test_options_are_the_models_or_the_calls(llm: LocalLLM) -> None:
    assert normalise_usage(llm.chat([user("hello")], max_tokens=3)).output == 3
    whole = str(llm.chat([user("hello")]).message.content)
    assert llm.chat([user("hello")], stop=[whole[0]]).message.content == ""
    warm: Any = {"temperature": 2.0, "seed": 1}
    assert llm.chat([user("hello")], **warm).message.content == llm.chat([user("hello")], **warm).message.content
    assert llm.chat([user("hello")], choices=["yes", "no"]).message.content in {"yes", "no"}
    assert normalise_usage(llm.chat([user("hello")], salt="other")).cache_read == 0


@pytest.mark.parametrize("way", ["chat_with_tools", "stream_chat_with_tools"])
def test_tool_calls_are_valid(llm: LocalLLM, way: str) -> None:
    found: Any = getattr(llm, way)([tool(cancel_order)], user_msg="cancel", tool_required=True, max_tokens=100)
    answer = list(found)[-1] if "stream" in way else found
    (chosen,) = llm.get_tool_calls_from_response(answer)
    assert chosen.tool_name == "cancel_order"
    assert set(chosen.tool_kwargs) == {"order_id"}
    assert isinstance(chosen.tool_kwargs["order_id"], bool)


def test_a_tool_by_name_and_none(llm: LocalLLM) -> None:
    tools = [tool(cancel_order), tool(lambda: "", name="other", description="Other.")]
    answer = llm.chat_with_tools(tools, user_msg="x", tool_choice="other", max_tokens=100)
    assert [block.tool_name for block in answer.message.blocks if isinstance(block, ToolCallBlock)] == ["other"]
    answer = llm.chat_with_tools(tools, user_msg="x", tool_choice="none")
    assert llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False) == []
    with pytest.raises(ValueError, match="at least one tool call"):
        llm.get_tool_calls_from_response(answer)


async def test_structured_answers(llm: LocalLLM) -> None:
    prompt = PromptTemplate("May I {what}?")
    options: Any = {"max_tokens": 100}
    assert isinstance(llm.structured_predict(Verdict, prompt, llm_kwargs=options, what="go"), Verdict)
    assert isinstance(await llm.astructured_predict(Verdict, prompt, llm_kwargs=options, what="go"), Verdict)


def test_a_state_on_it_keeps_the_cache(llm: LocalLLM) -> None:
    calls: list[ModelCall] = []
    session = a_session()
    stateful = StatefulLLM(llm, session, on_call=calls.append)
    history = [user("a")]
    for mode in ("plan", "auto", "plan"):
        session.state.mode = "auto" if mode == "auto" else "plan"
        history = [*history, stateful.chat(history).message, user("next")]
    assert session.profile.name == "local"
    assert [call.plan.erratum is not None for call in calls] == [False, True, True]
    for earlier, later in zip(calls, calls[1:], strict=False):
        before, after = earlier.usage, later.usage
        assert before is not None and before.input is not None
        assert after is not None and after.cache_read is not None
        assert after.cache_read >= before.input


async def test_an_agent_on_it(llm: LocalLLM) -> None:
    session = ContextSession(Shop, initial=a_shop(), tag=TAG)
    agent: Any = FunctionAgent(llm=StatefulLLM(llm, session), tools=[tool(cancel_order)])
    ctx: Context[Any] = Context(agent)
    for text in ("hi", "and?"):
        await session.update(ctx, {"cart_total": len(text)})
        await agent.run(text, ctx=ctx, memory=StateMemory(), max_iterations=30)
    assert (await session.report(ctx)).total_turns >= 2


def test_mistakes(llm: LocalLLM) -> None:
    with pytest.raises(ModelError, match=r"a pkv_agents.local.LocalModel is needed, not a str"):
        LocalLLM(local="gpt2")
    with pytest.raises(ModelError, match="cannot be negative"):
        llm.chat([user("hi")], temperature=-1.0)
    assert "local" not in llm.to_dict()
    assert isinstance(AgentSession(a_shop(), key="k"), AgentSession)


def test_the_metadata(llm: LocalLLM) -> None:
    assert llm.metadata.is_function_calling_model
    assert llm.metadata.is_chat_model
    assert llm.metadata.context_window == llm.local.context_limit
    assert llm.metadata.model_name == llm.local.fingerprint
    assert llm.class_name() == "LocalLLM"
    assert isinstance(llm.chat([ChatMessage(role="user", content="x")]).message, ChatMessage)
