"""The tools that there are for one call: the agent's, and those that `late_tools` finds.

What is wrong with them when a thread begins is an error. In a thread that is under way what cannot be read stays as it
is known, what cannot be sent is left out, and both are notices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.tools import BaseTool, tool
from langgraph.runtime import Runtime

from langchain_pkv._switches import name_of
from pkv_agents import Notice, ToolError, Tools, ToolSpec, tool_from

Lists = Sequence[BaseTool | Callable[..., Any]]
LateTools = Callable[[Runtime[Any]], Lists | Mapping[str, Lists]]

_LATE = "late_tools"


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that there are now.

    Attributes:
        specs: What a model should know of them; where two have one name, the first one counts.
        runs: What runs them, by the names that a model knows.
        beside: The providers' own tools, which go out as they are.
        notices: Which were left out, and what could not be read.
    """

    specs: tuple[ToolSpec, ...]
    runs: Mapping[str, BaseTool]
    beside: tuple[Mapping[str, Any], ...] = ()
    notices: tuple[Notice, ...] = ()


class Offers:
    """Finds the tools of each call.

    Args:
        late: Finds tools that the agent was not made with; None: there are none.
        taken: The names of our own tools, which no late one may have.
    """

    def __init__(self, late: LateTools | None, taken: Collection[str] = ()) -> None:
        self._late = late
        self._taken = taken
        self.late_names: set[str] = set()

    def now(self, given: Sequence[object], runtime: Any, known: Tools | None) -> Offer:
        """The tools that there are now.

        Args:
            given: The agent's: tools, and records of providers' own.
            runtime: LangGraph's `Runtime`, or a tool's.
            known: What the thread has; None where it begins, so that there is nothing to go on with.

        Raises:
            ToolError: The thread begins, and something is no tool. Then the application's errors are raised, too.
        """
        draft = _Draft(known)
        for one in given:
            runs = one if isinstance(one, BaseTool) else None
            record = cast("Mapping[str, Any]", one) if isinstance(one, Mapping) else None
            if record is not None and not _is_function(record):
                draft.beside.append(record)
                continue
            try:
                draft.add(tool_from(cast("object", one)), runs)
            except Exception as error:  # noqa: BLE001 - what reads a schema of the application's may raise anything
                draft.refuse(_shown(name_of(cast("object", one))), error)
        try:
            found: object = self._late(runtime) if self._late is not None else ()
        except Exception as error:  # noqa: BLE001 - the application's; raised again where nothing is known
            # One without a server that this process never found may be the agent's own, and hidden by a selector.
            draft.keep(_LATE, error, lambda spec: bool(spec.server) or spec.name in self.late_names)
            found = ()
        servers = cast("Mapping[object, object]", found) if isinstance(found, Mapping) else {"": found}
        for server, several in servers.items():
            self._add_late(draft, server, several)
        return Offer(tuple(draft.specs), draft.runs, tuple(draft.beside), tuple(draft.notices))

    def _add_late(self, draft: _Draft, server: object, several: object) -> None:
        where = f"{_LATE}[{server!a}]" if server else _LATE
        try:
            if not isinstance(server, str):
                raise ToolError(f"{_LATE}: the name of a server is text, not a {type(server).__name__}")
            listed = Tools.listed(where, several)
        except Exception as error:  # noqa: BLE001 - a generator of the application's may raise anything
            names = self.late_names
            draft.keep(where, error, lambda spec: spec.server == server and (spec.server or spec.name in names))
            return
        for at, one in enumerate(listed):
            try:
                runs = one if isinstance(one, BaseTool) else _made(one)
            except ToolError as error:
                draft.refuse(f"{where}[{at}]", error)
                continue
            path = f"{_shown(runs.name)}@{server}" if server else _shown(runs.name)
            try:
                spec = tool_from(runs)
                spec = spec.of_server(server) if server else spec
            except Exception as error:  # noqa: BLE001 - others' schemas: one that is none costs that tool only
                draft.notices.append(Tools.refused(path, error))
                continue
            if spec.name in self._taken:
                draft.refuse(path, ToolError("a tool of pkv-agents has this name; rename yours"))
                continue
            self.late_names.add(spec.name)
            draft.add(spec, runs)


@dataclass(slots=True)
class _Draft:
    """An offer that is being made.

    Attributes:
        known: What the thread has; None where it begins.
    """

    known: Tools | None
    specs: list[ToolSpec] = field(default_factory=list[ToolSpec])
    names: set[str] = field(default_factory=set[str])
    runs: dict[str, BaseTool] = field(default_factory=dict[str, BaseTool])
    beside: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    notices: list[Notice] = field(default_factory=list[Notice])

    def add(self, spec: ToolSpec, runs: BaseTool | None) -> None:
        """A tool; one whose name is taken is left to `start_tools` and `update_tools`, and never run."""
        is_known = spec.name in self.names
        if is_known and runs is not None and self.runs.get(spec.name) is runs:
            return  # the agent has it already
        self.specs.append(spec)
        self.names.add(spec.name)
        if runs is not None and not is_known:
            self.runs[spec.name] = runs

    def refuse(self, path: str, error: Exception) -> None:
        """Something that is no tool: an error where the thread begins."""
        self.notices.append(Tools.refused(path, error, begins=self.known is None))

    def keep(self, source: str, error: Exception, is_from: Callable[[ToolSpec], object]) -> None:
        """Go on with what is known of the tools of a source that cannot be read."""
        if self.known is None:
            raise error
        self.notices.append(Tools.kept(source, error))
        for spec in self.known.specs.values():
            if is_from(spec) and spec.name not in self.names:
                self.add(spec, None)


def _made(one: object) -> BaseTool:
    """A function as LangChain's tool."""
    if not callable(one) or isinstance(one, type):
        raise ToolError(f"a tool is a {type(one).__name__}; pass LangChain tools or functions")
    try:
        return tool(cast("Callable[..., Any]", one))
    except Exception as error:
        raise ToolError(f"this function makes no tool: {error}") from error


def _shown(name: object) -> str:
    return ascii(str(name or "a tool")[:80])[1:-1]


def _is_function(record: Mapping[str, Any]) -> bool:
    """Whether a record declares a tool of the application's, and not one that the provider runs."""
    return record.get("type") in (None, "function", "custom") and bool(
        "function" in record or "parameters" in record or "input_schema" in record
    )
