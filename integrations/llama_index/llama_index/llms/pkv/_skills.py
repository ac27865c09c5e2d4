"""A registry's skills in a conversation: the state follows the registry, and a model's calls are answered."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from llama_index.core.workflow import Context

from llama_index.llms.pkv._context import ContextSession
from llama_index.llms.pkv._store import saved_in
from pkv_agents import (
    AgentSession,
    Notice,
    SessionError,
    SkillAnswer,
    SkillError,
    SkillRegistry,
    Skills,
    TrackedState,
    answer_skill_call,
)

SkillSource = SkillRegistry | Callable[[], SkillRegistry]
"""A registry, or a function that returns the one of now: skills may change while a program runs."""

_log = logging.getLogger("pkv_agents")

_locks: WeakKeyDictionary[AgentSession[Any], threading.Lock] = WeakKeyDictionary()


def check_skills(skills: object) -> None:
    """Refuse what is no source of skills.

    Raises:
        SkillError: It is none.
    """
    is_async = inspect.iscoroutinefunction(skills)
    is_function = callable(skills) and not isinstance(skills, type) and not is_async
    if skills is None or isinstance(skills, SkillRegistry) or is_function:
        return
    given = "an async one" if is_async else skills.__name__ if isinstance(skills, type) else type(skills).__name__
    raise SkillError(
        f"skills: a SkillRegistry or a function that returns one is needed, not {given}: "
        "a folder is SkillRegistry(load_skills(folder))"
    )


def registry_of(skills: SkillSource) -> SkillRegistry:
    """The registry of now.

    Raises:
        SkillError: The function returned something else.
    """
    found = skills if isinstance(skills, SkillRegistry) else skills()
    if isinstance(found, SkillRegistry):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        return found
    raise SkillError(f"skills: the function returned {type(found).__name__}, not a SkillRegistry")


def _registry_now(skills: SkillSource) -> SkillRegistry:
    """The registry of now, for a model's call.

    Raises:
        SkillError: It cannot be read; the message is for the model, and the application's error is in the log.
    """
    try:
        return registry_of(skills)
    except Exception as error:
        _log.exception("skills: the application's function failed")
        raise SkillError("The skills cannot be read at present; nothing was done.") from error


def _registry_for(skills: SkillSource, state: TrackedState, *, begins: bool) -> SkillRegistry | Notice:
    """The registry of now; what there is to say where a conversation goes on with what it has."""
    try:
        registry = registry_of(skills)
        Skills.at(state, registry.field)
    except Exception as error:  # noqa: BLE001 - the application's; raised again where nothing is known
        return Skills.kept(state, error, begins=begins)
    return registry


def refresh(session: AgentSession[Any], skills: SkillSource | None) -> tuple[Notice, ...]:
    """Bring a session's state up to the registry.

    Returns:
        What there is to say. Where the application owns the state, that it differs from the registry: what stands there
        is told, since calls are answered by it.

    Raises:
        SchemaError: The state has no `Skills` field where the registry looks for it.
    """
    if skills is None:
        return ()
    with _lock_of(session):
        registry = _registry_for(skills, session.state, begins=session.ledger is None)
        if isinstance(registry, Notice):
            return (registry,)
        patch, notices = registry.changes_for(session.state)
        if patch:
            try:
                session.update(patch)
            except SessionError as error:
                return (_left(registry, error),)
    return notices


def _left(registry: SkillRegistry, error: SessionError) -> Notice:
    return Notice(
        "skills_changed",
        path=registry.field,
        mend="apply `registry.refresh(skills)` where the state is kept",
        message=f"the registry is another than the state knows, and was not applied: {error}",
    )


async def arefresh(source: ContextSession[Any], ctx: Context[Any], skills: SkillSource | None) -> tuple[Notice, ...]:
    """Bring the state of a workflow's context up to the registry; see `refresh`."""
    if skills is None:
        return ()
    begins = not (await saved_in(ctx.store))["ledgers"]
    registry = _registry_for(skills, state := await source.get(ctx), begins=begins)
    if isinstance(registry, Notice):
        return (registry,)
    patch, notices = registry.changes_for(state)
    if patch:
        await source.update(ctx, lambda state: registry.changes_for(state)[0])
    return notices


def answered(session: AgentSession[Any], skills: SkillSource, name: str, arguments: Mapping[str, object]) -> str:
    """Answer a model's call of a skill's tool, and change the state as it says.

    Raises:
        SkillError: The call makes no sense; the message is for the model.
    """
    with _lock_of(session):
        answer = _answer(_registry_now(skills), name, arguments, session.state)
        if answer.patch:
            session.update(answer.patch)
    return _text(answer)


async def aanswered(
    source: ContextSession[Any], ctx: Context[Any], skills: SkillSource, name: str, arguments: Mapping[str, object]
) -> str:
    """The same in a workflow's context."""
    registry = _registry_now(skills)
    answer = _answer(registry, name, arguments, await source.get(ctx))
    if not answer.patch:
        return _text(answer)
    answers: list[SkillAnswer] = []

    def patch(state: TrackedState) -> Mapping[str, object]:
        # Calls of one step run side by side, and a budget is held against what the others loaded.
        answers.append(_answer(registry, name, arguments, state))
        return answers[-1].patch

    await source.update(ctx, patch)
    return _text(answers[-1])


def _answer(registry: SkillRegistry, name: str, arguments: Mapping[str, object], state: TrackedState) -> SkillAnswer:
    answer = answer_skill_call(registry, name, arguments, Skills.at(state, registry.field))
    assert answer is not None, "the tools are the skills' own"
    return answer


def _text(answer: SkillAnswer) -> str:
    if answer.is_error:
        raise SkillError(answer.text)
    return answer.text


def _lock_of(session: AgentSession[Any]) -> threading.Lock:
    """One reader and writer of a session's skills at a time: tools of one step may run in threads."""
    return _locks.setdefault(session, threading.Lock())


__all__ = ["SkillSource", "aanswered", "answered", "arefresh", "check_skills", "refresh", "registry_of"]
