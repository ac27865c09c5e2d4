"""A tools array that stays as it was sent, in an agent whose tools change.

What the request brings is what is true now: the agent's tools as the middleware before ours left them, and those that
`late_tools` finds. The array that is sent is the state's; the difference is told by errata, and held when a tool is
called. A late tool is called natively or through `call_tool`, and run here, since the graph does not know it.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from langchain_pkv._home import Home, Patch
from langchain_pkv._offers import LateTools, Offer, Offers
from langchain_pkv._skills import SkillDesk, as_langchain
from pkv_agents import (
    BRIDGE,
    Notice,
    Profile,
    SchemaError,
    ToolCall,
    Tools,
    TrackedState,
    decide_call,
    start_tools,
    update_tools,
)


@dataclass(frozen=True, slots=True)
class ToolNews:
    """What a change of the tools comes to.

    Attributes:
        patch: What to change in the state.
        notices: What there is to say.
        moves_array: The array is another now, so the prefix breaks at its start.
    """

    patch: Patch
    notices: tuple[Notice, ...] = ()
    moves_array: bool = False


class ToolShelf:
    """Keeps the array of each thread.

    Args:
        field: The field of the state, of type `Tools`.
        late: Finds tools that the agent was not made with; None: there are none.
        home: Where the state is.
        taken: The names of our own tools.

    Raises:
        SchemaError: The schema has no such field, or `late` is no function.
    """

    def __init__(self, field: str, late: LateTools | None, home: Home, taken: Collection[str]) -> None:
        Tools.check_at(home.schema, field)
        if late is not None and (not callable(late) or inspect.iscoroutinefunction(late)):
            given = "an async one: let it return what was fetched before" if callable(late) else type(late).__name__
            raise SchemaError(f"late_tools is a function from LangGraph's Runtime to tools, not {given}")
        self.field = field
        self._has_bridge = late is not None
        self._offers = Offers(late, {*taken, *([BRIDGE.name] if late is not None else [])})

    def tools(self) -> list[BaseTool]:
        """`call_tool`, by which late tools are called, where there can be any."""

        def call_tool(**arguments: Any) -> str:  # what it calls is run in its place
            return f"{BRIDGE.name} has nothing to call in this conversation; nothing was done."

        return [as_langchain(BRIDGE, call_tool)] if self._has_bridge else []

    def of(self, state: TrackedState) -> Tools:
        """The conversation's tools."""
        return Tools.at(state, self.field)

    def offer(self, given: Sequence[object], runtime: Any, known: Tools | None) -> Offer:
        """The tools that there are now; see `Offers.now`."""
        return self._offers.now(given, runtime, known)

    def news(self, state: TrackedState, offer: Offer, profile: Profile, *, begins: bool) -> ToolNews:
        """What brings a conversation's tools up to what there is now; for one without tools, its array.

        Args:
            state: The state.
            offer: What there is now.
            profile: What the provider allows.
            begins: Nothing was sent in this thread, so what cannot be sent is an error.

        Raises:
            ToolError: A thread that begins has tools that cannot be sent.
        """
        known, first = self.of(state), {}
        if not known.array:
            known = self._made(offer, begins)
            first = self._patch(known)
        update = update_tools(known, offer.specs, profile=profile, field=self.field)
        return ToolNews({**first, **update.patch}, (*offer.notices, *update.notices), update.moves_array)

    def anew(self, offer: Offer) -> Patch:
        """The patch that makes an array of the tools that there are now, for a prefix that begins anew."""
        return self._patch(self._made(offer, begins=False))

    def _made(self, offer: Offer, begins: bool) -> Tools:
        return start_tools(offer.specs if begins else Tools.sendable(offer.specs)[0], bridge=self._has_bridge)

    def _patch(self, tools: Tools) -> Patch:
        return {self.field: {"array": [asdict(spec) for spec in tools.array], "changed": {}}}

    def needs_anew(self, state: TrackedState, why: str | None, profile: Profile) -> bool:
        """Whether a head that begins anew should have a new array before it.

        A cold prefix costs nothing to move. And where tools change natively, the blocks that changed them stood in
        errata that are gone now: the provider knows the array alone.

        Args:
            state: What the new head says.
            why: Why it is new.
            profile: What the provider allows.
        """
        return bool(self.of(state).changed) and (why == "cache_cold" or profile.tool_changes is not None)

    def routed(self, state: TrackedState, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The call of the tool that is meant, or the answer to a call that must not be made."""
        call, runtime = request.tool_call, cast("Any", request).runtime
        name, arguments = call["name"], cast("Mapping[str, object]", call["args"])
        known = self.of(state)
        if known.array:
            decision = decide_call(known, ToolCall(name, arguments, call["id"] or ""))
            if decision.refusal is not None:
                text = f"Error: {decision.refusal}"
                return ToolMessage(text, name=name, tool_call_id=call["id"] or "", status="error")
            name, arguments = decision.call.name, decision.call.arguments
        if name == call["name"] and request.tool is not None:
            return request
        found = self.offer(getattr(runtime, "tools", ()), runtime, known).runs.get(name)
        if found is None and (name != call["name"] or name in self._offers.late_names):
            return not_now(request, name)
        if found is None:
            return request  # another middleware may run it
        return request.override(tool_call={**call, "name": name, "args": dict(arguments)}, tool=found)


def not_now(request: ToolCallRequest, name: str) -> ToolMessage:
    """The answer to a call of a tool that nothing runs in this process now."""
    text, call = f"Error: {name} cannot be run here at the moment; nothing was done.", request.tool_call
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"] or "", status="error")


def shelf_of(field: str | None, late: LateTools | None, home: Home, skills: SkillDesk | None) -> ToolShelf | None:
    """The shelf, where a field of the state is named for one.

    Raises:
        SchemaError: Late tools without such a field, or one that is not as it must be.
    """
    if not (field is None or isinstance(field, str)):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise SchemaError(
            f'tools is the name of the state\'s field of type Tools, tools="tools", not {type(field).__name__}; '
            "the agent's tools go to create_agent"
        )
    if field is None and late is not None:
        raise SchemaError('late_tools needs a field of type Tools in the state: name it, tools="tools"')
    taken = [one.name for one in skills.tools()] if skills is not None else []
    return ToolShelf(field, late, home, taken) if field is not None else None
