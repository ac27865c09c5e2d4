"""A file fits in the head, and so does a function."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.guards.repo import parse, python_files, relative

FILE_LINES = 300
FUNCTION_LINES = 60

EXCEPTIONS: dict[str, str] = {}
"""``path`` or ``path::function`` that may be longer, with the reason. Empty, and meant to stay so."""


def too_long(path: Path) -> list[str]:
    found: list[str] = []
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > FILE_LINES:
        found.append(relative(path))
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append(f"{relative(path)}::{node.name}")
    return found


def test_files_and_functions_are_short() -> None:
    found = [place for path in python_files() for place in too_long(path)]
    assert sorted(set(found) - set(EXCEPTIONS)) == []


def test_no_exception_is_out_of_date() -> None:
    found = {place for path in python_files() for place in too_long(path)}
    assert sorted(set(EXCEPTIONS) - found) == []
