"""What a package exposes is what its ``__all__`` says, in sorted order."""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType

import pytest

PACKAGES = ["pkv_agents", "pkv_agents.kv", "pkv_agents.local", "langchain_pkv", "llama_index.llms.pkv"]


def borrowed(value: object) -> bool:
    """Whether a name is there only because the package's code needs it: a module, a thing of the standard library."""
    home = getattr(value, "__module__", None) or type(value).__module__
    return inspect.ismodule(value) or (home != "builtins" and home.partition(".")[0] in sys.stdlib_module_names)


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def test_all_is_sorted_and_without_doubles(package: ModuleType) -> None:
    assert list(package.__all__) == sorted(set(package.__all__))


def test_all_is_what_the_package_exposes(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None  # resolves a lazy name, too
    exposed = {name for name, value in vars(package).items() if not name.startswith("_") and not borrowed(value)}
    assert exposed - {"TYPE_CHECKING"} <= set(package.__all__)


def test_every_public_name_has_a_docstring(package: ModuleType) -> None:
    bare = [
        name
        for name in package.__all__
        if (inspect.isclass(value := getattr(package, name)) or inspect.isfunction(value)) and not inspect.getdoc(value)
    ]
    assert bare == []
