"""`StateTools`: a tool retriever that sends the same tools always, while tools come, go, change and are switched off.

llm = StatefulLLM(OpenAI(model="gpt-5"), session, skills=registry)
agent = FunctionAgent(llm=llm, tool_retriever=StateTools(llm, [refund, cancel]))

The tools stand before everything else in a prompt, and a retriever that finds others for each question breaks the
cached prefix with each question. Here they are frozen when the conversation begins; what is true now is a field of the
state (`Tools`), told by updates like any other, and held when a tool is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import Any, cast

from llama_index.core.objects import ObjectRetriever
from llama_index.core.schema import QueryType
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.tools.types import BaseTool

from llama_index.llms.pkv._call_order import running_tool
from llama_index.llms.pkv._found_tools import Found, FoundTools, Servers, ToolSource
from llama_index.llms.pkv._guarded import GuardedTool
from llama_index.llms.pkv._prefix import outside_of_a_step, step_context
from llama_index.llms.pkv._sessions import in_context, resolved
from llama_index.llms.pkv._shared import claim_field
from llama_index.llms.pkv._waiting import leave
from llama_index.llms.pkv.skills import skill_tools
from llama_index.llms.pkv.stateful import StatefulLLM
from pkv_agents import (
    GENERIC,
    AgentSession,
    CallDecision,
    SessionError,
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


class StateTools(ObjectRetriever[BaseTool]):
    """A conversation's tools as state, for `tool_retriever=` of an agent.

    The state declares `tools: Tools = Tools()`.

    Args:
        llm: The agent's model. Where it has `skills=`, the tools that load them are among the tools.
        tools: The application's own tools: tools or functions; a function that returns those of now; or another
            retriever, whatever it finds once stays.
        servers: Tools of others (MCP servers), by the name of the server. They are called `server__name`, and what
            they say of themselves is told as others' words.
        off: The names of tools that must not be called now, or a function of the state that returns them.
        bridge: Put a constant tool into the array that calls tools which came late. Without it a late tool goes into
            the array, which breaks the prefix and is reported.
        field: The path of the `Tools` field; each agent of an `AgentWorkflow` needs one of its own.

    Raises:
        SessionError: `llm` is no StatefulLLM, or the application owns the state.
        ToolError: There is something else among the tools.
    """

    keeps_the_array = True
    """Of a retriever that says so there is no notice that its tools may change."""

    def __init__(
        self,
        llm: StatefulLLM,
        tools: ToolSource = (),
        *,
        servers: Servers | None = None,
        off: Off = (),
        bridge: bool = True,
        field: str = "tools",
    ) -> None:
        if not isinstance(llm, StatefulLLM):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise SessionError(f"llm: a StatefulLLM is needed, not a {type(llm).__name__}")
        if (held := in_context(llm.session)) is not None:
            held.check_ours()
        super().__init__(cast("Any", None), cast("Any", None))
        extra = skill_tools(llm) if llm.skills is not None else ()
        self._llm = llm
        self._all = FoundTools(tools, servers or {}, extra)
        self._off = off
        self._bridge = bridge
        self._field = field
        self._made: dict[str, GuardedTool] = {}

    def retrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The tools of a call that is made synchronously; the same ones always.

        Args:
            str_or_query_bundle: What is asked, for another retriever.
        """
        session = resolved(self._llm.session, "await aretrieve(...)")
        other = self._all.retriever
        found = self._all.now(other.retrieve(str_or_query_bundle) if other is not None else ())
        return self._brought(session, found)

    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The tools of a call; the same ones always.

        Where an agent looks for the tool that was called, it is that tool alone.

        Args:
            str_or_query_bundle: What is asked, for another retriever.
        """
        if (name := running_tool()) and str_or_query_bundle == name:
            return self._called(await self.astate(), name)
        other = self._all.retriever
        found = self._all.now(await other.aretrieve(str_or_query_bundle) if other is not None else ())
        held, ctx = in_context(self._llm.session), step_context()
        agent = str(await ctx.store.get("current_agent_name", default="") or "") if ctx is not None else ""
        if held is None:
            session = resolved(self._llm.session)
            claim_field(session, self._field, agent, self)
            return self._brought(session, found)
        if ctx is None:
            raise outside_of_a_step()
        claim_field(ctx.store, self._field, agent, self)
        state = await held.get(ctx)
        update = self._update(state, found)
        if update.patch:
            state = await held.update(ctx, lambda now: self._update(now, found).patch)
        leave(ctx.store, update)
        return self._array(state, found)

    def state(self) -> TrackedState:
        """The state now, for a call that is made synchronously."""
        return resolved(self._llm.session, "await tool.acall(...)").state

    async def astate(self) -> TrackedState:
        """The state now."""
        held, ctx = in_context(self._llm.session), step_context()
        if held is None:
            return resolved(self._llm.session).state
        if ctx is None:
            raise outside_of_a_step()
        return await held.get(ctx)

    def decide(self, state: TrackedState, call: ToolCall) -> CallDecision:
        """Hold a call to what is true now, also where that changed since the request.

        Args:
            state: The state.
            call: The call.
        """
        decision = decide_call(Tools.of(state, self._field), call)
        if decision.refusal is None and decision.call.name in self._off_in(state):
            return replace(decision, refusal=f"{decision.call.name} is switched off at the moment; nothing was done.")
        return decision

    def runner(self, name: str) -> AsyncBaseTool | None:
        """What runs the tool of this name, if there is something in this process."""
        other, found = self._all.retriever, self._all.now().get(name) or self._all.seen(name)
        if found is None and other is not None:
            found = self._all.now(other.retrieve(name)).get(name)
        return found

    async def arunner(self, name: str) -> AsyncBaseTool | None:
        """The same, of a retriever that is asked asynchronously."""
        other, found = self._all.retriever, self._all.now().get(name) or self._all.seen(name)
        if found is None and other is not None:
            found = self._all.now(await other.aretrieve(name)).get(name)
        return found

    def _brought(self, session: AgentSession[Any], found: Found) -> list[BaseTool]:
        update = self._update(session.state, found)
        if update.patch:
            session.update(update.patch)
        leave(session, update)
        return self._array(session.state, found)

    def _update(self, state: TrackedState, found: Found) -> ToolsUpdate:
        """What brings the tools of a state up to what there is now."""
        tools, off = Tools.of(state, self._field), self._off_in(state)
        now = found.specs
        if self._all.retriever is not None:
            names = {spec.name for spec in now}
            now += [spec for spec in _all_known(tools) if spec.name not in names]
        first: dict[str, object] = {}
        if not tools.array:
            tools = start_tools(now, bridge=self._bridge)
            first = {f"{self._field}.array": [asdict(tool) for tool in tools.array]}
        update = update_tools(tools, now, profile=GENERIC, off=off, field=self._field)
        return replace(update, patch={**first, **update.patch}, notices=(*found.notices, *update.notices))

    def _array(self, state: TrackedState, found: Found) -> list[BaseTool]:
        return [self._guarded(spec, found) for spec in Tools.of(state, self._field).array]

    def _called(self, state: TrackedState, name: str) -> list[BaseTool]:
        """The tool that was called, also one that came late: models call those by their own names, too."""
        tools = Tools.of(state, self._field)
        spec = next((tool for tool in tools.array if tool.name == name), tools.specs.get(name))
        if spec is None and name in tools.changed:
            spec = ToolSpec(name)
        return [self._guarded(spec, self._all.now())] if spec is not None else []

    def _guarded(self, spec: ToolSpec, found: Found) -> GuardedTool:
        tool = found.get(spec.name) or self._all.seen(spec.name)
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


__all__ = ["StateTools"]
