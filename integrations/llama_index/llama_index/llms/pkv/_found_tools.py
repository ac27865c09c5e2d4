"""The tools that there are at one moment: from a list, a function, servers, another retriever.

What is wrong with them when a conversation begins is an error. In one that is under way what cannot be read stays as it
is known, what cannot be sent is left out, and both are notices.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakKeyDictionary

from llama_index.core.objects import ObjectRetriever
from llama_index.core.schema import QueryType
from llama_index.core.tools import AsyncBaseTool, FunctionTool
from llama_index.core.tools.types import BaseTool, adapt_to_async_tool

from pkv_agents import Notice, ToolError, Tools, ToolSpec, tool_from

Tool = BaseTool | Callable[..., Any]
Several = Sequence[Tool] | Callable[[], Sequence[Tool]]
ToolSource = Several | ObjectRetriever[Any]
Servers = Mapping[str, Several]


@dataclass(frozen=True, slots=True)
class Found:
    """The tools of one moment.

    Attributes:
        tools: Each, with what a model sees of it; where two have one name, the first one counts.
        kept: What is known of those that could not be read.
        notices: What was left out, and what could not be read.
    """

    tools: tuple[tuple[ToolSpec, BaseTool], ...]
    kept: tuple[ToolSpec, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def specs(self) -> list[ToolSpec]:
        """What a model sees."""
        read = [spec for spec, _ in self.tools]
        names = {spec.name for spec in read}
        return [*read, *(spec for spec in self.kept if spec.name not in names)]

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
        ToolError: There is something else among them, or a function in the place of a list.
    """

    def __init__(self, source: ToolSource, servers: Servers, extra: Sequence[BaseTool]) -> None:
        self.retriever = cast("ObjectRetriever[Any]", source) if isinstance(source, ObjectRetriever) else None
        self._own = () if isinstance(source, ObjectRetriever) else _checked("tools", source)
        if not isinstance(servers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise ToolError(f"servers: lists of tools by the names of servers, not a {type(servers).__name__}")
        self._servers = {_server(name): _checked(_where(name), several) for name, several in servers.items()}
        self._extra = extra
        self._seen: dict[str, BaseTool] = {}
        self._specs: WeakKeyDictionary[BaseTool, tuple[object, ToolSpec]] = WeakKeyDictionary()

    @property
    def is_fixed(self) -> bool:
        """Whether there are the same tools always."""
        return self.retriever is None and not any(map(callable, (self._own, *self._servers.values())))

    def now(self, retrieved: object = (), *, known: Tools | None = None) -> Found:
        """All that there are now.

        Args:
            retrieved: What the retriever found for this conversation, or what it raised.
            known: What the conversation has; None where it begins, so that there is nothing to go on with.

        Raises:
            ToolError: The conversation begins, and something is no tool. Then the application's errors are raised, too.
        """
        draft = _Draft(known, [(self._spec(tool), tool) for tool in self._extra])
        self._add(draft, "tools", self._own)
        self._add(draft, "retriever", retrieved)
        for server, several in self._servers.items():
            self._add(draft, _where(server), several, server)
        if self.retriever is not None:
            self._seen |= {spec.name: tool for spec, tool in reversed(draft.tools)}
        return Found(tuple(draft.tools), tuple(draft.kept), tuple(draft.notices))

    def ask(self, query: QueryType) -> object:
        """What the retriever finds, or what it raised; nothing where there is none."""
        try:
            return self.retriever.retrieve(query) if self.retriever is not None else ()
        except Exception as error:  # noqa: BLE001 - the application's; see `now`
            return error

    async def aask(self, query: QueryType) -> object:
        """The same asynchronously."""
        try:
            return await self.retriever.aretrieve(query) if self.retriever is not None else ()
        except Exception as error:  # noqa: BLE001 - the application's; see `now`
            return error

    def seen(self, name: str) -> AsyncBaseTool | None:
        """What runs a tool that the retriever found before, in whatever conversation."""
        found = self._seen.get(name)
        return adapt_to_async_tool(found) if found is not None else None

    def _add(self, draft: _Draft, where: str, source: object, server: str = "") -> None:
        try:
            if isinstance(source, Exception):
                raise source
            listed = Tools.listed(where, source() if callable(source) else source)
        except Exception as error:  # noqa: BLE001 - the application's; raised again where nothing is known
            draft.keep(where, error, server)
            return
        for at, one in enumerate(listed):
            try:
                tool = _made(one)
            except ToolError as error:
                draft.refuse(f"{where}[{at}]", error)
                continue
            try:
                draft.tools.append((self._spec(tool, server), tool))
            except Exception as error:  # noqa: BLE001 - what reads a schema of others' may raise anything
                name = _shown(tool)
                if server:  # one of others' that is none costs that tool only
                    draft.notices.append(Tools.refused(f"{name}@{server}", error))
                else:
                    draft.refuse(name, error)

    def _spec(self, tool: BaseTool, server: str = "") -> ToolSpec:
        metadata = tool.metadata
        as_it_is = (metadata.name, metadata.description, metadata.fn_schema, server)
        known = self._specs.get(tool)
        if known is None or known[0] != as_it_is:
            spec = tool_from(tool)
            # Always with the server's name, so that what another server declares later renames nothing.
            known = self._specs[tool] = (as_it_is, spec.of_server(server) if server else spec)
        return known[1]


@dataclass(slots=True)
class _Draft:
    """What is being found.

    Attributes:
        known: What the conversation has; None where it begins.
    """

    known: Tools | None
    tools: list[tuple[ToolSpec, BaseTool]]
    kept: list[ToolSpec] = field(default_factory=list[ToolSpec])
    notices: list[Notice] = field(default_factory=list[Notice])

    def refuse(self, path: str, error: Exception) -> None:
        """Something that is no tool: an error where the conversation begins."""
        self.notices.append(Tools.refused(path, error, begins=self.known is None))

    def keep(self, source: str, error: Exception, server: str) -> None:
        """Go on with what is known of the tools of a source that cannot be read."""
        if self.known is None:
            raise error
        self.notices.append(Tools.kept(source, error))
        self.kept += [spec for spec in self.known.specs.values() if spec.server == server]


def _checked(where: str, source: object) -> object:
    """A function that finds tools, or tools.

    Raises:
        ToolError: It is neither; the usual mistakes are one tool alone, and a function that is one.
    """
    if isinstance(source, BaseTool) or (callable(source) and (isinstance(source, type) or _takes_arguments(source))):
        raise ToolError(
            f"{where}: a list of tools, or a function without arguments that returns one; "
            "this is a tool: put it into a list"
        )
    if inspect.iscoroutinefunction(source):
        raise ToolError(f"{where}: a plain function is needed, not an async one; let it return what was fetched")
    return source if callable(source) else tuple(map(_made, Tools.listed(where, source)))


def _takes_arguments(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # one that tells nothing of itself
        return False
    return any(one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


def _made(one: object) -> BaseTool:
    if isinstance(one, BaseTool):
        return one
    if not callable(one) or isinstance(one, type):
        raise ToolError(f"a tool is a {type(one).__name__}; pass a LlamaIndex tool or a function")
    try:
        return FunctionTool.from_defaults(one)
    except Exception as error:
        raise ToolError(f"this function makes no tool ({type(error).__name__}); annotate its parameters") from error


def _server(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ToolError("servers: a server has no name; give it one, text that tells apart tools of one name")
    return name


def _where(server: object) -> str:
    return f"servers[{server!a}]"


def _shown(tool: BaseTool) -> str:
    try:
        return ascii(str(tool.metadata.name)[:80])[1:-1]
    except Exception:  # noqa: BLE001 - a tool of the application's that cannot say its name
        return "a tool"


__all__ = ["Found", "FoundTools", "Servers", "ToolSource"]
