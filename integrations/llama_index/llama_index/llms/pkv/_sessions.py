"""Which session a call belongs to, and the plan of the call in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.llm import LLM, ToolSelection

from llama_index.llms.pkv._call_order import in_call_order, note_calls
from llama_index.llms.pkv._calls import PlannedCall
from llama_index.llms.pkv._context import ContextSession
from llama_index.llms.pkv._markers import Markers
from llama_index.llms.pkv._messages import to_core
from llama_index.llms.pkv._prefix import outside_of_a_step, step_context, tools_notice, workflow_notices
from llama_index.llms.pkv._profiles import model_name, model_profile
from llama_index.llms.pkv._skills import SkillSource, arefresh, refresh
from llama_index.llms.pkv._store import ContextTurn
from llama_index.llms.pkv._waiting import take
from pkv_agents import AgentSession, MissingSessionKeyError, Notice, SessionError, Ttl

SessionSource = AgentSession[Any] | ContextSession[Any] | Callable[[], AgentSession[Any]]


def in_context(source: SessionSource) -> ContextSession[Any] | None:
    """The source, where it keeps its sessions in workflows' contexts."""
    return cast("ContextSession[Any]", source) if isinstance(source, ContextSession) else None


def check_source(session: object) -> None:
    """Refuse what is no source of sessions.

    Raises:
        SessionError: It is none.
    """
    if isinstance(session, type) or not (isinstance(session, AgentSession | ContextSession) or callable(session)):
        given = session.__name__ if isinstance(session, type) else type(session).__name__
        raise SessionError(
            f"session: an AgentSession, a ContextSession or a function that returns an AgentSession, not {given}"
        )


def open_call(
    llm: LLM,
    source: SessionSource,
    messages: Sequence[ChatMessage],
    ttl: Ttl | None,
    tools: object,
    skills: SkillSource | None,
) -> PlannedCall:
    """Plan a call that is made synchronously.

    Args:
        llm: The model that is called.
        source: Where the session is.
        messages: The caller's messages.
        ttl: How long marked prefixes should live; None marks nothing.
        tools: The call's tools, as the package sends them.
        skills: The skills that there are.

    Raises:
        SessionError: The session is in a workflow's context, which is read asynchronously.
        MissingSessionKeyError: There is no session for this call.
    """
    session = resolved(source, "call achat, astream_chat or another a... method")
    notices = [*model_profile(llm)[1], *_before(llm, session, messages, tools, skills)]
    return _planned(llm, session, messages, notices, ttl)


async def aopen_call(
    llm: LLM,
    source: SessionSource,
    messages: Sequence[ChatMessage],
    ttl: Ttl | None,
    tools: object,
    skills: SkillSource | None,
) -> PlannedCall:
    """Plan a call that is made asynchronously, in a workflow step perhaps.

    Args:
        llm: The model that is called.
        source: Where the session is.
        messages: The caller's messages.
        ttl: How long marked prefixes should live; None marks nothing.
        tools: The call's tools, as the package sends them.
        skills: The skills that there are.

    Raises:
        MissingSessionKeyError: There is no session for this call.
    """
    ctx = step_context()
    notices = [*model_profile(llm)[1], *(await workflow_notices(ctx, messages) if ctx is not None else ())]
    held = in_context(source)
    if held is None:
        session = resolved(source)
        return _planned(llm, session, messages, [*notices, *_before(llm, session, messages, tools, skills)], ttl)
    if ctx is None:
        raise outside_of_a_step()
    changed = await arefresh(held, ctx, skills)
    turn = await held.open(ctx)
    moved = tools_notice(held, f"{turn.id}/{turn.agent}", model_name(llm), messages, tools)
    notices += changed if turn.session.ledger is not None else []
    notices += _of_tools(ctx.store, turn.session, moved)
    return _planned(llm, turn.session, messages, held.untold(turn, notices), ttl, turn)


def note_order(source: SessionSource, calls: Sequence[ToolSelection]) -> None:
    """Remember in which order a model called tools, for what they change in the running workflow's context."""
    ctx = step_context() if isinstance(source, ContextSession) else None
    if ctx is not None:
        note_calls(ctx.store, [call.tool_id for call in calls])


def _before(
    llm: LLM, session: AgentSession[Any], messages: Sequence[ChatMessage], tools: object, skills: SkillSource | None
) -> list[Notice]:
    """Bring the state up to what there is now; what there is to say about that and about the tools."""
    changed = refresh(session, skills)
    moved = tools_notice(session, "", model_name(llm), messages, tools)
    return [*(changed if session.ledger is not None else ()), *_of_tools(session, session, moved)]


def _of_tools(owner: Any, session: AgentSession[Any], moved: Notice | None) -> list[Notice]:
    waiting = take(owner)
    if waiting.moves_array:  # the prefix is broken at its start, and the notices name the tool that did it
        session.rebase("tools changed")
        moved = None
    return [*waiting.notices, *([moved] if moved is not None else ())]


def _planned(
    llm: LLM,
    session: AgentSession[Any],
    messages: Sequence[ChatMessage],
    notices: Sequence[Notice],
    ttl: Ttl | None,
    turn: ContextTurn | None = None,
) -> PlannedCall:
    name = model_name(llm)
    messages, core = in_call_order(messages, to_core(messages))
    profile = session.own_profile
    if profile is not None:
        said = [notice for notice in notices if notice.code != "unknown_model"]
        plan = session.plan(core, model=name, notices=said)
    else:
        profile = model_profile(llm)[0]
        plan = session.plan(core, profile=profile, model=name, notices=notices)
    return PlannedCall.of(session, plan, messages, core, turn, Markers.of(llm, profile, ttl))


def resolved(source: SessionSource, instead: str = "await it") -> AgentSession[Any]:
    """The session of this call.

    Args:
        source: Where it is found; not in a workflow's context.
        instead: What to do where it is in one.

    Raises:
        MissingSessionKeyError: There is none.
        SessionError: It is in a workflow's context.
    """
    if isinstance(source, ContextSession):
        raise SessionError(
            f"a ContextSession is read asynchronously: {instead} inside a workflow step, or give StatefulLLM an "
            "AgentSession"
        )
    if isinstance(source, AgentSession):
        return cast("AgentSession[Any]", source)
    try:
        session = cast("Callable[[], object]", source)()
    except MissingSessionKeyError:
        raise
    except KeyError as error:
        raise MissingSessionKeyError(
            f"no session for this call: the resolver found no {error}; make that session first"
        ) from error
    if not isinstance(session, AgentSession):
        raise MissingSessionKeyError(
            f"no session for this call: the resolver returned {type(session).__name__}, not an AgentSession"
        )
    return cast("AgentSession[Any]", session)
