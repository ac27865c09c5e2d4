"""The wheel beside the real `llama_index` namespace: both are found, and neither hides the other."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.guards.repo import PROJECTS, ROOT

PROGRAM = """
import sys
import llama_index.core, llama_index.llms.openai, llama_index.llms.pkv as ours
from llama_index.llms.pkv import ContextSession, StatefulLLM
assert ours.__file__.startswith(sys.argv[1]), ours.__file__
assert not llama_index.core.__file__.startswith(sys.argv[1])
assert "torch" not in sys.modules, "LocalLLM is imported when it is asked for"
print(*ours.__all__)
"""


@pytest.mark.slow
def test_it_is_imported_beside_the_namespace(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=PROJECTS["llama-index-llms-pkv"], capture_output=True, check=True)
    (built,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(built).extractall(site)
    paths = os.pathsep.join([str(site), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(site)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "ContextSession",
        "LocalLLM",
        "ModelCall",
        "SessionOptions",
        "StateMemory",
        "StateTools",
        "StatefulLLM",
        "skill_tools",
        "to_core",
    ]
