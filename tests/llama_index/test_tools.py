"""`StatefulLLM` with tools and structured answers, and the events that fire."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher  # pyright: ignore[reportPrivateImportUsage]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel, Field

from llama_index.llms.pkv import StatefulLLM
from tests.llama_index.providers import call, openai_llm, tool
from tests.llama_index.support import (
    HEAD,
    TEXT_WAYS,
    WAYS,
    a_session,
    ask,
    assistant,
    user,
)


class Grade(BaseModel):
    """A grade."""

    points: int


@pytest.mark.parametrize("way", ["structured_predict", "astructured_predict", "as_structured_llm"])
async def test_structured_answers_carry_the_state(way: str) -> None:
    inner, provider = openai_llm(script=[[call("Grade", "1", points=3)]])
    session = a_session()
    llm = StatefulLLM(inner, session)
    prompt = PromptTemplate("Grade {what}.")
    if way == "structured_predict":
        found: Any = llm.structured_predict(Grade, prompt, what="this")
    elif way == "astructured_predict":
        found = await llm.astructured_predict(Grade, prompt, what="this")
    else:
        found = llm.as_structured_llm(Grade).chat([user("Grade this.")]).raw
    assert found == Grade(points=3)
    assert provider.bodies[0]["messages"][0]["content"].startswith(HEAD)
    assert provider.bodies[0]["messages"][1]["content"] == "Grade this."
    assert session.report().total_turns == 1


def test_streamed_structured_answers_carry_the_state() -> None:
    inner, provider = openai_llm(script=[[call("Grade", "1", points=3)]])
    session = a_session()
    found = list(StatefulLLM(inner, session).stream_structured_predict(Grade, PromptTemplate("Grade this.")))
    assert found[-1] == Grade(points=3)
    assert provider.bodies[0]["messages"][0]["content"].startswith(HEAD)
    assert session.report().total_turns == 1


@pytest.mark.parametrize(
    "way", ["chat_with_tools", "achat_with_tools", "stream_chat_with_tools", "astream_chat_with_tools"]
)
async def test_tools(way: str) -> None:
    def look(order_id: str) -> str:
        """Look an order up."""
        return order_id

    plain, without = openai_llm(script=[[call("look", "1", order_id="K417")]])
    inner, provider = openai_llm(script=[[call("look", "1", order_id="K417")]])
    llm = StatefulLLM(inner, a_session())
    history = [user("hi"), assistant("hello")]
    options: Any = {"user_msg": "K417?", "tool_required": True, "allow_parallel_tool_calls": True}
    answer = await ask(llm, way, [tool(look)], chat_history=history, **options)
    await ask(plain, way, [tool(look)], chat_history=list(history), **options)
    (chosen,) = llm.get_tool_calls_from_response(answer)
    assert (chosen.tool_name, chosen.tool_kwargs, chosen.tool_id) == ("look", {"order_id": "K417"}, "1")
    assert len(history) == 2, "the history that was given is not appended to"
    ours, theirs = provider.bodies[0], without.bodies[0]
    assert {**ours, "messages": ours["messages"][1:]} == theirs


class Seen(BaseEventHandler):
    seen: list[str] = Field(default_factory=list[str])

    @classmethod
    def class_name(cls) -> str:
        return "Seen"

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.seen.append(type(event).__name__)


@pytest.mark.parametrize("way", [*WAYS, *TEXT_WAYS])
async def test_each_event_fires_once(way: str) -> None:
    handler = Seen(seen=[])
    root = get_dispatcher()
    root.add_event_handler(handler)
    try:
        inner, _ = openai_llm(script=["one"])
        await ask(StatefulLLM(inner, a_session()), way, "hi" if way in TEXT_WAYS else [user("hi")])
    finally:
        root.event_handlers.remove(handler)
    assert handler.seen.count("LLMChatStartEvent") == 1
    assert handler.seen.count("LLMChatEndEvent") == 1
    assert not any(name.startswith("LLMCompletion") for name in handler.seen)
