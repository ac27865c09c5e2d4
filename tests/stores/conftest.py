"""One server of each kind for all tests of a run, started by the first test that asks for it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.stores.backends import SERVERS, MakeStore, backend
from tests.stores.servers import PostgresServer, postgres_server, redis_server


@pytest.fixture(scope="session")
def redis_port() -> Generator[int]:
    with redis_server() as port:
        yield port


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[MakeStore]:
    """Handles on an empty backend; a test names the backends by parametrizing this fixture indirectly."""
    name = str(request.param)
    server = request.getfixturevalue(SERVERS[name]) if name in SERVERS else None
    with backend(name, tmp_path, server) as make:
        yield make
