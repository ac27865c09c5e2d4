"""Tools of MCP servers: a real server, over stdio and HTTP, that behaves and misbehaves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkv_agents import OPENAI, ToolError, fetch_mcp_tools, list_mcp_tools, start_tools, tool_json, update_tools
from tests.guards.repo import ROOT

pytest.importorskip("mcp")
pytestmark = pytest.mark.slow  # each starts a process

COMMAND = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]
ENV = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}


@pytest.fixture
def http() -> Iterator[str]:
    """The address of a server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*COMMAND, "many", str(port)], cwd=ROOT, env={**os.environ})
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)


async def test_the_tools_of_a_server_over_stdio_are_sorted_and_carry_its_name() -> None:
    found = await fetch_mcp_tools([*COMMAND, "good"], server="weather", env=ENV)
    assert [tool.key for tool in found.tools] == ["alpha@weather", "mu@weather", "zeta@weather"]
    assert found.notices == () and found.tools[0].description == "Does alpha."
    assert tool_json(found.tools[0]).endswith('"required":["city"],"type":"object"}}')


async def test_500_tools_over_http_come_in_pages_and_are_all_there(http: str) -> None:
    found = await fetch_mcp_tools(http, server="big")
    assert len(found.tools) == 500
    state = start_tools(found.tools)
    assert [n.code for n in update_tools(state, found.tools, profile=OPENAI).notices] == ["many_tools"]


async def test_a_server_that_dies_is_an_error_that_names_it() -> None:
    with pytest.raises(ToolError, match="server 'weather'"):
        await fetch_mcp_tools([*COMMAND, "dies"], server="weather", env=ENV, timeout_seconds=20)


async def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(ToolError, match="server 'weather' cannot be reached"):
        await fetch_mcp_tools("http://127.0.0.1:9/mcp", server="weather", timeout_seconds=20)
    with pytest.raises(ToolError, match="server 'weather' cannot be reached"):
        await fetch_mcp_tools(["/nowhere/at-all"], server="weather", timeout_seconds=20)


async def test_a_command_that_says_nothing_is_given_up() -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(ToolError, match=r"did not answer in 1 seconds"):
        await fetch_mcp_tools(silent, server="weather", timeout_seconds=1)


async def test_a_schema_that_is_none_costs_that_tool_only() -> None:
    found = await fetch_mcp_tools([*COMMAND, "bad-schema"], server="weather", env=ENV)
    assert [tool.name for tool in found.tools] == ["alpha", "mu", "zeta"]
    (notice,) = found.notices
    assert (notice.code, notice.path) == ("tool_refused", "bad@weather") and "no object" in notice.message


async def test_names_that_providers_refuse_are_made_ones_that_they_take() -> None:
    found = await fetch_mcp_tools([*COMMAND, "names"], server="w", env=ENV)
    assert [(tool.name, tool.id) for tool in found.tools] == [
        ("files_read", "files/read"),
        ("good", ""),
        ("x" * 64, "x" * 80),
    ]
    assert [notice.path for notice in found.notices] == ["files.read@w", "@w"]


async def test_a_list_without_an_end_is_given_up() -> None:
    with pytest.raises(ToolError, match="without an end"):
        await fetch_mcp_tools([*COMMAND, "endless"], server="weather", env=ENV)


async def test_a_server_that_changes_its_list_is_followed_without_moving_the_array() -> None:
    from mcp import Client, StdioServerParameters

    where = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "changes"], env=ENV)
    async with Client(where, cache=None) as client:
        first = await list_mcp_tools(client, server="weather")
        state = start_tools(first.tools, bridge=True)
        second = await list_mcp_tools(client, server="weather")
    update = update_tools(state, second.tools, profile=OPENAI)
    assert not update.moves_array and sorted(update.patch) == ["tools.changed[mu]", "tools.changed[zeta]"]


async def test_without_the_client_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ImportError, match=r"pkv-agents\[mcp\]"):
        await fetch_mcp_tools(["x"], server="weather")
    with pytest.raises(ToolError, match="no name"):
        await fetch_mcp_tools(["x"], server="")
