"""Usage in LangChain's own types."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langchain_openai.chat_models.base import _create_usage_metadata, _create_usage_metadata_responses
from langgraph.checkpoint.memory import InMemorySaver

from langchain_pkv import StateMiddleware, read_ledger
from langchain_pkv._usage import usage_of
from pkv_agents import Usage, normalise_usage
from tests.langchain.support import TAG, Scripted, Shop, a_shop, errata_in

DETAILS: Any = {"cache_read": 20000, "cache_creation": 1500}
CLAUDE = UsageMetadata(input_tokens=21503, output_tokens=9, total_tokens=21512, input_token_details=DETAILS)
USAGE = Usage(3, 20000, 1500, None, 9)
CHAT: dict[str, Any] = {
    "prompt_tokens": 100,
    "completion_tokens": 9,
    "total_tokens": 109,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


def answer(text: str = "Yes.") -> AIMessage:
    return AIMessage(text, usage_metadata=CLAUDE, response_metadata={"model_name": "claude-opus-5"})


def test_the_answer_among_messages() -> None:
    assert usage_of([HumanMessage("Hi"), answer(), HumanMessage("x")]) == USAGE
    assert usage_of([HumanMessage("Hi")]) is None and usage_of([AIMessage("Yes.")]) is None
    metadata = {"token_usage": CHAT, "model_name": "gpt-5.6-sol"}
    assert usage_of([AIMessage("Yes.", response_metadata=metadata)]) == Usage(10, 60, 30, None, 9, 4)


def test_an_answer_from_langchains_cache_used_nothing_and_tells_the_state() -> None:
    model = Scripted(script=[answer()], cache=InMemoryCache())
    ours = StateMiddleware(Shop, tag=TAG)
    agent: Any = create_agent(model, middleware=[ours], checkpointer=InMemorySaver())
    used: list[Any] = []
    for name in ("one", "two"):
        thread: Any = {"configurable": {"thread_id": name}}
        agent.invoke({"messages": [HumanMessage("Hi", id="1")], "pkv_state": a_shop()}, thread)
        record = read_ledger(agent.get_state(thread).values)
        assert record is not None and record.calls == 1
        used.append(record.usage)
        agent.invoke({"messages": [HumanMessage("And?")], "pkv_state": {"mode": "auto"}}, thread)
    assert used == [USAGE, Usage()]
    assert [errata_in(request) for request in model.requests] == [[], ['mode: "auto"'], ['mode: "auto"']]


@pytest.mark.parametrize("tier", [None, "default", "priority", "flex"])
def test_service_tiers(tier: str | None) -> None:
    expected = Usage(10, 60, 30, None, 9, 4)
    assert normalise_usage(_create_usage_metadata(CHAT, tier)) == expected
    responses = {
        "input_tokens": 100,
        "output_tokens": 9,
        "total_tokens": 109,
        "input_tokens_details": CHAT["prompt_tokens_details"],
        "output_tokens_details": CHAT["completion_tokens_details"],
    }
    assert normalise_usage(_create_usage_metadata_responses(responses, tier)) == expected


def test_calls_of_several_tiers_in_one_sum() -> None:
    both = add_usage(_create_usage_metadata(CHAT, "priority"), _create_usage_metadata(CHAT))
    assert normalise_usage(both) == Usage(20, 120, 60, None, 18, 8)


def test_cache_creation_beside_the_two_ttls() -> None:
    tiers: dict[str, Any] = {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20}
    for created in (0, 30, None):  # 0 today; older versions gave the sum
        details = tiers if created is None else {**tiers, "cache_creation": created}
        assert normalise_usage({"input_tokens": 35, "input_token_details": details}) == Usage(5, None, 10, 20)
    summed = {**tiers, "cache_creation": 100}  # a call without ttls was added to one with them
    assert normalise_usage({"input_tokens": 135, "input_token_details": summed}) == Usage(5, None, 110, 20)


def test_results_of_one_prompt_and_of_several() -> None:
    generation = ChatGeneration(message=answer())
    assert normalise_usage(generation) == USAGE
    # alternatives of one prompt share one report
    assert normalise_usage(ChatResult(generations=[generation, ChatGeneration(message=answer("No."))])) == USAGE
    assert normalise_usage(LLMResult(generations=[[generation], [generation]])) == USAGE + USAGE
    bare = ChatGeneration(message=AIMessage("Yes."))
    result = ChatResult(generations=[bare], llm_output={"token_usage": CHAT, "model_name": "gpt-5.6-sol"})
    assert normalise_usage(result) == Usage(10, 60, 30, None, 9, 4)


def test_usage_by_model_of_the_callback_handler() -> None:
    handler = UsageMetadataCallbackHandler()
    other = AIMessage("Yes.", usage_metadata=_create_usage_metadata(CHAT), response_metadata={"model_name": "gpt"})
    for message in (answer(), answer(), other):
        handler.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=uuid4())
    expected = USAGE + USAGE + Usage(10, 60, 30, None, 9, 4)
    assert normalise_usage(handler.usage_metadata) == normalise_usage(handler) == expected
