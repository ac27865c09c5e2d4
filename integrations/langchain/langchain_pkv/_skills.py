"""A registry of skills in an agent: the tools by which its model asks, and a thread that is kept up to the registry."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.runtime import Runtime
from langgraph.types import Command

from langchain_pkv._home import Home, Patch
from langchain_pkv._ledger import STATE_CHANNEL
from pkv_agents import (
    BRIDGE,
    LOAD_SKILL,
    READ_SKILL_FILE,
    Notice,
    SchemaError,
    SkillRegistry,
    Skills,
    ToolCall,
    Tools,
    ToolSpec,
    TrackedState,
    answer_skill_call,
    apply_patch,
    decide_call,
)

_LOADING = Tools(array=(BRIDGE, LOAD_SKILL))

_log = logging.getLogger("pkv_agents")

SkillSource = SkillRegistry | Callable[[Runtime[Any]], SkillRegistry]


class SkillDesk:
    """Answers a model's calls for skills, and keeps threads up to the registry.

    Args:
        source: The registry, or a function from LangGraph's `Runtime` to it.
        home: Where the state is.

    Raises:
        SchemaError: The schema has no field for the skills.
        SkillError: The pinned skills are more than the budget.
    """

    def __init__(self, source: SkillSource, home: Home) -> None:
        is_async = inspect.iscoroutinefunction(source)
        if is_async or not (isinstance(source, SkillRegistry) or callable(source)):
            raise SchemaError(
                "skills takes a SkillRegistry, or a function from LangGraph's Runtime to one, "
                f"not {'an async one' if is_async else type(source).__name__}: "
                "a folder is SkillRegistry(load_skills(folder))"
            )
        if isinstance(source, SkillRegistry):
            Skills.check_at(home.schema, source.field)
            source.start()
        self._source = source
        self._home = home
        self._one_at_a_time = threading.Lock()

    def registry(self, runtime: Any) -> SkillRegistry:
        """The skills that there are for a run."""
        found = self._source if isinstance(self._source, SkillRegistry) else self._source(runtime)
        if not isinstance(found, SkillRegistry):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise SchemaError(
                f"skills: expected a SkillRegistry, not {type(found).__name__}; "
                "let the function return SkillRegistry(load_skills(folder))"
            )
        return found

    def news(self, state: TrackedState, runtime: Any, *, begins: bool) -> tuple[Patch, tuple[Notice, ...]]:
        """What brings a thread up to the registry; for a thread without skills, what it begins with.

        Where the application's function fails, a thread that is under way or has skills keeps them, and that is said.

        Args:
            state: The state.
            runtime: LangGraph's `Runtime`.
            begins: Nothing was sent in this thread.
        """
        try:
            registry = self.registry(runtime)
            if begins and Skills.at(state, registry.field) == Skills():
                registry.start()  # holds the pinned ones to the budget
            return registry.changes_for(state)
        except Exception as error:  # noqa: BLE001 - the application's; raised again where nothing is known
            return {}, (Skills.kept(state, error, begins=begins),)

    def tools(self) -> list[BaseTool]:
        """`load_skill` and `read_skill_file`, the same for every registry."""

        def load_skill(runtime: ToolRuntime[Any, Any], **arguments: Any) -> Any:
            return self._answer(LOAD_SKILL, arguments, runtime)

        def read_skill_file(runtime: ToolRuntime[Any, Any], **arguments: Any) -> Any:
            return self._answer(READ_SKILL_FILE, arguments, runtime)

        return [as_langchain(LOAD_SKILL, load_skill), as_langchain(READ_SKILL_FILE, read_skill_file)]

    def _answer(
        self, spec: ToolSpec, arguments: Mapping[str, object], runtime: ToolRuntime[Any, Any]
    ) -> ToolMessage | Command[Any]:
        values = cast("Mapping[str, Any]", runtime.state)
        try:
            registry = self.registry(runtime)
        except Exception:  # noqa: BLE001 - the application's; the model goes on without it
            _log.exception("skills: the application's function failed")
            return _message(spec, runtime, "The skills cannot be read at present; nothing was done.", is_error=True)
        with self._one_at_a_time:  # tools of one step run in threads, and the application's state may be one object
            state = self._home.read(values, runtime)
            known = _behind(registry, state, _calls_before(values, runtime.tool_call_id))
            skills = Skills.at(known, registry.field)
            answer = answer_skill_call(registry, spec.name, arguments, skills)
            assert answer is not None, "a skill's tool that the core does not know"
            if answer.patch and not self._home.is_graph:
                self._home.changed(state, answer.patch, runtime)
        message = _message(spec, runtime, answer.text, is_error=answer.is_error)
        if not answer.patch or not self._home.is_graph:
            return message
        return Command(update={STATE_CHANNEL: dict(answer.patch), "messages": [message]})


def _message(spec: ToolSpec, runtime: ToolRuntime[Any, Any], text: str, *, is_error: bool) -> ToolMessage:
    status = "error" if is_error else "success"
    return ToolMessage(text, name=spec.name, tool_call_id=runtime.tool_call_id or "", status=status)


def as_langchain(spec: ToolSpec, function: Callable[..., Any]) -> BaseTool:
    """A tool of ours as LangChain's: what a model reads of it is the spec."""
    return StructuredTool.from_function(
        function, name=spec.name, description=spec.description, args_schema=dict(spec.parameters)
    )


def _calls_before(values: Mapping[str, Any], call_id: str | None) -> list[Mapping[str, Any]]:
    """The calls of the same step that stand before one: they count first, in whatever order the tools finish."""
    messages = cast("Sequence[object]", values.get("messages", ()))
    latest = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    calls = cast("list[Mapping[str, Any]]", latest.tool_calls if latest is not None else [])
    at = next((index for index, call in enumerate(calls) if call_id and call["id"] == call_id), 0)
    return calls[:at]


def _behind(registry: SkillRegistry, state: TrackedState, calls: Sequence[Mapping[str, Any]]) -> TrackedState:
    """The state when those calls are answered."""
    for call in calls:
        asked = decide_call(_LOADING, ToolCall(call["name"], call["args"])).call  # what a call of the bridge means
        if asked.name == LOAD_SKILL.name:
            answer = answer_skill_call(registry, asked.name, asked.arguments, Skills.at(state, registry.field))
            state = apply_patch(state, answer.patch) if answer is not None and answer.patch else state
    return state
