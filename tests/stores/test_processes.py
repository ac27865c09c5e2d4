"""Several real processes on one session: every turn counts, also while all open the store for the first time."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.guards.repo import ROOT
from tests.stores.counter import open_store

PROCESSES, TIMES = 3, 15


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_processes_add_up(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    match kind:
        case "sqlite":
            address = str(tmp_path / "sessions.db")
        case "redis":
            address = str(request.getfixturevalue("redis_port"))
        case _:
            address = request.getfixturevalue("postgres").dsn()
    command = [sys.executable, "-m", "tests.stores.counter", kind, address, "one session", str(TIMES)]
    running = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    errors = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES, errors
    with ExitStack() as stack:
        found = open_store(kind, address, stack).load("one session")
    assert found is not None
    assert (found.data, found.version) == ({"n": PROCESSES * TIMES}, PROCESSES * TIMES)
