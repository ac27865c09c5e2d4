"""What holds for the tests of the LangChain adapter."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

import pkv_agents.planning
from tests.stores.servers import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[BaseCheckpointSaver[str]]:
    """An empty checkpointer of each kind; Postgres where its server installs."""
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as sqlite:
            yield sqlite
    else:
        module: Any = pytest.importorskip("langgraph.checkpoint.postgres")
        server: PostgresServer = request.getfixturevalue("postgres")
        with module.PostgresSaver.from_conn_string(server.dsn()) as found:
            found.setup()
            found.conn.execute("TRUNCATE checkpoints, checkpoint_blobs, checkpoint_writes")
            yield found


@pytest.fixture(autouse=True)
def short_heads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heads here are as short as tests are, so nothing is said about that where it is not the subject."""

    def nothing(*_: Any) -> None:
        return None

    if "below_minimum" not in request.node.name:
        monkeypatch.setattr(pkv_agents.planning, "minimum_notice", nothing)
