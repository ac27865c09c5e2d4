"""The tools of conversations: what is sent of them, what is true of them now, and what runs them."""

from __future__ import annotations

import inspect
import logging
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
    Notice,
    ToolCall,
    ToolError,
    Tools,
    ToolSpec,
    ToolsUpdate,
    TrackedState,
    decide_call,
    start_tools,
    update_tools,
)

_log = logging.getLogger("pkv_agents")

Off = Collection[str] | Callable[[Any], Collection[str]]


class ToolBook:
    """What `StateTools` knows.

    Args:
        source: Where the session is.
        tools: Finds what there is now.
        off: The names of what must not be called, or a function of the state that returns them.
        bridge: Whether late tools are called through one of the array.
        field: The path of the `Tools` field in the state.

    Raises:
        ToolError: `off` is something else, or names what is none of the tools.
    """

    def __init__(self, source: SessionSource, tools: FoundTools, off: Off, bridge: bool, field: str) -> None:
        self.source = source
        self.tools = tools
        self.field = field
        self._off = off if callable(off) else Tools.names("off", off)
        if inspect.iscoroutinefunction(off):
            raise ToolError("off: a plain function is needed, not an async one")
        if tools.is_fixed and not callable(self._off):
            names = [spec.name for spec in tools.now().specs]
            for name in sorted(self._off.difference(names)):
                raise ToolError(f"off: there is no tool {name!r}; there are: {', '.join(sorted(names)) or 'none'}")
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
        name = decision.call.name
        if decision.refusal is not None:
            return decision
        try:
            is_off = name in self._off_in(state)
        except Exception:  # noqa: BLE001 - the application's; what it did not allow is not run
            _log.exception("off: the application's function failed")
            return replace(decision, refusal=f"{name} may not be called while that cannot be told; nothing was done.")
        refusal = f"{name} is switched off at the moment; nothing was done." if is_off else None
        return replace(decision, refusal=refusal)

    def runner(self, name: str) -> AsyncBaseTool | None:
        """What runs the tool of this name, if there is something in this process."""
        found = self._read().get(name) or self.tools.seen(name)
        if found is None and self.tools.retriever is not None:
            found = self._read(self.tools.ask(name)).get(name)
        return found

    async def arunner(self, name: str) -> AsyncBaseTool | None:
        """The same, of a retriever that is asked asynchronously."""
        found = self._read().get(name) or self.tools.seen(name)
        if found is None and self.tools.retriever is not None:
            found = self._read(await self.tools.aask(name)).get(name)
        return found

    def _read(self, retrieved: object = ()) -> Found:
        """What there is for a call: nothing is an error there, and what cannot be read cannot be run."""
        return self.tools.now(retrieved, known=Tools())

    def found(self, state: TrackedState, retrieved: object, *, begins: bool) -> Found:
        """What there is for a request.

        Args:
            state: The state.
            retrieved: What the retriever found, or what it raised.
            begins: Nothing was sent in this conversation, so what is wrong is an error.
        """
        return self.tools.now(retrieved, known=None if begins else Tools.at(state, self.field))

    def update(self, state: TrackedState, found: Found, *, begins: bool) -> ToolsUpdate:
        """What brings the tools of a state up to what there is now.

        Args:
            state: The state.
            found: What there is.
            begins: Nothing was sent in this conversation, so what is wrong is an error.

        Raises:
            ToolError: The conversation begins, and there are tools that cannot be sent.
        """
        tools, now = Tools.at(state, self.field), found.specs
        off, notices = self._off_or_known(state, tools, begins)
        if self.tools.retriever is not None:
            names = {spec.name for spec in now}
            now += [spec for spec in _all_known(tools) if not spec.server and spec.name not in names]
        first: dict[str, object] = {}
        if not tools.array and (begins or self._bridge):
            tools = start_tools(now if begins else Tools.sendable(now)[0], bridge=self._bridge)
            first = {f"{self.field}.array": [asdict(tool) for tool in tools.array]}
        update = update_tools(tools, now, profile=GENERIC, off=off, field=self.field)
        unknown = off - {spec.name for spec in (*now, *tools.array)} - tools.changed.keys()
        said = (*found.notices, *notices, *(Tools.unknown("off", name) for name in sorted(unknown)), *update.notices)
        return replace(update, patch={**first, **update.patch}, notices=said)

    def array(self, state: TrackedState, found: Found) -> list[BaseTool]:
        """What is sent, in its order."""
        return [self._guarded(spec, found) for spec in Tools.at(state, self.field).array]

    def called(self, state: TrackedState, name: str) -> list[BaseTool]:
        """The tool that was called, also one that came late: models call those by their own names, too."""
        tools = Tools.at(state, self.field)
        spec = next((tool for tool in tools.array if tool.name == name), tools.specs.get(name))
        if spec is None and name in tools.changed:
            spec = ToolSpec(name)
        return [self._guarded(spec, self._read())] if spec is not None else []

    def _guarded(self, spec: ToolSpec, found: Found) -> GuardedTool:
        tool = found.get(spec.name) or self.tools.seen(spec.name)
        returns = tool is not None and tool.metadata.return_direct
        made = self._made.get(spec.name)
        if made is None or made.spec != spec or made.metadata.return_direct != returns:
            made = self._made[spec.name] = GuardedTool(self, spec, return_direct=returns)
        return made

    def _off_in(self, state: TrackedState) -> frozenset[str]:
        return Tools.names("off", self._off(state)) if callable(self._off) else self._off

    def _off_or_known(
        self, state: TrackedState, tools: Tools, begins: bool
    ) -> tuple[frozenset[str], tuple[Notice, ...]]:
        try:
            return self._off_in(state), ()
        except Exception as error:
            if begins:
                raise
            known = frozenset(name for name in tools.changed if not tools.is_on(name))
            return known, (Tools.kept("off", error),)


def _all_known(tools: Tools) -> list[ToolSpec]:
    """Every tool that a conversation was told of, as it was told last, on or off."""
    on = {name: change.model_copy(update={"status": "on"}) for name, change in tools.changed.items()}
    return list(tools.model_copy(update={"changed": on}).specs.values())


__all__ = ["Off", "ToolBook"]
