"""Plain data, however deeply nested: a model or a tool may nest it deeper than recursion goes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

MAX_DEPTH = 100
"""How many containers may stand inside one another in a part or in a call's arguments; deeper ones become text.

A fixed number: what a request says must not hang on the caller's stack.
"""


def digest_of_bytes(value: object) -> object:
    """What stands in JSON for an image or a document that is given as bytes, as some classes of models take them.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    raise TypeError(f"a {type(value).__name__} has no JSON form")


_leaf = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=digest_of_bytes).encode


def is_deep(data: object) -> bool:
    """Whether plain data is nested more than `MAX_DEPTH` deep."""
    level = [data]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _values(outer)]
        if not level:
            return False
    return any(isinstance(inner, (Mapping, list, tuple)) for inner in level)


def bounded(data: Any, room: int = MAX_DEPTH) -> Any:
    """Plain data in which each container that stands too deep is its JSON text.

    Args:
        data: Plain JSON data; not changed.
        room: How many levels of containers are left.

    Returns:
        A copy.
    """
    if not isinstance(data, (Mapping, list, tuple)):
        return data
    if not room:
        return json_text(cast(object, data))
    if isinstance(data, Mapping):
        return {name: bounded(value, room - 1) for name, value in cast("Mapping[str, Any]", data).items()}
    return [bounded(value, room - 1) for value in cast("list[Any]", data)]


def json_text(data: object) -> str:
    """Canonical JSON (sorted keys, no white space), written without recursion.

    Raises:
        TypeError: It holds what is not plain JSON data.
        ValueError: It contains itself.
    """
    written: list[str] = []
    inside: set[int] = set()
    todo: list[tuple[str, object]] = [("value", data)]
    while todo:
        kind, item = todo.pop()
        if kind == "text":
            written.append(cast(str, item))
        elif kind == "left":
            inside.remove(cast(int, item))
        elif isinstance(item, (Mapping, list, tuple)):
            if id(cast(object, item)) in inside:
                raise ValueError("it contains itself")
            inside.add(id(cast(object, item)))
            todo += reversed([*_pieces(cast(object, item)), ("left", id(cast(object, item)))])
        else:
            written.append(_leaf(item))
    return "".join(written)


def json_name(key: object) -> str:
    """A key as JSON writes it: always text."""
    return key if isinstance(key, str) else str(next(iter(json.loads(_leaf({key: None})))))


def _pieces(data: object) -> list[tuple[str, object]]:
    """What a container is written as: pieces of text, and values that are still to be written."""
    if isinstance(data, Mapping):
        items = [(json_name(key), value) for key, value in cast("Mapping[object, object]", data).items()]
        named = [(f"{_leaf(name)}:", value) for name, value in sorted(items, key=lambda item: item[0])]
        return [("text", "{"), *_listed(named), ("text", "}")]
    return [("text", "["), *_listed([("", value) for value in cast("list[object]", data)]), ("text", "]")]


def _listed(named: list[tuple[str, object]]) -> list[tuple[str, object]]:
    pieces: list[tuple[str, object]] = []
    for at, (name, value) in enumerate(named):
        pieces += [("text", f",{name}" if at else name), ("value", value)]
    return pieces


def _values(data: object) -> Iterable[object]:
    """What stands in a container; nothing in what is none."""
    if isinstance(data, Mapping):
        return cast("Mapping[object, object]", data).values()
    return cast("list[object]", data) if isinstance(data, (list, tuple)) else ()
