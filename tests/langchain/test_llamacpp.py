"""A real llama.cpp server behind `ChatOpenAI`; `tests.llamacpp` has the conversation and what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_pkv import to_core, with_state
from langchain_pkv._profiles import model_name
from pkv_agents import AgentSession, Message, TurnPlan
from tests.llamacpp import Reply, check, ours, rewriting
from tests.retail import Shop

pytestmark = [pytest.mark.embedded, pytest.mark.slow, pytest.mark.timeout(1200)]


class Conversation:
    """`tests.llamacpp.Asked`, through LangChain."""

    def __init__(self, address: str) -> None:
        self.model = ChatOpenAI(
            model="smollm2", base_url=address, api_key=SecretStr("unused"), temperature=0, max_completion_tokens=8
        )
        self.history: list[BaseMessage] = []

    def plan(self, session: AgentSession[Shop], question: str) -> tuple[TurnPlan, Sequence[Message]]:
        self.history.append(HumanMessage(question))
        core = to_core(self.history)
        return session.plan(core, model=model_name(self.model)), core

    def answer(self, session: AgentSession[Shop]) -> Reply:
        return self._reply(with_state(self.model, session).invoke(self.history))

    def plain(self, system: str, question: str) -> Reply:
        self.history.append(HumanMessage(question))
        return self._reply(self.model.invoke([SystemMessage(system), *self.history]))

    def _reply(self, answer: Any) -> Reply:
        self.history.append(answer)
        usage = answer.usage_metadata
        read = usage.get("input_token_details", {}).get("cache_read", 0)
        return Reply(usage["input_tokens"], read, usage["output_tokens"], answer.text)


def test_the_engine_serves_what_was_said(llamacpp_address: str, embedded_tokenizer: Any) -> None:
    mine = ours(Conversation(llamacpp_address), embedded_tokenizer)
    check(mine, rewriting(Conversation(llamacpp_address)))
