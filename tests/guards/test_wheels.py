"""What the three distributions ship, checked on wheels that are really built (by hatchling here, without a network)."""

from __future__ import annotations

import email
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import pytest

from tests.guards.repo import PACKAGE_OF, PACKAGES, PROJECTS, ROOT, files


@dataclass(frozen=True, slots=True)
class Wheel:
    """A built wheel: the distribution, its files and its metadata."""

    project: str
    names: frozenset[str]
    metadata: Message

    @property
    def code(self) -> frozenset[str]:
        """All but the dist-info."""
        return frozenset(name for name in self.names if ".dist-info/" not in name)


@pytest.fixture(scope="module", params=sorted(PROJECTS))
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    done = subprocess.run(command, cwd=PROJECTS[request.param], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        names = frozenset(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        return Wheel(request.param, names, email.message_from_bytes(archive.read(metadata)))


def test_it_ships_its_package_and_nothing_else(wheel: Wheel) -> None:
    package = PACKAGE_OF[wheel.project]
    folder, top = PACKAGES[package], package.replace(".", "/")
    source = {f"{top}/{path.relative_to(folder).as_posix()}" for path in files() if path.is_relative_to(folder)}
    assert wheel.code == source
    assert f"{top}/py.typed" in wheel.code
    assert f"{top}/__init__.py" in wheel.code


def test_it_shadows_no_framework(wheel: Wheel) -> None:
    shared = {"langchain/__init__.py", "llama_index/__init__.py", "llama_index/llms/__init__.py"}
    assert wheel.names & shared == set()


def test_its_metadata_is_complete(wheel: Wheel) -> None:
    assert wheel.metadata["Name"] == wheel.project
    assert wheel.metadata["License-Expression"] == "Apache-2.0"
    assert wheel.metadata["Requires-Python"] == ">=3.11"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel.names)
    assert len(str(wheel.metadata.get_payload())) > 200, "README is the long description"


def test_versions_and_licences_agree() -> None:
    projects = [tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in PROJECTS.values()]
    assert len({project["version"] for project in projects}) == 1
    assert len({(folder / "LICENSE").read_bytes() for folder in PROJECTS.values()}) == 1


def test_no_folder_of_ours_stands_in_for_a_framework() -> None:
    integrations = ROOT / "integrations"
    shared = ["", "langchain", "llama_index", "llama_index/llama_index", "llama_index/llama_index/llms"]
    assert [name for name in shared if Path(integrations, name, "__init__.py").exists()] == []
