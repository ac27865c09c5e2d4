"""One definition of green: README, pre-commit and CI call the same make targets, on one pinned environment."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.guards.repo import PACKAGE_OF, PACKAGES, PROJECTS, ROOT, files, imports

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, flags=re.MULTILINE))

NOT_IMPORTED = {
    ("pkv-agents", "psycopg"): "the user makes the connection; the store asks for a Protocol",
    ("pkv-agents", "pyyaml"): "imported as yaml",
    ("pkv-agents", "redis"): "the user makes the client; the store asks for a Protocol",
    ("llama-index-llms-pkv", "llama-index-core"): "imported as llama_index.core",
    ("llama-index-llms-pkv", "llama-index-workflows"): "imported as workflows",
}
"""Declared by one of ours, imported nowhere in it."""


def project(name: str) -> dict[str, Any]:
    return tomllib.loads((PROJECTS[name] / "pyproject.toml").read_text(encoding="utf-8"))


def declared(name: str) -> set[str]:
    """The distributions that one of ours asks for, extras included."""
    table = project(name)["project"]
    extras = [line for group in table.get("optional-dependencies", {}).values() for line in group]
    return {canonicalize_name(Requirement(line).name) for line in [*table["dependencies"], *extras]}


def pins() -> dict[str, str]:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = [line.partition("==") for line in text.splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, _, version in pinned}


def test_pre_commit_calls_make_targets() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]
    assert entries
    assert {entry.removeprefix("make ") for entry in entries} <= TARGETS


def test_ci_calls_make_test() -> None:
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in text
    assert "make test" in text.splitlines()[-1]


def test_readme_names_make_targets_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, flags=re.MULTILINE))
    assert {"example", "test"} <= named
    assert sorted(named - TARGETS) == []


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:pkv_agents|integrations|examples|tests)/[\w./]*)`", text))
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_pin_is_exact_and_served_by_any_index() -> None:
    for name, version in pins().items():
        assert re.fullmatch(r"[\w.]+", version), f"{name}=={version}"  # no local build tag, no URL


@pytest.mark.parametrize("name", sorted(PROJECTS))
def test_every_requirement_admits_its_pin(name: str) -> None:
    tables = project(name)
    groups = [line for group in tables.get("dependency-groups", {}).values() for line in group if isinstance(line, str)]
    extras = [line for group in tables["project"].get("optional-dependencies", {}).values() for line in group]
    for line in [*tables["project"]["dependencies"], *extras, *groups]:
        requirement = Requirement(line)
        if requirement.name == "pkv-agents":
            continue
        version = pins()[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{line} does not admit {version}"


@pytest.mark.parametrize("name", sorted(PROJECTS))
def test_what_is_declared_is_imported(name: str) -> None:
    used = {found.top for path in code_of(name) for found in imports(path)}
    for distribution in declared(name):
        if (name, distribution) not in NOT_IMPORTED:
            assert distribution.replace("-", "_") in used, f"{name} declares {distribution} and does not import it"


def code_of(name: str) -> list[Path]:
    """The Python files that one of our distributions ships."""
    (folder,) = [folder for package, folder in PACKAGES.items() if package == PACKAGE_OF[name]]
    return [path for path in files() if path.suffix == ".py" and path.is_relative_to(folder)]
