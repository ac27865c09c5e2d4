"""What one call of a stateful chat model sends, and what it learns from the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig

from langchain_pkv._caching import CacheWishes, outgoing
from langchain_pkv._messages import head, place, to_core
from langchain_pkv._native import NativeTools
from langchain_pkv._profiles import model_name, model_profile
from langchain_pkv._usage import usage_of
from pkv_agents import (
    AgentSession,
    Message,
    MissingSessionKeyError,
    Tools,
    TurnPlan,
    Usage,
    merge_stream_usage,
)

SessionSource = AgentSession[Any] | Callable[[RunnableConfig], AgentSession[Any]]


def session_for(source: SessionSource, config: RunnableConfig) -> AgentSession[Any]:
    """The session of a run.

    Raises:
        MissingSessionKeyError: The resolver found none.
    """
    if isinstance(source, AgentSession):
        return cast("AgentSession[Any]", source)
    try:
        session = source(config)
    except MissingSessionKeyError:
        raise
    except KeyError as error:
        raise MissingSessionKeyError(
            f"no session for this run: the resolver found no {error}; make that session, or pass the config that "
            "names another"
        ) from error
    if not isinstance(session, AgentSession):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise MissingSessionKeyError(
            f"no session for this run: the resolver returned {type(session).__name__}, not an AgentSession"
        )
    return session


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a stateful chat model, planned.

    Attributes:
        session: Whose state it tells.
        model: The model that is called.
        plan: The plan.
        messages: The caller's messages.
        asked: The caller's keyword arguments.
        wishes: What the application wants of the provider's cache.
        tools: The state's field of tools, or None.
        sent: What goes to the inner model, the head first.
        options: The keyword arguments that go with it.
    """

    session: AgentSession[Any]
    model: BaseChatModel
    plan: TurnPlan
    messages: Sequence[BaseMessage]
    asked: Mapping[str, Any]
    wishes: CacheWishes
    tools: str | None
    sent: list[BaseMessage]
    options: dict[str, Any]

    @classmethod
    def made(
        cls,
        session: AgentSession[Any],
        model: BaseChatModel,
        messages: Sequence[BaseMessage],
        asked: Mapping[str, Any],
        wishes: CacheWishes,
        *,
        tools: str | None = None,
        plan: TurnPlan | None = None,
    ) -> PlannedCall:
        """Render a call, planned when there is no plan yet."""
        core = to_core(messages)
        if plan is None:
            profile, notices = model_profile(model) if session.own_profile is None else (None, ())
            plan = session.plan(core, profile=profile, model=model_name(model), notices=notices)
        own = cast("list[SystemMessage]", messages[: plan.leading])
        native = NativeTools(Tools.at(session.state, tools), tools) if tools is not None else None
        beside = native.blocks(plan) if native is not None else {}
        planned = [head(plan, own, session.instructions), *place(plan, messages, core, beside)]
        options = native.bound(asked, plan.profile, model) if native is not None else asked
        left = outgoing(planned, options, model, plan, wishes)
        for notice in left.notices:
            session.tell(notice, plan)
        return cls(session, model, plan, messages, asked, wishes, tools, left.messages, left.options)

    def in_the_other_form(self) -> PlannedCall:
        """The same request after the endpoint refused a system turn in it."""
        plan = self.session.without_system(self.plan)
        return self.made(self.session, self.model, self.messages, self.asked, self.wishes, tools=self.tools, plan=plan)

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
