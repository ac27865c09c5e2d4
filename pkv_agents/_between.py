"""The patch between two states: what a state that comes back whole has really changed.

Frameworks hand a state on as a whole, to a graph inside another graph, say. Two that work side by side give back two
wholes, of which the later one would undo what only the earlier one changed; two patches can be merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, RootModel

from ._hints import SEQUENCES
from ._schema import ANYTHING, Node, model_spec
from ._walk import extra_path, extras
from .keyed import key_text
from .patch import REMOVE, is_append, is_remove
from .paths import join_field, join_key
from .state import TrackedState

StateT = TypeVar("StateT", bound=TrackedState)
Patch = dict[str, object]


def patch_between(before: StateT, now: StateT) -> Patch:
    """The patch that makes one state into another.

    Args:
        before: The state to be patched.
        now: What it should be; of the same class.

    Returns:
        Path to new value: `apply_patch(before, patch_between(before, now))` is `now`. The paths go as deep as there are
        models, dicts and keyed lists; other lists, sets and a keyed list in another order are set whole.
    """
    patch: Patch = {}
    _model(before, now, "", patch)
    return patch


def _model(old: BaseModel, new: BaseModel, path: str, patch: Patch) -> None:
    nodes = dict(model_spec(type(new)).fields)

    def place(name: str) -> str:
        return join_field(path, name) if name in type(new).model_fields else extra_path(path, name)

    _entries(_values(old), _values(new), place, lambda name: nodes.get(name, ANYTHING), patch)


def _entries(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    place: Callable[[str], str],
    node: Callable[[str], Node],
    patch: Patch,
) -> None:
    for name in {**old, **new}:
        if name not in new:
            patch[place(name)] = REMOVE
        elif name not in old:
            patch[place(name)] = new[name]
        else:
            _part(old[name], new[name], place(name), node(name), patch)


def _part(old: Any, new: Any, path: str, node: Node, patch: Patch) -> None:
    """What has changed at a path: its parts, or all of it."""
    if _is_same(old, new):
        return
    if isinstance(new, BaseModel) and type(old) is type(new) and not isinstance(new, RootModel):
        _model(old, new, path, patch)
        return
    was, now = _named(old, node), _named(new, node)
    if was is None or now is None or (node.key is not None and not _keeps_order(was, now)):
        patch[path] = new
        return
    inner = (node.entry if node.key is None else node.item) or ANYTHING
    _entries(was, now, lambda name: join_key(path, name), lambda _: inner, patch)


def _named(value: Any, node: Node) -> dict[str, Any] | None:
    """The entries of a keyed list or a dict by name; None where a patch cannot name them."""
    if node.key is not None and isinstance(value, SEQUENCES):
        return {key_text(getattr(item, node.key, None)) or "": item for item in cast("list[Any]", value)}
    if node.key is not None or not isinstance(value, Mapping):
        return None
    entries = dict(cast("Mapping[Any, Any]", value))
    # A value that reads like a word of the patch itself is set as a part of the whole, where it is data.
    plain = all(type(name) is str and not is_remove(one) and not is_append(one) for name, one in entries.items())
    return entries if plain else None


def _keeps_order(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether items only went away, or came at the end."""
    return [*new] == [*(name for name in old if name in new), *(name for name in new if name not in old)]


def _values(model: BaseModel) -> dict[str, Any]:
    return {name: getattr(model, name) for name in type(model).model_fields} | dict(extras(model))


def _is_same(one: Any, two: Any) -> bool:
    """Whether two values are equal and of one type, inside too: `1` is not `1.0`."""
    if type(one) is not type(two):
        return False
    if isinstance(one, BaseModel):
        return _is_same(_values(one), _values(two))
    if isinstance(one, Mapping):
        old, new = cast("Mapping[Any, Any]", one), cast("Mapping[Any, Any]", two)
        return old.keys() == new.keys() and all(_is_same(old[name], new[name]) for name in old)
    if isinstance(one, SEQUENCES):
        olds, news = cast("list[Any]", one), cast("list[Any]", two)
        return len(olds) == len(news) and all(map(_is_same, olds, news))
    return bool(one == two)
