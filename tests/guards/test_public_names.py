"""What a package exposes is what its ``__all__`` says, in sorted order."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

PACKAGES = ["pkv_agents", "pkv_agents.kv", "pkv_agents.local", "langchain_pkv", "llama_index.llms.pkv"]


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def test_all_is_sorted_and_without_doubles(package: ModuleType) -> None:
    assert list(package.__all__) == sorted(set(package.__all__))


def test_all_is_what_the_package_exposes(package: ModuleType) -> None:
    for name in package.__all__:
        getattr(package, name)  # a lazy name is resolved, and then stands in the module
    exposed = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name not in {"annotations", "TYPE_CHECKING"}
    }
    lazy = {name for name in package.__all__ if name not in vars(package)}
    assert exposed | lazy | {"__version__"} & set(package.__all__) == set(package.__all__)


def test_every_public_name_has_a_docstring(package: ModuleType) -> None:
    bare = [
        name
        for name in package.__all__
        if (inspect.isclass(value := getattr(package, name)) or inspect.isfunction(value)) and not inspect.getdoc(value)
    ]
    assert bare == []
