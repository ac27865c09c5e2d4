"""Which tools can be sent: each under a name of its own that providers take, with a schema that is one.

Before a conversation begins, what cannot be sent is an error. Later it is left out with a notice: the rest of the
conversation does not depend on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import cast

from ..errors import ToolError
from ..notices import Notice
from ..tools import MAX_NAME, ToolSpec, checked_tool, is_tool_name
from ._arguments import schema_problem

OURS = ("call_tool", "load_skill", "read_skill_file")
"""The names of the tools that this library brings along."""


def sendable_tools(
    tools: Iterable[ToolSpec], *, taken: Collection[str] = ()
) -> tuple[tuple[ToolSpec, ...], tuple[Notice, ...]]:
    """Those of the tools that can be sent. Of several that share a name it is the first.

    Args:
        tools: The tools.
        taken: Names that no tool may have.

    Returns:
        The tools in canonical form and in their order, and a notice `tool_refused` for each that was left out.

    Raises:
        ToolError: There is something else among them.
    """
    good: dict[str, ToolSpec] = {}
    notices: list[Notice] = []
    for tool in only_specs(tools):
        problem = _name_problem(tool, {*good, *taken})
        if problem is None:
            try:
                good[tool.name] = _with_schema(tool)
                continue
            except ToolError as error:
                problem = str(error)
        where = f"@{tool.server}" if tool.server else ""
        notices.append(refused_notice(f"{_shown(tool.name)[1:-1]}{where}", problem))
    return tuple(good.values()), tuple(notices)


def check_sendable(tools: Sequence[ToolSpec]) -> None:
    """Hold tools to being ones that can be sent.

    Raises:
        ToolError: One of them cannot be sent beside those before it.
    """
    known: set[str] = set()
    for tool in tools:
        if (problem := _name_problem(tool, known)) is not None:
            raise ToolError(problem)
        known.add(_with_schema(tool).name)


def only_specs(given: Iterable[ToolSpec]) -> Iterator[ToolSpec]:
    """What was given, if it is specs: functions and frameworks' tools are the usual mistake.

    Raises:
        ToolError: It is not.
    """
    listed = isinstance(given, Iterable) and not isinstance(given, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    for one in cast("Iterable[object]", given if listed else (given,)):
        if not (listed and isinstance(one, ToolSpec)):
            raise ToolError(
                f"tools: a list of ToolSpec is needed, and here is a {type(one).__name__}; "
                "`tool_from` makes a ToolSpec of a function or of a framework's tool"
            )
        yield one


def _name_problem(tool: ToolSpec, taken: Collection[str]) -> str | None:
    name = cast("object", tool.name)
    if not isinstance(name, str) or not name:
        return f"a tool{f' of server {tool.server!r}' if tool.server else ''} has no name; give it one"
    if not is_tool_name(name):
        return (
            f"tool {_shown(name)}: providers take names of 1 to {MAX_NAME} characters of a to z, A to Z, 0 to 9, _ and "
            "-; rename it"
        )
    if name not in taken:
        return None
    own = "; this one is a tool of pkv-agents, so rename yours" if name in OURS else "; rename one, or see `qualified`"
    return f"two tools have the name {name!r}, and providers take a name once{own}"


def _with_schema(tool: ToolSpec) -> ToolSpec:
    made = checked_tool(tool)
    if (problem := schema_problem(made.parameters)) is not None:
        raise ToolError(f"tool {made.name!r}: its parameters are no JSON Schema of a call ({problem})")
    return made


def refused_notice(path: str, problem: str) -> Notice:
    """What there is to say of a tool that cannot be sent."""
    return Notice(
        "tool_refused",
        path=path,
        mend="mend the tool where it is declared; the others are used",
        message=f"the tool is left out: {problem}",
    )


def _shown(name: object) -> str:
    """A name that may be anything, quoted, for people."""
    return ascii(str(name)[:80])


__all__ = ["OURS", "check_sendable", "only_specs", "refused_notice", "sendable_tools"]
