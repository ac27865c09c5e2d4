"""The arrows of the architecture (CONTRIBUTING draws them), held by walking the imports.

A core module that is not named here is a helper of the middle layer, so most new files need no entry.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guards.repo import PACKAGES, Import, imported_modules, imports, our_modules, public_names, relative

BASE, MIDDLE, SESSION, OUTER, KV, LOCAL = "base", "middle", "session", "outer", "kv", "local"
ROOT_PACKAGE, COMMAND = "facade", "command"

NAMED = {
    "errors": BASE,
    "messages": BASE,
    "notices": BASE,  # plain records, which an error may carry
    "callbacks": BASE,
    "session": SESSION,
    "stores": OUTER,
    "conformance": OUTER,  # it drives whole sessions through a store
    "doctor": OUTER,
    "report": OUTER,
    "cli": OUTER,
    "kv": KV,
    "local": LOCAL,
    "": ROOT_PACKAGE,
    "__main__": COMMAND,  # and its commands, `_cli_*`: programs, which nothing of ours imports
}

MAY_IMPORT = {
    BASE: {BASE},
    MIDDLE: {BASE, MIDDLE},
    SESSION: {BASE, MIDDLE},
    OUTER: {BASE, MIDDLE, SESSION, OUTER},
    KV: {BASE, KV},
    LOCAL: {BASE, MIDDLE, SESSION, KV, LOCAL},
    ROOT_PACKAGE: {BASE, MIDDLE, SESSION, OUTER},
    COMMAND: {BASE, MIDDLE, SESSION, OUTER, KV, LOCAL, ROOT_PACKAGE, COMMAND},
}

CORE_LIBRARIES = {"pydantic", "pydantic_core", "typing_extensions"}
LOCAL_LIBRARIES = CORE_LIBRARIES | {"jinja2", "llguidance", "numpy", "safetensors", "torch"}
ADAPTER_LIBRARIES = {
    "langchain_pkv": {"langchain", "langchain_core", "langgraph", "pydantic", "pydantic_core", "typing_extensions"},
    "llama_index.llms.pkv": {"llama_index", "pydantic", "pydantic_core", "typing_extensions", "workflows"},
}

CORE = sorted(name for name in our_modules() if name.partition(".")[0] == "pkv_agents")
ADAPTERS = sorted(name for name in our_modules() if any(name.startswith(package) for package in ADAPTER_LIBRARIES))
PROGRAMS = sorted(name for name in our_modules() if name.partition(".")[0] in {"examples", "benchmarks"})


def layer(module: str) -> str:
    """The layer of a core module: by its first part below the package."""
    first = module.removeprefix("pkv_agents").removeprefix(".").partition(".")[0]
    return COMMAND if first.startswith("_cli_") else NAMED.get(first, MIDDLE)


def foreign(module: str) -> Iterator[Import]:
    """A module's imports that are neither ours nor the standard library's."""
    import sys

    ours = {package.partition(".")[0] for package in PACKAGES} - {"llama_index"}
    for found in imports(our_modules()[module]):
        if found.top not in sys.stdlib_module_names and found.top not in ours and found.top != "tests":
            yield found


def at(module: str, found: Import) -> str:
    return f"{relative(our_modules()[module])}:{found.line}"


@pytest.mark.parametrize("module", CORE)
def test_core_imports_follow_the_arrows(module: str) -> None:
    allowed = MAY_IMPORT[layer(module)]
    for target, found in imported_modules(our_modules()[module]):
        if found.top != "pkv_agents":
            assert found.top not in {"langchain_pkv", "llama_index", "examples", "benchmarks", "tests"}, at(
                module, found
            )
        else:
            assert layer(target) in allowed, f"{at(module, found)}: {layer(module)} may not import {target}"


@pytest.mark.parametrize("module", CORE)
def test_core_uses_only_its_libraries(module: str) -> None:
    allowed = LOCAL_LIBRARIES if layer(module) in {KV, LOCAL, COMMAND} else CORE_LIBRARIES
    if (
        module in {"pkv_agents.kv._hf", "pkv_agents.kv._grouped"} or layer(module) == COMMAND
    ):  # a command may load a model, when it runs
        allowed = allowed | {"transformers"}
    if module == "pkv_agents.tokens":  # lazily, and each may be missing or without its vocabulary
        allowed = allowed | {"tiktoken", "tiktoken_ext", "bpe_openai"}
    if module == "pkv_agents._cli_skills":  # lazily: it loads the model whose skills it compiles
        allowed = allowed | {"torch", "transformers"}
    if module == "pkv_agents.kv._adapters":  # lazily: only where a command is given an adapter
        allowed = allowed | {"peft"}
    if module == "pkv_agents.skills._mcp":  # lazily: the extra `mcp`
        allowed = allowed | {"mcp"}
    if module == "pkv_agents.skills._frontmatter":  # lazily: the extra `skills`
        allowed = allowed | {"yaml"}
    for found in foreign(module):
        assert found.top in allowed, f"{at(module, found)}: {found.module} is not for {layer(module)}"


def test_core_has_no_import_cycle() -> None:
    """Imports that run when a file is imported; a lazy or type-only one cannot close a cycle."""
    edges = {
        module: {
            target
            for target, found in imported_modules(our_modules()[module])
            if target in our_modules() and target != module and not (found.lazy or found.typing_only)
        }
        for module in CORE
        if layer(module) != ROOT_PACKAGE
    }
    while leaves := {module for module, targets in edges.items() if not targets & edges.keys()}:
        edges = {module: targets for module, targets in edges.items() if module not in leaves}
    assert not edges, f"a cycle among {sorted(edges)}"


@pytest.mark.parametrize("module", ADAPTERS + PROGRAMS)
def test_adapters_and_programs_use_only_public_names(module: str) -> None:
    home = next(package for package in PACKAGES if module.startswith(package))
    for target, found in imported_modules(our_modules()[module]):
        package = next((p for p in PACKAGES if f"{target}.".startswith(f"{p}.")), None)
        if package is None or package == home:
            continue
        if package == "examples" and home == "benchmarks":
            continue  # it measures the example
        assert package not in {"examples", "benchmarks"}, f"{at(module, found)}: a library does not import a program"
        where = found.module
        assert where in {"pkv_agents", "pkv_agents.local", "pkv_agents.kv", "langchain_pkv", "llama_index.llms.pkv"}, (
            f"{at(module, found)}: {where} is not a public module"
        )
        assert found.name is not None, f"{at(module, found)}: write `from {where} import name`, so it can be checked"
        assert found.name in public_names(where), f"{at(module, found)}: {where}.{found.name} is not public"


@pytest.mark.parametrize("module", ADAPTERS)
def test_adapters_use_only_their_frameworks(module: str) -> None:
    home = next(package for package in ADAPTER_LIBRARIES if module.startswith(package))
    for found in foreign(module):
        assert found.top in ADAPTER_LIBRARIES[home], f"{at(module, found)}: {found.module} is not declared for {home}"


def test_the_walk_sees_what_it_should() -> None:
    """The guard's own eyes: the layers that must exist are found, and relative imports are resolved."""
    assert {layer(module) for module in CORE} >= {BASE, MIDDLE, KV, LOCAL, ROOT_PACKAGE}
    targets = {target for target, _ in imported_modules(our_modules()["pkv_agents"])}
    assert {"pkv_agents.errors", "pkv_agents.messages"} <= targets
