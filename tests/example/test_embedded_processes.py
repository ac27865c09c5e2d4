"""The embedded model's cache with real processes: two that want it at once, and one that is stopped half-way."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.support_agent.embedded import NAME, ensure_model, find_model
from tests.example.fakes import FakeSource, rest

ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import signal, sys, time
from importlib import import_module
from pathlib import Path
from typing import Any
from examples.support_agent.embedded import NEEDED, ensure_model

class Slow:
    name = "slow"
    def build(self, into, scratch, report):
        with open(sys.argv[2], "a") as log:
            log.write("built\\n")
        for name in NEEDED:
            (into / name).write_text(name)
            time.sleep(float(sys.argv[3]))

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell puts into the background has it ignored
print(ensure_model(cache=Path(sys.argv[1]), sources=[Slow()]))
"""


PATIENCE = 240
"""Seconds that a child may take to import torch on a machine that is busy."""


def start(cache: Path, log: Path, pause: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(cache), str(log), str(pause)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(20 * PATIENCE):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"it did not happen within {PATIENCE} seconds")


def test_two_processes_at_once_fetch_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    children = [start(tmp_path / "cache", log, 0.2) for _ in range(2)]
    answers = [child.communicate(timeout=PATIENCE) for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    assert {out.strip() for out, _ in answers} == {str(tmp_path / "cache" / NAME)}
    assert log.read_text() == "built\n"
    assert find_model(tmp_path / "cache", full=True) is not None


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped_leaves_no_model_and_no_lock(tmp_path: Path, sent: signal.Signals) -> None:
    cache, log = tmp_path / "cache", tmp_path / "log"
    child = start(cache, log, 30)
    wait_for(log.exists)
    child.send_signal(sent)
    child.communicate(timeout=PATIENCE)
    assert child.returncode != 0
    assert find_model(cache) is None
    if sent == signal.SIGINT:
        assert rest(cache) == []
    assert ensure_model(cache=cache, sources=[FakeSource()]) == cache / NAME
    assert rest(cache) == [NAME]
