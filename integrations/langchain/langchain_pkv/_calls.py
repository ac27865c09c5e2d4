"""What one call of a stateful chat model sends, and what it learns from the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from langchain_pkv._messages import head, place, to_core
from langchain_pkv._usage import usage_of
from pkv_agents import AgentSession, Message, TurnPlan, Usage, merge_stream_usage


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a stateful chat model, planned.

    Attributes:
        session: Whose state it tells.
        plan: The plan.
        messages: The caller's messages.
        sent: What goes to the inner model, the head first.
    """

    session: AgentSession[Any]
    plan: TurnPlan
    messages: Sequence[BaseMessage]
    sent: list[BaseMessage]

    @classmethod
    def of(cls, session: AgentSession[Any], plan: TurnPlan, messages: Sequence[BaseMessage]) -> PlannedCall:
        """Render a plan."""
        own = cast("list[SystemMessage]", messages[: plan.leading])
        sent = [head(plan, own, session.instructions), *place(plan, messages, to_core(messages))]
        return cls(session, plan, messages, sent)

    def in_the_other_form(self) -> PlannedCall:
        """The same request after the endpoint refused a system turn in it."""
        return self.of(self.session, self.session.without_system(self.plan), self.messages)

    def succeeded(self, usage: object, answer: Message | None) -> None:
        """Record the call."""
        self.session.commit(self.plan, usage, answer=answer, on_conflict="report")


def answer_of(result: ChatResult) -> Message | None:
    """The answer, as planning knows messages."""
    return _to_core(result.generations[0].message) if result.generations else None


def joined_answer(chunks: Sequence[ChatGenerationChunk]) -> Message | None:
    """The answer that LangChain makes of a stream's chunks."""
    parts = [chunk.message for chunk in chunks if isinstance(chunk.message, AIMessageChunk)]
    return _to_core(add_ai_message_chunks(parts[0], *parts[1:])) if parts else None


def _to_core(message: BaseMessage) -> Message | None:
    return to_core([message])[0] if isinstance(message, AIMessage) else None


def usage_of_result(result: ChatResult) -> Usage | None:
    """What was reported, None when nothing was."""
    return usage_of([generation.message for generation in result.generations])


def usage_of_chunks(chunks: Sequence[ChatGenerationChunk]) -> Usage | None:
    """What a stream's chunks report together."""
    usage = merge_stream_usage(chunks)
    return None if usage.status == "not reported" else usage
