"""What the guards read: the repository's files, and what each Python file imports."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROJECTS = {
    "pkv-agents": ROOT,
    "langchain-pkv": ROOT / "integrations" / "langchain",
    "llama-index-llms-pkv": ROOT / "integrations" / "llama_index",
}
"""The three distributions, and the folder of each one's pyproject.toml."""

PACKAGES = {
    "pkv_agents": ROOT / "pkv_agents",
    "langchain_pkv": ROOT / "integrations" / "langchain" / "langchain_pkv",
    "llama_index.llms.pkv": ROOT / "integrations" / "llama_index" / "llama_index" / "llms" / "pkv",
    "examples": ROOT / "examples",
    "benchmarks": ROOT / "benchmarks",
}
"""Import names that are ours, and where their code lies."""

PACKAGE_OF = {
    "pkv-agents": "pkv_agents",
    "langchain-pkv": "langchain_pkv",
    "llama-index-llms-pkv": "llama_index.llms.pkv",
}
"""The import package that each distribution ships."""


@cache
def files() -> tuple[Path, ...]:
    """Every file that is tracked, or that git would add."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return tuple(sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file()))


def python_files() -> list[Path]:
    """Every Python file of the repository."""
    return [path for path in files() if path.suffix == ".py"]


def relative(path: Path) -> str:
    """A path as messages show it."""
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_name(path: Path) -> str | None:
    """The import name of a file of ours, or None."""
    for package, folder in PACKAGES.items():
        if path.is_relative_to(folder):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return None


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module or name.

    Args:
        module: the module that the statement names, absolute.
        name: the name taken from it; None for ``import module``.
        line: where it stands.
        lazy: inside a function, so it costs nothing when the file is imported.
        typing_only: under ``if TYPE_CHECKING``.
    """

    module: str
    name: str | None
    line: int
    lazy: bool
    typing_only: bool

    @property
    def top(self) -> str:
        """The top-level package."""
        return self.module.partition(".")[0]


def imports(path: Path) -> list[Import]:
    """All imports of a file, also those inside functions."""
    return list(_imports(path, parse(path), lazy=False, typing_only=False))


def _imports(path: Path, node: ast.AST, *, lazy: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, None, child.lineno, lazy, typing_only)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                yield Import(_absolute(path, child), alias.name, child.lineno, lazy, typing_only)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _imports(path, ast.Module(child.body, []), lazy=lazy, typing_only=True)
            yield from _imports(path, ast.Module(child.orelse, []), lazy=lazy, typing_only=typing_only)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(path, child, lazy=lazy or inside, typing_only=typing_only)


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    here = (module_name(path) or "").split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, node.module] if node.module else base)


def imported_modules(path: Path) -> Iterator[tuple[str, Import]]:
    """The modules of ours that a file imports: ``from package import module`` counts as the module."""
    for found in imports(path):
        deeper = f"{found.module}.{found.name}"
        yield (deeper if deeper in our_modules() else found.module), found


@cache
def our_modules() -> dict[str, Path]:
    """Our modules by import name."""
    return {name: path for path in python_files() if (name := module_name(path))}


def public_names(package: str) -> frozenset[str]:
    """The literal ``__all__`` of a package, read without importing it."""
    path = our_modules()[package]
    for node in parse(path).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return frozenset(ast.literal_eval(node.value))
    raise AssertionError(f"{relative(path)} has no literal __all__")
