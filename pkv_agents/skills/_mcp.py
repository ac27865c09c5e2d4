"""Tools from MCP servers, by the official client: all pages, in one order, with what no provider would take left out.

A server's words are the words of others: its tools keep its name, by which they are marked wherever they are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ..errors import ToolError
from ..notices import Notice
from ..tools import ToolSpec, checked_tool, order_tools
from ._arguments import as_map, schema_problem

MAX_PAGES = 100
MAX_TOOLS = 1_000
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64
MAX_DESCRIPTION = 20_000
"""Characters; a longer description is no description of a tool."""


class McpClient(Protocol):
    """What is asked of a connected client: `mcp.Client`, or its `ClientSession`."""

    async def list_tools(self, *, cursor: str | None = None) -> Any:
        """One page: `tools`, and `next_cursor` where there are more."""
        ...


@dataclass(frozen=True, slots=True)
class McpTools:
    """What a server offers.

    Attributes:
        tools: Its tools, sorted.
        notices: Which were left out, and why.
    """

    tools: tuple[ToolSpec, ...]
    notices: tuple[Notice, ...] = ()


async def list_mcp_tools(client: McpClient, *, server: str) -> McpTools:
    """All tools of a connected MCP server.

    A name that providers refuse (`files/read`, or more than 64 characters) is made one that they take; the server's own
    is the spec's `id` then, and is what to call there.

    Args:
        client: A connected client; it stays the caller's.
        server: The server's name with you; it tells tools of one name apart.

    Returns:
        The tools. Those with a schema that is no JSON Schema, a second one of a name, and those with an endless text
        are left out with a notice each.

    Raises:
        ToolError: The server died, does not answer in its protocol, or lists without an end.
    """
    _check_server(server)
    found: list[Any] = []
    cursor: str | None = None
    seen: set[str | None] = set()
    while True:
        if cursor in seen or len(seen) == MAX_PAGES or len(found) > MAX_TOOLS:
            raise ToolError(f"server {server!r} lists its tools without an end; look at what it answers to tools/list")
        seen.add(cursor)
        page = await _page(client, cursor, server)
        found += page.tools
        cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
        if cursor is None:
            return _specs(found, server)


async def fetch_mcp_tools(
    target: str | Sequence[str], *, server: str, timeout_seconds: float = 30.0, env: Mapping[str, str] | None = None
) -> McpTools:
    """Connect to an MCP server, read its tools, and close the connection.

    Args:
        target: The address of a server over HTTP, or the command that starts one over stdio, as a list of words.
        server: The server's name with you.
        timeout_seconds: How long all of it may take, in seconds.
        env: Environment variables for the command, besides the few that the client passes on.

    Returns:
        See `list_mcp_tools`.

    Raises:
        ToolError: It cannot be reached, dies, or does not answer in its protocol or in time.
        ImportError: The client is not installed (the extra `mcp`).
    """
    import asyncio  # only who uses it pays for it

    _check_server(server)
    try:
        from mcp import Client, StdioServerParameters
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        raise ImportError("MCP servers need the official client: pip install 'pkv-agents[mcp]'") from None
    if isinstance(target, str):
        where: Any = target
    else:
        where = StdioServerParameters(command=target[0], args=list(target[1:]), env=dict(env) if env else None)
    try:
        async with asyncio.timeout(timeout_seconds), Client(where) as client:
            return await list_mcp_tools(client, server=server)
    except ToolError:
        raise
    except TimeoutError:
        raise ToolError(f"server {server!r} did not answer in {timeout_seconds:g} seconds") from None
    except Exception as error:  # every transport has its own; none says more to our caller than its kind
        inner = _first(error)
        if isinstance(inner, ToolError):
            raise inner from None
        raise ToolError(
            f"server {server!r} cannot be reached or died ({type(inner).__name__}); start it and look at its log"
        ) from error


async def _page(client: McpClient, cursor: str | None, server: str) -> Any:
    try:
        return await client.list_tools(cursor=cursor)
    except Exception as error:
        raise ToolError(f"server {server!r} did not list its tools ({type(error).__name__})") from error


def _first(error: BaseException) -> BaseException:
    """What lies inside nested groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _specs(found: Sequence[Any], server: str) -> McpTools:
    tools: dict[str, ToolSpec] = {}
    notices: list[Notice] = []
    for tool in found:
        schema = tool.input_schema if hasattr(tool, "input_schema") else getattr(tool, "inputSchema", None)
        spec, problem = _spec(str(tool.name), tool.description or "", schema, server)
        if spec is not None and spec.name in tools:
            spec, problem = None, "the server lists two tools of this name"
        if spec is None:
            notices.append(_refused(f"{str(tool.name)[:80]}@{server}", problem or ""))
        else:
            tools[spec.name] = spec
    return McpTools(order_tools((), tools.values()), tuple(notices))


def _spec(name: str, description: str, schema: object, server: str) -> tuple[ToolSpec | None, str | None]:
    if len(description) > MAX_DESCRIPTION:
        return None, f"its description has {len(description):,} characters, and {MAX_DESCRIPTION:,} is the most"
    if (problem := schema_problem(schema)) is not None:
        return None, problem
    try:
        sendable = _NO_NAME.sub("_", name)[:_MAX_NAME]
        own = name if sendable != name else ""
        return checked_tool(ToolSpec(sendable, description, as_map(schema) or {}, server, own)), None
    except ToolError as error:
        return None, str(error)


def _refused(path: str, problem: str) -> Notice:
    return Notice(
        "tool_refused",
        path=path,
        mend="tell the server's authors; its other tools are used",
        message=f"the tool is left out: {problem}",
    )


def _check_server(server: str) -> None:
    if not server:
        raise ToolError("an MCP server has no name; give one, it tells apart tools of one name")


__all__ = ["McpTools", "fetch_mcp_tools", "list_mcp_tools"]
