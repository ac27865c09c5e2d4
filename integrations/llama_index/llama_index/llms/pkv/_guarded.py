"""A tool of the array as an agent runs it: held to what is true now, and then the application's own tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolOutput

from llama_index.llms.pkv._prefix import step_context
from llama_index.llms.pkv._specs import SpecMetadata
from pkv_agents import CallDecision, ToolCall, ToolSpec, TrackedState


class Guard(Protocol):
    """What is asked of `StateTools`."""

    def state(self) -> TrackedState:
        """The state now."""
        ...

    async def astate(self) -> TrackedState:
        """The state now."""
        ...

    def decide(self, state: TrackedState, call: ToolCall) -> CallDecision:
        """Whether a call may be made, and which."""
        ...

    def runner(self, name: str) -> AsyncBaseTool | None:
        """What runs a tool."""
        ...

    async def arunner(self, name: str) -> AsyncBaseTool | None:
        """What runs a tool."""
        ...


class GuardedTool(AsyncBaseTool):
    """A tool as the array has it.

    Args:
        guard: Decides about calls, and knows what runs them.
        spec: What is sent of it.
        return_direct: Its result is the agent's answer.
    """

    def __init__(self, guard: Guard, spec: ToolSpec, *, return_direct: bool = False) -> None:
        self.spec = spec
        self._guard = guard
        self._metadata = SpecMetadata.of(spec, return_direct=return_direct)

    @property
    def metadata(self) -> SpecMetadata:
        """What is sent of it."""
        return self._metadata

    def call(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Call the tool, if it may be called now."""
        decision = self._guard.decide(self._guard.state(), self._asked(args, kwargs))
        tool = self._guard.runner(decision.call.name) if decision.refusal is None else None
        return tool.call(**_filled(tool, decision.call)) if tool is not None else self._refused(decision)

    async def acall(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Call the tool, if it may be called now."""
        decision = self._guard.decide(await self._guard.astate(), self._asked(args, kwargs))
        tool = await self._guard.arunner(decision.call.name) if decision.refusal is None else None
        return await tool.acall(**_filled(tool, decision.call)) if tool is not None else self._refused(decision)

    def _asked(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ToolCall:
        names = cast("Mapping[str, object]", self.spec.parameters.get("properties", {}))
        return ToolCall(self.spec.name, {**dict(zip(names, args, strict=False)), **kwargs})

    def _refused(self, decision: CallDecision) -> ToolOutput:
        name, given = decision.call.name, dict(decision.call.arguments)
        text = decision.refusal or f"{name} cannot be run here at the moment; nothing was done."
        return ToolOutput(name, text, raw_input=given, raw_output=text, is_error=True)


def _filled(tool: AsyncBaseTool, call: ToolCall) -> dict[str, Any]:
    """A call's arguments, with the workflow's context where the tool takes it."""
    arguments = dict(call.arguments)
    ctx = step_context()
    if ctx is not None and isinstance(tool, FunctionTool) and tool.requires_context and tool.ctx_param_name:
        arguments[tool.ctx_param_name] = ctx
    return arguments


__all__ = ["GuardedTool"]
