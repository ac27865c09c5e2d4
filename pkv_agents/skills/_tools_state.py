"""Tools as state: the array that is sent never moves, and what is true of it now is told like any other field.

tools.changed[cancel_order].status: "off"
tools.changed[refund].description: "Refunds an order, at most 50 euros."
tools.changed[track_parcel].tool.parameters: {...}       a tool that came late
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from ..errors import PkvError, ToolError
from ..markers import Hidden, Untrusted
from ..notices import Notice
from ..tools import ToolSpec
from ._fields import StateField
from ._sendable import refused_notice, sendable_tools
from ._state import SkillText, text_of

Status = Literal["on", "off"]

BRIDGE = ToolSpec(
    name="call_tool",
    description=(
        "Calls a tool that came after this list was made: one that the current state shows with call_with call_tool. "
        "`name` is its name, `arguments` are its arguments."
    ),
    parameters={
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    },
)
"""A tool that calls others. It stands in the array from the start, so that a late tool need not."""


def is_bridge(tool: ToolSpec) -> bool:
    """Whether a tool is the one that calls others, in whatever words; an application's own may have its name."""
    return tool.name == BRIDGE.name and not tool.server and tool.parameters == BRIDGE.parameters


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ToolSwitch(_Entry):
    """A tool of the array that is, or was, off; in all else it is what the array says."""

    status: Status


class ToolNote(_Entry):
    """A tool of the array whose description is another now."""

    status: Status
    description: SkillText


class ToolForm(_Entry):
    """A tool that is not in the array, or is there with another schema; `call_with` says by which name it is called."""

    status: Status
    call_with: str
    tool: ToolSpec


class OutsideForm(_Entry):
    """The same of a tool that a server declares: what it says was written by others."""

    status: Status
    call_with: str
    outside: Annotated[ToolSpec, Untrusted()]


ToolChange = ToolSwitch | ToolNote | ToolForm | OutsideForm


