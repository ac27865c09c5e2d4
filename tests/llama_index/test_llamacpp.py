"""A real llama.cpp server behind `OpenAILike`; `tests.llamacpp` has the conversation and what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, ChatResponse
from llama_index.llms.openai_like import OpenAILike  # pyright: ignore[reportMissingTypeStubs]

from llama_index.llms.pkv import StatefulLLM, to_core
from llama_index.llms.pkv._profiles import model_name
from pkv_agents import AgentSession, Message, TurnPlan, normalise_usage
from tests.llama_index.support import system as told
from tests.llama_index.support import user
from tests.llamacpp import Reply, check, ours, rewriting
from tests.retail import Shop

pytestmark = [pytest.mark.embedded, pytest.mark.slow, pytest.mark.timeout(1200)]


class Conversation:
    """`tests.llamacpp.Asked`, through LlamaIndex."""

    def __init__(self, address: str) -> None:
        self.llm = OpenAILike(
            model="smollm2",
            api_base=address,
            api_key="unused",
            temperature=0,
            max_tokens=8,
            is_chat_model=True,
            context_window=8192,
        )
        self.history: list[ChatMessage] = []

    def plan(self, session: AgentSession[Shop], question: str) -> tuple[TurnPlan, Sequence[Message]]:
        self.history.append(user(question))
        core = to_core(self.history)
        return session.plan(core, model=model_name(self.llm)), core

    def answer(self, session: AgentSession[Shop]) -> Reply:
        return self._reply(StatefulLLM(self.llm, session).chat(self.history))

    def plain(self, system: str, question: str) -> Reply:
        self.history.append(user(question))
        return self._reply(self.llm.chat([told(system), *self.history]))

    def _reply(self, answer: ChatResponse) -> Reply:
        self.history.append(answer.message)
        usage = normalise_usage(answer.raw)
        assert usage.input is not None and usage.output is not None
        return Reply(usage.input, usage.cache_read or 0, usage.output, answer.message.content or "")


def test_the_engine_serves_what_was_said(llamacpp_address: str, embedded_tokenizer: Any) -> None:
    mine = ours(Conversation(llamacpp_address), embedded_tokenizer)
    check(mine, rewriting(Conversation(llamacpp_address)))
