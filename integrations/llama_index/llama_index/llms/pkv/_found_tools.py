"""The tools that there are at one moment: from a list, a function, servers, another retriever."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from weakref import WeakKeyDictionary

from llama_index.core.objects import ObjectRetriever
from llama_index.core.tools import AsyncBaseTool, FunctionTool
from llama_index.core.tools.types import BaseTool, adapt_to_async_tool

from pkv_agents import Notice, ToolError, ToolSpec, tool_from

# What LlamaIndex's packages would write in another way on the wire than the agent looks for in the answer.
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

Tool = BaseTool | Callable[..., Any]
Several = Sequence[Tool] | Callable[[], Sequence[Tool]]
ToolSource = Several | ObjectRetriever[Any]
Servers = Mapping[str, Several]


@dataclass(frozen=True, slots=True)
class Found:
    """The tools of one moment.

    Attributes:
        tools: Each, with what a model sees of it.
        notices: What of a server's was left out.
    """

    tools: tuple[tuple[ToolSpec, BaseTool], ...]
    notices: tuple[Notice, ...] = ()

    @property
    def specs(self) -> list[ToolSpec]:
        """What a model sees."""
        return [spec for spec, _ in self.tools]

    def get(self, name: str) -> AsyncBaseTool | None:
        """What runs a tool."""
        found = next((tool for spec, tool in self.tools if spec.name == name), None)
        return adapt_to_async_tool(found) if found is not None else None


class FoundTools:
    """Finds tools.

    Args:
        source: The application's own tools.
        servers: Tools of others, by the name of their server.
        extra: Tools of ours.

    Raises:
        ToolError: There is something else among them.
    """

    def __init__(self, source: ToolSource, servers: Servers, extra: Sequence[BaseTool]) -> None:
        given = cast("Any", source)
        self.retriever: ObjectRetriever[Any] | None = given if isinstance(source, ObjectRetriever) else None
        self._own: Several = () if isinstance(source, ObjectRetriever) else _kept(source)
        self._servers = {server: _kept(tools) for server, tools in servers.items()}
        self._extra = extra
        self._seen: dict[str, BaseTool] = {}
        self._specs: WeakKeyDictionary[BaseTool, tuple[object, ToolSpec]] = WeakKeyDictionary()

    def now(self, retrieved: Iterable[BaseTool] = ()) -> Found:
        """All that there are now.

        Args:
            retrieved: What the retriever found for this conversation.

        Raises:
            ToolError: A tool of the application's own is none that could be sent.
        """
        found = [(self._spec(tool), tool) for tool in (*self._extra, *_tools(self._own), *retrieved)]
        notices: list[Notice] = []
        for server, several in self._servers.items():
            for tool in _tools(several):
                try:
                    found.append((self._spec(tool, server), tool))
                except ToolError as error:
                    notices.append(_refused(tool, server, error))
        if self.retriever is not None:
            self._seen |= {spec.name: tool for spec, tool in found}
        return Found(tuple(found), tuple(notices))

    def seen(self, name: str) -> AsyncBaseTool | None:
        """What runs a tool that the retriever found before, in whatever conversation."""
        found = self._seen.get(name)
        return adapt_to_async_tool(found) if found is not None else None

    def _spec(self, tool: BaseTool, server: str = "") -> ToolSpec:
        metadata = tool.metadata
        as_it_is = (metadata.name, metadata.description, metadata.fn_schema, server)
        known = self._specs.get(tool)
        if known is None or known[0] != as_it_is:
            spec = tool_from(tool)
            if server:  # always, so that what another server declares later renames nothing
                name = _NOT_IN_NAMES.sub("_", f"{server}__{spec.name}")
                spec = replace(spec, name=name, server=server, id=spec.name)
            known = self._specs[tool] = (as_it_is, spec)
        return known[1]


def _kept(source: Several) -> Several:
    return source if callable(source) else tuple(_tools(source))


def _tools(source: Several) -> Iterable[BaseTool]:
    for tool in source() if callable(source) else source:
        if isinstance(tool, BaseTool):
            yield tool
        elif callable(tool):
            yield FunctionTool.from_defaults(tool)
        else:
            raise ToolError(f"a tool is a {type(cast('object', tool)).__name__}; pass a LlamaIndex tool or a function")


def _refused(tool: BaseTool, server: str, error: ToolError) -> Notice:
    return Notice(
        "tool_refused",
        path=f"{tool.metadata.name}@{server}",
        mend="mend the schema where the server declares it",
        message=f"the tool is left out: {error}",
    )


__all__ = ["Found", "FoundTools", "Servers", "ToolSource"]