class Tools(StateField):
    """The tools of one conversation; declare it as a field of the state.

    Attributes:
        changed: What is true of tools that are not, or no longer, what the array says.
        array: The tools as they go out, in their order; never told, because the request holds them.
    """

    changed: dict[str, ToolChange] = Field(default_factory=dict[str, ToolChange])
    array: Annotated[tuple[ToolSpec, ...], Hidden()] = ()

    @staticmethod
    def sendable(tools: Iterable[ToolSpec]) -> tuple[tuple[ToolSpec, ...], tuple[Notice, ...]]:
        """Those of the tools that can be sent, for `start_tools` where a conversation is under way already.

        Args:
            tools: The tools; of several that share a name it is the first.

        Returns:
            The tools, and a notice `tool_refused` for each that has no name of its own that providers take, or no
            schema.

        Raises:
            ToolError: There is something else among them.
        """
        return sendable_tools(tools)

    @staticmethod
    def listed(source: str, found: object, what: str = "tools") -> list[object]:
        """What an application gave as tools, if it is a list of something.

        Args:
            source: What it was given as, for the error.
            found: What it gave, or what its function returned.
            what: What should be in the list.

        Raises:
            ToolError: It is no list.
        """
        if inspect.iscoroutine(found):
            found.close()  # nobody will await it
            raise ToolError(f"{source}: a plain function is needed, not an async one; let it return what was fetched")
        if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
            raise ToolError(f"{source}: a list of {what} is needed, not a {type(cast('object', found)).__name__}")
        return list(cast("Iterable[object]", found))

    @staticmethod
    def names(source: str, found: object) -> frozenset[str]:
        """What an application gave as names of tools, if it is a list of text: text alone would be its letters.

        Args:
            source: What it was given as, for the error.
            found: What it gave.

        Raises:
            ToolError: It is something else.
        """
        listed = Tools.listed(source, found, "tools' names")
        for one in listed:
            if not isinstance(one, str):
                raise ToolError(f"{source}: a list of tools' names is needed, and it has a {type(one).__name__}")
        return frozenset(cast("list[str]", listed))

    @staticmethod
    def refused(path: str, error: Exception, *, begins: bool = False) -> Notice:
        """What there is to say of a tool that an adapter cannot read: it is left out.

        Args:
            path: Which tool, or where it was given.
            error: What reading it raised.
            begins: The conversation begins, so it is an error.

        Raises:
            ToolError: The conversation begins.
        """
        why = str(error) if isinstance(error, ToolError) else f"its schema cannot be read ({type(error).__name__})"
        if begins:
            raise ToolError(f"{path}: {why}") from error
        return refused_notice(path, why)

    @staticmethod
    def unknown(source: str, name: str) -> Notice:
        """What there is to say of a name that turns a tool on or off, and is no tool's.

        Args:
            source: What the name was given in.
            name: The name.
        """
        return Notice(
            "tool_unknown",
            path=f"{source}[{ascii(name[:80])[1:-1]}]",
            mend="write it as the tool is called, a server's `server__name`; one that comes later is right as it is",
            message="no tool has this name, so nothing is turned on or off by it",
        )

    @staticmethod
    def kept(source: str, error: Exception) -> Notice:
        """What there is to say where an application's function fails: a conversation keeps what it knows of its tools.

        Args:
            source: What the function was given as.
            error: What it raised, or what is wrong with what it returned.
        """
        why = str(error) if isinstance(error, PkvError) else type(error).__name__
        return Notice(
            "tools_unreadable",
            path=source,
            mend="let the function return a list, and what it knows where it cannot ask",
            message=f"the application's function failed ({why}), so what is known of its tools stays as it is",
        )

    @classmethod
    def carried(
        cls, schema: type[BaseModel], before: Mapping[str, object], now: Mapping[str, object]
    ) -> Mapping[str, object]:
        """A state that replaces another, with the conversation's tools where it leaves them empty.

        The array is what was sent, which a fresh state of the application's does not know: without it another array
        would go out, in a prefix that it breaks at its start.

        Args:
            schema: The class of both states.
            before: The state that is replaced, as plain data by the names of fields.
            now: The one that replaces it; not changed.
        """
        kept = dict(now)
        for name, info in schema.model_fields.items():
            old, new, kind = before.get(name), now.get(name), info.annotation
            if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
                continue
            was, fresh = cast("Mapping[str, object]", old), cast("Mapping[str, object]", new)
            if kind is cls:
                kept[name] = fresh if fresh.get("array") or fresh.get("changed") else was
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                kept[name] = cls.carried(kind, was, fresh)
        return kept

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """Every tool that can be called now, as it is now, by the name that a model knows it by."""
        known = {tool.name: tool for tool in self.array if not is_bridge(tool)}
        for name, change in self.changed.items():
            if isinstance(change, ToolNote) and name in known:
                known[name] = replace(known[name], description=text_of(change.description))
            elif (own := form_of(change)) is not None:
                known[name] = own
        return {name: tool for name, tool in known.items() if self.is_on(name)}

    @property
    def has_bridge(self) -> bool:
        """Whether the array holds the tool that calls late ones."""
        return any(map(is_bridge, self.array))

    def is_on(self, name: str) -> bool:
        """Whether a tool may be called."""
        change = self.changed.get(name)
        return change is None or change.status == "on"


def form_of(change: ToolChange) -> ToolSpec | None:
    """The spec that a change brings along, if it brings one."""
    if isinstance(change, ToolForm):
        return change.tool
    return change.outside if isinstance(change, OutsideForm) else None


def form(status: Status, call_with: str, tool: ToolSpec) -> ToolForm | OutsideForm:
    """The entry of a tool with a spec of its own; a server's is marked as written by others."""
    if tool.server:
        return OutsideForm(status=status, call_with=call_with, outside=tool)
    return ToolForm(status=status, call_with=call_with, tool=tool)


__all__ = ["BRIDGE", "Tools"]
