"""Where `StatefulLLM` finds its session, and what it refuses at construction."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, MockLLM

from llama_index.llms.pkv import ContextSession, StatefulLLM
from pkv_agents import AgentSession, MissingSessionKeyError, PkvError, SessionError
from tests.llama_index.providers import openai_llm, tool
from tests.llama_index.support import (
    Shop,
    a_session,
    a_shop,
    assistant,
    errata_in,
    user,
)


class TestResolver:
    async def test_picks_the_session_of_the_call(self) -> None:
        who: ContextVar[str] = ContextVar("who")
        sessions = {"ann": a_session("ann", mode="plan"), "bob": a_session("bob", mode="auto")}
        inner, provider = openai_llm()
        llm = StatefulLLM(inner, lambda: sessions[who.get()])
        for name in ("ann", "bob"):
            who.set(name)
            llm.chat([user("hi")])
            await llm.achat([user("hi")])
        assert ['mode: "plan"' in body["messages"][0]["content"] for body in provider.bodies] == [True, True] + [
            False
        ] * 2
        who.set("eve")
        with pytest.raises(MissingSessionKeyError, match=r"no session for this call.*'eve'"):
            llm.chat([user("hi")])

    def test_returns_something_else(self) -> None:
        llm = StatefulLLM(MockLLM(), lambda: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(MissingSessionKeyError, match="returned NoneType"):
            llm.chat([user("hi")])


class TestMistakes:
    def test_what_is_no_model_or_no_session(self) -> None:
        anything: Any = "gpt-4"
        with pytest.raises(SessionError, match="llm: a LlamaIndex LLM is needed, not a str"):
            StatefulLLM(anything, a_session())
        with pytest.raises(SessionError, match="already"):
            StatefulLLM(StatefulLLM(MockLLM(), a_session()), a_session())
        sources: list[Any] = [anything, a_shop(), AgentSession]
        for source in sources:
            with pytest.raises(SessionError, match="session: an AgentSession"):
                StatefulLLM(MockLLM(), source)

    def test_tools_for_a_model_that_calls_none(self) -> None:
        llm = StatefulLLM(MockLLM(), a_session())
        with pytest.raises(SessionError, match=r"MockLLM does not call functions.*ReActAgent"):
            llm.chat_with_tools([tool(lambda: "", name="look", description="d")], user_msg="hi")

    async def test_a_context_session_outside_of_a_workflow(self) -> None:
        llm = StatefulLLM(MockLLM(), ContextSession(Shop))
        with pytest.raises(SessionError, match="read asynchronously"):
            llm.chat([user("hi")])
        with pytest.raises(MissingSessionKeyError, match="no workflow step is running"):
            await llm.achat([user("hi")])

    def test_what_is_no_message(self) -> None:
        anything: Any = "hi"
        with pytest.raises(PkvError, match="a ChatMessage is needed, not a str"):
            StatefulLLM(MockLLM(), a_session()).chat([anything])


def test_messages_without_text_are_told_too() -> None:
    inner, provider = openai_llm()
    session = a_session()
    llm = StatefulLLM(inner, session)
    llm.chat([user("a")])
    session.state.mode = "auto"
    llm.chat([user("a"), assistant("ok"), ChatMessage(role="user", blocks=[])])
    assert errata_in(provider.bodies[1]) == ['mode: "auto"']
