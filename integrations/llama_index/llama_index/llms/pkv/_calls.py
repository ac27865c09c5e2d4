"""What one call of a stateful model sends, and what it learns from the answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing, closing, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

from llama_index.core.base.llms.types import ChatMessage, ChatResponse

from llama_index.llms.pkv._markers import Markers
from llama_index.llms.pkv._messages import render, to_core
from llama_index.llms.pkv._store import ContextTurn
from pkv_agents import AgentSession, Message, TurnPlan, Usage, merge_stream_usage, normalise_usage


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One model call that succeeded, for reports.

    Attributes:
        plan: What was decided for it.
        usage: What the provider reported; None when it reported nothing.
        messages: What was sent, the head first.
        answer: What came back; of a stream, its last chunk.
    """

    plan: TurnPlan
    usage: Usage | None
    messages: tuple[ChatMessage, ...]
    answer: ChatResponse


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a stateful model, planned.

    Attributes:
        session: Whose state it tells.
        plan: The plan.
        messages: The caller's messages.
        core: The same as planning knows them.
        sent: What goes to the inner model, the head first.
        turn: Where ledger and state are, when that is a workflow's context.
        markers: Puts cache points on what is sent; None where there are none to put.
    """

    session: AgentSession[Any]
    plan: TurnPlan
    messages: Sequence[ChatMessage]
    core: Sequence[Message]
    sent: list[ChatMessage]
    turn: ContextTurn | None = None
    markers: Markers | None = None

    @classmethod
    def of(
        cls,
        session: AgentSession[Any],
        plan: TurnPlan,
        messages: Sequence[ChatMessage],
        core: Sequence[Message],
        turn: ContextTurn | None = None,
        markers: Markers | None = None,
    ) -> PlannedCall:
        """Render a plan."""
        return cls(session, plan, messages, core, _sent(plan, messages, core, markers), turn, markers)

    def in_the_other_form(self) -> PlannedCall:
        """The same request after the endpoint refused a system turn in it."""
        plan = self.session.without_system(self.plan)
        return replace(self, plan=plan, sent=_sent(plan, self.messages, self.core, self.markers))

    def succeeded(self, answer: ChatResponse | None, usage: Usage) -> ModelCall | None:
        """Record the call in its session."""
        told = to_core([answer.message])[0] if answer is not None else None
        reported = None if usage.status == "not reported" else usage
        self.session.commit(self.plan, reported, answer=told, on_conflict="report")
        return ModelCall(self.plan, reported, tuple(self.sent), answer) if answer is not None else None

    async def asucceeded(self, answer: ChatResponse | None, usage: Usage) -> ModelCall | None:
        """Record the call in its session, and that in the workflow's context."""
        if self.turn is None:
            return self.succeeded(answer, usage)
        async with self.turn.saving():
            return self.succeeded(answer, usage)


def _sent(
    plan: TurnPlan, messages: Sequence[ChatMessage], core: Sequence[Message], markers: Markers | None
) -> list[ChatMessage]:
    rendered = render(plan, messages, core)
    return markers.on(rendered) if markers is not None else rendered


class StreamReader:
    """What a stream told so far: its last chunk, which has the whole answer, and its usage."""

    def __init__(self) -> None:
        self.last: ChatResponse | None = None
        self.usage = Usage()

    def read(self, chunk: ChatResponse) -> None:
        """A chunk passes."""
        self.last = chunk
        self.usage = merge_stream_usage([_account(chunk)], so_far=self.usage)


def closed(stream: Any) -> AbstractContextManager[Any]:
    """Around reading a stream: given up, it is closed at once. A model of one's own may return a bare iterator."""
    return closing(stream) if hasattr(stream, "close") else nullcontext()


def aclosed(stream: Any) -> AbstractAsyncContextManager[Any]:
    """The same for an asynchronous stream."""
    return aclosing(stream) if hasattr(stream, "aclose") else nullcontext()


def usage_of(answer: ChatResponse) -> Usage:
    """What an answer reports."""
    return normalise_usage(_account(answer))


def _account(answer: ChatResponse) -> object:
    """Where an answer's usage is: in what the provider sent, or in what the package made of it.

    The packages' own counts are OpenAI's words for what other providers count otherwise, mostly without the cache.
    """
    raw = cast("object", answer.raw)
    return raw if normalise_usage(raw).input is not None else answer
