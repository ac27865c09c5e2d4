"""A tools array that stays as it was sent, in an agent whose tools change.

What the request brings is what is true now: the agent's tools as the middleware before ours left them, and those that
`late_tools` finds. The array that is sent is the state's; the difference is told by errata, and held when a tool is
called. A late tool is called natively or through `call_tool`, and run here, since the graph does not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.runtime import Runtime

from langchain_pkv._home import Home, Patch
from langchain_pkv._skills import as_langchain
from pkv_agents import (
    BRIDGE,
    Notice,
    Profile,
    SchemaError,
    ToolCall,
    ToolError,
    Tools,
    ToolSpec,
    TrackedState,
    decide_call,
    start_tools,
    tool_from,
    update_tools,
)

Lists = Sequence[BaseTool | Callable[..., Any]]
LateTools = Callable[[Runtime[Any]], Lists | Mapping[str, Lists]]


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that there are now.

    Attributes:
        specs: What a model should know of them.
        runs: What runs them, by the names that a model knows.
        beside: The providers' own tools, which go out as they are.
        notices: Which were left out.
    """

    specs: tuple[ToolSpec, ...]
    runs: Mapping[str, BaseTool]
    beside: tuple[Mapping[str, Any], ...] = ()
    notices: tuple[Notice, ...] = ()


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

    Raises:
        SchemaError: The schema has no such field, or `late` is no function.
    """

    def __init__(self, field: str, late: LateTools | None, home: Home) -> None:
        Tools.check_at(home.schema, field)
        if late is not None and not callable(late):
            raise SchemaError(
                f"late_tools is a function from LangGraph's Runtime to tools, not a {type(late).__name__}"
            )
        self.field = field
        self._late = late

    def tools(self) -> list[BaseTool]:
        """`call_tool`, by which late tools are called, where there can be any."""

        def call_tool(**arguments: Any) -> str:  # what it calls is run in its place
            return f"{BRIDGE.name} has nothing to call in this conversation; nothing was done."

        return [as_langchain(BRIDGE, call_tool)] if self._late is not None else []

    def of(self, state: TrackedState) -> Tools:
        """The conversation's tools."""
        return Tools.at(state, self.field)

    def offer(self, given: Sequence[object], runtime: Any) -> Offer:
        """The tools that there are now.

        Args:
            given: The agent's: tools, and records of providers' own.
            runtime: LangGraph's `Runtime`, or a tool's.

        Raises:
            ToolError: A late tool has the name of another.
        """
        specs: dict[str, ToolSpec] = {}
        runs: dict[str, BaseTool] = {}
        beside: list[Mapping[str, Any]] = []
        notices: list[Notice] = []
        for one in given:
            record = cast("Mapping[str, Any]", one) if isinstance(one, Mapping) else None
            if record is not None and not _is_function(record):
                beside.append(record)
                continue
            spec = tool_from(cast("object", one))
            specs[spec.name] = spec
            if isinstance(one, BaseTool):
                runs[spec.name] = one
        for server, found in self._found(runtime):
            try:
                spec = tool_from(found)
            except ToolError as error:
                notices.append(_refused(f"{found.name}@{server}" if server else found.name, str(error)))
                continue
            if server:
                spec = replace(spec, name=f"{server}__{spec.name}", server=server, id=spec.name)
            if spec.name in specs and runs.get(spec.name) is not found:
                raise ToolError(
                    f"late_tools: two tools have the name {spec.name!r}, and providers take a name once; return a dict "
                    "of lists by their servers' names, which then stand before the tools'"
                )
            specs[spec.name], runs[spec.name] = spec, found
        return Offer(tuple(specs.values()), runs, tuple(beside), tuple(notices))

    def _found(self, runtime: Any) -> list[tuple[str, BaseTool]]:
        found = self._late(runtime) if self._late is not None else ()
        by_server = found if isinstance(found, Mapping) else {"": found}
        return [
            (server, one if isinstance(one, BaseTool) else tool(one))
            for server, listed in by_server.items()
            for one in listed
        ]

    def news(self, state: TrackedState, offer: Offer, profile: Profile) -> ToolNews:
        """What brings a conversation's tools up to what there is now; for one without tools, its array."""
        known = self.of(state)
        if not known.array:
            return ToolNews(self.anew(offer), offer.notices)
        update = update_tools(known, offer.specs, profile=profile, field=self.field)
        return ToolNews(update.patch, (*offer.notices, *update.notices), update.moves_array)

    def anew(self, offer: Offer) -> Patch:
        """The patch that makes an array of the tools that there are now, for a prefix that begins anew.

        Raises:
            ToolError: Two tools have one name.
        """
        specs = [spec for spec in offer.specs if spec.name != BRIDGE.name]
        made = start_tools(specs, bridge=self._late is not None)
        return {self.field: {"array": [asdict(spec) for spec in made.array], "changed": {}}}

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
        found = self.offer(getattr(runtime, "tools", ()), runtime).runs.get(name)
        if found is None:
            return request
        return request.override(tool_call={**call, "name": name, "args": dict(arguments)}, tool=found)


def shelf_of(field: str | None, late: LateTools | None, home: Home) -> ToolShelf | None:
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
    return ToolShelf(field, late, home) if field is not None else None


def _is_function(record: Mapping[str, Any]) -> bool:
    """Whether a record declares a tool of the application's, and not one that the provider runs."""
    return record.get("type") in (None, "function", "custom") and bool(
        "function" in record or "parameters" in record or "input_schema" in record
    )


def _refused(path: str, message: str) -> Notice:
    return Notice("tool_refused", path=path, mend="mend the schema where the tool is declared", message=message)
