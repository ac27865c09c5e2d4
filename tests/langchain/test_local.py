"""`LocalChatModel` on a tiny random model: its text is noise, its plumbing is real."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langchain_pkv import LocalChatModel, StateMiddleware, read_ledger, with_state
from pkv_agents import AgentSession, ModelError
from tests.langchain.support import TAG, Shop, a_shop, errata_in
from tests.langchain.tiny import tiny_model


class Verdict(BaseModel):
    """A verdict."""

    allowed: bool
    grade: int = Field(ge=0, le=9)


class Answer(TypedDict):
    """An answer."""

    sure: bool


@tool
def cancel_order(order_id: str, soon: bool = False) -> str:
    """Stop an order."""
    return "stopped"


@pytest.fixture
def llm() -> LocalChatModel:
    return LocalChatModel(local=tiny_model(), max_tokens=12)


def details(message: AIMessage) -> dict[str, Any]:
    assert message.usage_metadata is not None
    return {**message.usage_metadata, **message.usage_metadata.get("input_token_details", {})}


def test_usage_and_metadata(llm: LocalChatModel) -> None:
    first, second = llm.invoke("hello"), llm.invoke("hello")
    assert details(first)["cache_read"] == 0
    assert details(second)["cache_read"] == details(second)["input_tokens"] - 1
    assert details(first)["output_tokens"] == 12
    assert first.text == second.text
    assert first.response_metadata["finish_reason"] == "length"
    assert first.response_metadata["ttft_s"] > 0


async def test_all_ways_give_the_same_answer(llm: LocalChatModel) -> None:
    whole = llm.invoke("hello")
    chunks = list(llm.stream("hello"))
    async_chunks = [chunk async for chunk in llm.astream("hello")]
    summed, async_summed = chunks[0], async_chunks[0]
    for chunk in chunks[1:]:
        summed += chunk
    for chunk in async_chunks[1:]:
        async_summed += chunk
    assert len(chunks) > 3
    answers = [summed, async_summed, await llm.ainvoke("hello"), *llm.batch(["hello", "hello"])]
    assert {answer.text for answer in answers} == {whole.text}
    assert {details(answer)["output_tokens"] for answer in answers} == {12}
    assert isinstance(summed, AIMessageChunk)
    assert summed.response_metadata["finish_reason"] == "length"


def test_a_stream_that_is_given_up_frees_the_cache(llm: LocalChatModel) -> None:
    stream: Any = llm.stream("hello")
    next(stream)
    stream.close()
    llm.local.check_integrity()
    assert details(llm.invoke("hello"))["cache_read"] > 0


def test_options_are_the_models_or_the_calls(llm: LocalChatModel) -> None:
    assert details(llm.bind(max_tokens=3).invoke("hello"))["output_tokens"] == 3
    whole = llm.invoke("hello").text
    stopped = llm.invoke("hello", stop=[whole[0]])
    assert stopped.text == ""
    assert stopped.response_metadata["finish_reason"] == "stop"
    assert llm.model_copy(update={"stop": [whole[0]]}).invoke("hello").text == ""
    warm = llm.bind(temperature=2.0, seed=1)
    assert warm.invoke("hello").text == warm.invoke("hello").text != whole
    assert llm.bind(choices=["yes", "no"]).invoke("hello").text in {"yes", "no"}


def test_a_salt_separates_caches(llm: LocalChatModel) -> None:
    llm.invoke("hello")
    assert details(llm.bind(salt="other").invoke("hello"))["cache_read"] == 0


@pytest.mark.parametrize(
    "choice", ["any", "required", True, "cancel_order", {"type": "function", "function": {"name": "cancel_order"}}]
)
def test_tool_calls_are_valid(llm: LocalChatModel, choice: Any) -> None:
    bound = llm.bind_tools([cancel_order], tool_choice=choice, max_tokens=300, temperature=0.7, seed=3)
    answer = bound.invoke("cancel K417")
    assert answer.response_metadata["finish_reason"] in {"tool_calls", "length"}
    if answer.tool_calls:
        assert answer.tool_calls[0]["name"] == "cancel_order"
        assert set(answer.tool_calls[0]["args"]) <= {"order_id", "soon"}


def test_streamed_tool_calls_are_the_invoked_ones(llm: LocalChatModel) -> None:
    @tool
    def pick(number: bool) -> str:
        """Pick."""
        return ""

    bound = llm.bind_tools([pick], tool_choice="any", max_tokens=100)
    whole = bound.invoke("pick one")
    chunks: list[Any] = list(bound.stream("pick one"))
    summed = chunks[0]
    for chunk in chunks[1:]:
        summed += chunk
    assert [call["name"] for call in whole.tool_calls] == ["pick"]
    assert [(call["name"], call["args"]) for call in summed.tool_calls] == [("pick", whole.tool_calls[0]["args"])]
    assert whole.tool_calls[0]["id"]


def test_no_tool_call_when_none_is_wanted(llm: LocalChatModel) -> None:
    assert llm.bind_tools([cancel_order], tool_choice="none").invoke("cancel K417").tool_calls == []


@pytest.mark.parametrize("include_raw", [False, True])
def test_structured_output(llm: LocalChatModel, include_raw: bool) -> None:
    runnable = llm.bind(max_tokens=100).bound.model_copy(update={"max_tokens": 100})  # type: ignore[attr-defined]
    out = runnable.with_structured_output(Verdict, include_raw=include_raw).invoke("may I?")
    parsed = out["parsed"] if include_raw else out
    assert isinstance(parsed, Verdict)
    assert isinstance(runnable.with_structured_output(Answer).invoke("sure?")["sure"], bool)
    called = runnable.with_structured_output(Answer, method="function_calling").invoke("sure?")
    assert isinstance(called["sure"], bool)


def test_what_is_no_local_model() -> None:
    with pytest.raises(ModelError, match="LocalModel"):
        LocalChatModel(local="smol")


def test_with_state_tells_a_change_and_keeps_the_cache(llm: LocalChatModel) -> None:
    session = AgentSession(a_shop(), key="u1", instructions="You are the shop's assistant. " * 20, tag=TAG)
    stateful = with_state(llm, session)
    history: list[BaseMessage] = [HumanMessage("where is K417?")]
    history.append(stateful.invoke(history))
    session.state.orders["K417"].status = "delivered"  # type: ignore[call-overload]
    history.append(HumanMessage("and now?"))
    answer = stateful.invoke(history)
    counts = details(answer)
    fresh = counts["input_tokens"] - counts["cache_read"]
    assert counts["cache_read"] > 800
    assert fresh < 200
    assert session.usage.cache_read == counts["cache_read"]


def test_an_agent_on_a_local_model_keeps_its_prefix() -> None:
    """The whole path: graph, state, erratum, template, cache. Cached against cold: the same answer."""

    @tool
    def deliver(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Deliver the order."""
        answer = ToolMessage("done", tool_call_id=runtime.tool_call_id)
        return Command(update={"pkv_state": {"orders[K417].status": "delivered"}, "messages": [answer]})

    def run(cold: bool) -> tuple[list[Any], Any]:
        local = tiny_model()
        seen: list[Any] = []

        def on_call(made: Any) -> None:
            seen.append(made)
            if cold:
                local.clear_cache()

        llm = LocalChatModel(local=local, max_tokens=8)
        middleware = StateMiddleware(Shop, instructions="A policy. " * 60, tag=TAG, on_call=on_call)
        agent: Any = create_agent(llm, [deliver], middleware=[middleware], checkpointer=InMemorySaver())
        config: RunnableConfig = {"configurable": {"thread_id": "t1"}}
        agent.invoke({"messages": [HumanMessage("hello")], "pkv_state": a_shop()}, config)  # type: ignore[call-overload]
        for status in ("packed", "sent", "delivered"):
            update = {"messages": [HumanMessage(f"it is {status}")], "pkv_state": {"orders[K417].status": status}}
            agent.invoke(update, config)  # type: ignore[call-overload]
        return seen, agent.get_state(config).values

    warm, values = run(cold=False)
    cold, _ = run(cold=True)
    assert [made.answer[0].text for made in warm] == [made.answer[0].text for made in cold]
    shares = [made.usage.cached_share for made in warm]
    assert shares[0] < 0.01
    assert min(shares[1:]) > 0.8
    assert isinstance(warm[-1].messages[0], SystemMessage)
    assert errata_in(warm[-1].messages) == [
        f'orders[K417].status: "{status}"' for status in ("packed", "sent", "delivered")
    ]
    record = read_ledger(values)
    assert record is not None
    assert record.calls == 4
    assert record.usage.cache_read == sum(made.usage.cache_read for made in warm)


def test_another_providers_blocks_for_tool_calls_are_not_read_twice(llm: LocalChatModel) -> None:
    made = {"name": "cancel_order", "args": {"order_id": "K417"}, "id": "c1"}
    block = {"type": "tool_use", "id": "c1", "name": "cancel_order", "input": {"order_id": "K417"}}
    asked, result = HumanMessage("stop it"), ToolMessage("stopped", tool_call_id="c1")
    bound = llm.bind_tools([cancel_order])
    blocks = bound.invoke([asked, AIMessage([{"type": "text", "text": "so"}, block], tool_calls=[made]), result])
    plain = bound.invoke([asked, AIMessage("so", tool_calls=[made]), result])
    assert details(blocks)["input_tokens"] == details(plain)["input_tokens"]


def test_a_schema_of_pydantics_first_version(llm: LocalChatModel) -> None:
    from pydantic.v1 import BaseModel as Older

    class Verdict1(Older):
        """A verdict."""

        allowed: bool

    answer: Any = llm.model_copy(update={"max_tokens": 64}).with_structured_output(Verdict1).invoke("well?")
    assert isinstance(answer, Verdict1)
