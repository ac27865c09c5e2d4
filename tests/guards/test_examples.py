"""Every example starts, and says what it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guards.repo import ROOT, python_files

PROGRAMS = sorted(path.parent.relative_to(ROOT) for path in python_files() if path.name == "__main__.py")


def run(module: str, *arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_there_are_examples() -> None:
    assert Path("examples/support_agent") in PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_help(program: Path) -> None:
    done = run(".".join(program.parts), "--help")
    assert done.returncode == 0, done.stderr
    assert "--" in done.stdout


@pytest.mark.slow
@pytest.mark.embedded
def test_the_embedded_model_program_finds_what_is_there(embedded_model: Path) -> None:
    done = run("examples.support_agent.embedded", PKV_CACHE=str(embedded_model.parent))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"embedded model: {embedded_model}")
