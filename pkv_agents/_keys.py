"""Keyed lists that pydantic did not make: the default of a field is not validated, so it is a plain list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from pydantic import BaseModel

from ._hints import SEQUENCES, models_below
from ._schema import ANYTHING, Node, model_spec
from .keyed import KeyedList


def give_keys(model: BaseModel, only: str | None = None) -> None:
    """Let the keyed lists in a model be read by key, at any depth; they are replaced in place.

    Args:
        model: A model whose values can all be read (so it does not contain itself).
        only: One of its fields; None: all of them.
    """
    if _has_keys(type(model)):
        _in_model(model, only)


@lru_cache(maxsize=1 << 10)
def _has_keys(cls: type[BaseModel]) -> bool:
    """Whether a keyed list may stand somewhere in a model: no walk for all others."""
    return any(_holds_key(node) for model in models_below(cls) for _, node in model_spec(model).fields)


def _holds_key(node: Node | None) -> bool:
    return node is not None and (node.key is not None or _holds_key(node.item) or _holds_key(node.entry))


def _in_model(model: BaseModel, only: str | None = None) -> None:
    values: dict[str, Any] = vars(model)  # the fields themselves: assigning here validates nothing again
    for name, node in model_spec(type(model)).fields:
        if name in values and only in (None, name):
            values[name] = _keyed(values[name], node)


def _keyed(value: Any, node: Node) -> Any:
    if isinstance(value, BaseModel):
        _in_model(value)
    elif isinstance(value, Mapping):
        for entry in cast("Mapping[Any, Any]", value).values():
            _keyed(entry, node.entry or ANYTHING)
    elif isinstance(value, SEQUENCES):
        items = cast("list[Any]", value)
        for item in items:
            _keyed(item, node.item or ANYTHING)
        if node.key is not None and isinstance(value, list) and getattr(items, "key", "") != node.key:
            return KeyedList[Any].of(items, node.key)
    return cast("object", value)
