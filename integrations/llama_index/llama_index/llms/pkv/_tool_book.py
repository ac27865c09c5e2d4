"""The tools of conversations: what is sent of them, what is true of them now, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import Any

from llama_index.core.tools import AsyncBaseTool
from llama_index.core.tools.types import BaseTool

from llama_index.llms.pkv._found_tools import Found, FoundTools
from llama_index.llms.pkv._guarded import GuardedTool
from llama_index.llms.pkv._prefix import outside_of_a_step, step_context
from llama_index.llms.pkv._sessions import SessionSource, in_context, resolved
from pkv_agents import (
    GENERIC,
    CallDecision,
    ToolCall,
    Tools,
    ToolSpec,
    ToolsUpdate,
    TrackedState,
    decide_call,
    start_tools,
    update_tools,
)

Off = Collection[str] | Callable[[Any], Collection[str]]


class ToolBook:
    """What `StateTools` knows.

    Args:
        source: Where the session is.
        tools: Finds what there is now.
        off: The names of what must not be called, or a function of the state that returns them.
        bridge: Whether late tools are called through one of the array.
        field: The path of the `Tools` field in the state.
    """

    def __init__(self, source: SessionSource, tools: FoundTools, off: Off, bridge: bool, field: str) -> None:
        self.source = source
        self.tools = tools
        self.field = field
        self._off = off
        self._bridge = bridge
        self._made: dict[str, GuardedTool] = {}

    def state(self) -> TrackedState:
        """The state now, for a call that is made synchronously."""
        return resolved(self.source, "await tool.acall(...)").state

    async def astate(self) -> TrackedState:
        """The state now."""
        held, ctx = in_context(self.source), step_context()
        if held is None:
            return resolved(self.source).state
        if ctx is None:
            raise outside_of_a_step()
        return await held.get(ctx)

    def decide(self, state: TrackedState, call: ToolCall) -> CallDecision:
        """Hold a call to what is true now, also where that changed since the request.

        Args:
            state: The state.
            call: The call.
        """
        decision = decide_call(Tools.at(state, self.field), call)
        if decision.refusal is None and decision.call.name in self._off_in(state):
            return replace(decision, refusal=f"{decision.call.name} is switched off at the moment; nothing was done.")
        return decision

    def runner(self, name: str) -> AsyncBaseTool | None:
        """What runs the tool of this name, if there is something in this process."""
        other, found = self.tools.retriever, self.tools.now().get(name) or self.tools.seen(name)
        if found is None and other is not None:
            found = self.tools.now(other.retrieve(name)).get(name)
        return found

    async def arunner(self, name: str) -> AsyncBaseTool | None:
        """The same, of a retriever that is asked asynchronously."""
        other, found = self.tools.retriever, self.tools.now().get(name) or self.tools.seen(name)
        if found is None and other is not None:
            found = self.tools.now(await other.aretrieve(name)).get(name)
        return found

    def update(self, state: TrackedState, found: Found) -> ToolsUpdate:
        """What brings the tools of a state up to what there is now."""
        tools, off = Tools.at(state, self.field), self._off_in(state)
        now = found.specs
        if self.tools.retriever is not None:
            names = {spec.name for spec in now}
            now += [spec for spec in _all_known(tools) if spec.name not in names]
        first: dict[str, object] = {}
        if not tools.array:
            tools = start_tools(now, bridge=self._bridge)
            first = {f"{self.field}.array": [asdict(tool) for tool in tools.array]}
        update = update_tools(tools, now, profile=GENERIC, off=off, field=self.field)
        return replace(update, patch={**first, **update.patch}, notices=(*found.notices, *update.notices))

    def array(self, state: TrackedState, found: Found) -> list[BaseTool]:
        """What is sent, in its order."""
        return [self._guarded(spec, found) for spec in Tools.at(state, self.field).array]

    def called(self, state: TrackedState, name: str) -> list[BaseTool]:
        """The tool that was called, also one that came late: models call those by their own names, too."""
        tools = Tools.at(state, self.field)
        spec = next((tool for tool in tools.array if tool.name == name), tools.specs.get(name))
        if spec is None and name in tools.changed:
            spec = ToolSpec(name)
        return [self._guarded(spec, self.tools.now())] if spec is not None else []

    def _guarded(self, spec: ToolSpec, found: Found) -> GuardedTool:
        tool = found.get(spec.name) or self.tools.seen(spec.name)
        returns = tool is not None and tool.metadata.return_direct
        made = self._made.get(spec.name)
        if made is None or made.spec != spec or made.metadata.return_direct != returns:
            made = self._made[spec.name] = GuardedTool(self, spec, return_direct=returns)
        return made

    def _off_in(self, state: TrackedState) -> Collection[str]:
        return self._off(state) if callable(self._off) else self._off


def _all_known(tools: Tools) -> list[ToolSpec]:
    """Every tool that a conversation was told of, as it was told last, on or off."""
    on = {name: change.model_copy(update={"status": "on"}) for name, change in tools.changed.items()}
    return list(tools.model_copy(update={"changed": on}).specs.values())


__all__ = ["Off", "ToolBook"]
