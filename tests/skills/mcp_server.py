"""An MCP server for tests: it lists tools in pages, and does wrong what it is told to.

python -m tests.skills.mcp_server KIND           over stdio
python -m tests.skills.mcp_server KIND PORT      over HTTP
"""

from __future__ import annotations

import os
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def listed(kind: str, cursor: str | None, asked: int) -> tuple[list[dict[str, Any]], str | None]:
    """One page of tools, and where the next begins."""
    good = [{"name": name, "description": f"Does {name}.", "inputSchema": SCHEMA} for name in ("zeta", "alpha", "mu")]
    if kind == "dies":
        os._exit(3)
    if kind == "bad-schema":
        return [
            *good,
            {"name": "bad", "description": "", "inputSchema": {"type": "object", "properties": {"a": 7}}},
        ], None
    if kind == "many":
        start = int(cursor or 0)
        names = range(start, min(start + 100, 500))
        page = [{"name": f"tool_{n:03}", "description": "One of many.", "inputSchema": SCHEMA} for n in names]
        return page, str(start + 100) if start + 100 < 500 else None
    if kind == "endless":
        return good[:1], "again"
    if kind == "names":
        named = ("files/read", "files.read", "x" * 80, "", "good")
        return [{"name": name, "description": "", "inputSchema": SCHEMA} for name in named], None
    if kind == "changes":
        return good[:2] if asked == 1 else good[1:], None
    return good, None


def server(kind: str) -> Any:
    """The server."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    asked = [0]

    async def list_tools(context: Any, params: Any) -> Any:
        asked[0] += 1
        cursor = params.cursor if params is not None else None
        tools, following = listed(kind, cursor, asked[0])
        made = [types.Tool.model_validate(tool) for tool in tools]
        return types.ListToolsResult(tools=made, next_cursor=following)

    return Server("test", on_list_tools=list_tools)


def main() -> None:
    """Serve until the client goes."""
    import anyio

    made = server(sys.argv[1])
    if len(sys.argv) > 2:
        import uvicorn

        uvicorn.run(made.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
        return

    async def serve() -> None:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (reading, writing):
            await made.run(reading, writing, made.create_initialization_options())

    anyio.run(serve)


if __name__ == "__main__":
    main()
