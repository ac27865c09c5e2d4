"""Patches: changing a state by paths, validated by its schema.

    apply_patch(shop, {"orders[K417].status": "delivered", "orders[M220]": REMOVE})

Nothing is changed in place: the result is a new state that shares what did not change. All changes to one model are
validated together, so a rule over two fields sees both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from ._schema import ANYTHING, Node, model_spec
from ._validation import state_error
from .errors import StateError
from .keyed import key_text
from .paths import Segment, join_field, join_key, parse_path
from .state import TrackedState

StateT = TypeVar("StateT", bound=TrackedState)


class Remove(Enum):
    """The patch value that deletes an entry of a keyed list or a dict; survives copying and pickling."""

    REMOVE = "$remove"

    def __repr__(self) -> str:
        """As it is written in code."""
        return "REMOVE"


REMOVE = Remove.REMOVE


def _is_remove(value: object) -> bool:
    return value is REMOVE or (isinstance(value, dict) and value == {"$remove": True})


class _Tree:
    """A patch, grouped by the steps of its paths."""

    __slots__ = ("children", "is_set", "value")

    def __init__(self) -> None:
        self.children: dict[Segment, _Tree] = {}
        self.is_set = False
        self.value: Any = None

    def add(self, path: str, value: object) -> None:
        tree = self
        for segment in parse_path(path):
            if tree.is_set:
                raise StateError(f"{path} is patched twice: as a whole and in part; patch it once")
            tree = tree.children.setdefault(segment, _Tree())
        if tree.is_set or tree.children:
            raise StateError(f"{path} is patched twice; patch it once")
        tree.is_set, tree.value = True, value


def apply_patch(state: StateT, patch: Mapping[str, object]) -> StateT:
    """Change a state by paths.

    Args:
        state: The state; it is not changed.
        patch: Path to new value. `REMOVE`, or `{"$remove": true}` in JSON, deletes an entry of a keyed list or dict;
            deleting what is not there is no error. A new entry is set whole: `{"orders[N1]": {"status": "new"}}`
            (the key is filled in).

    Returns:
        A new state.

    Raises:
        StateError: A path that is not in the schema or a value that does not fit; the message names path, type and
            the mend, and nothing was changed.
    """
    if not isinstance(patch, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise StateError(f"a patch maps paths to values; this is a {type(patch).__name__}")
    tree = _Tree()
    for path, value in patch.items():
        if not isinstance(path, str):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise StateError(f"a patch maps paths to values, and a path is a str, not a {type(path).__name__}")
        tree.add(path, value)
    return cast(StateT, _model(state, tree, "")) if tree.children else state


def _child(value: Any, tree: _Tree, path: str, node: Node) -> Any:
    """The new value at `path`: given whole, or the old one with parts of it changed."""
    if tree.is_set:
        if _is_remove(tree.value):
            raise StateError(f"{path} cannot be removed; only entries of a keyed list or dict can, set it instead")
        return tree.value
    if isinstance(value, BaseModel):
        return _model(value, tree, path)
    if isinstance(value, (list, tuple)):
        values = cast("list[Any]", value)
        return _keyed(values, tree, path, node.key, node) if node.key else _indexed(values, tree, path, node)
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[str, Any]", value), tree, path, node)
    step = next(iter(tree.children))
    raise StateError(f"{path} ({type(value).__name__}) has no parts, so {step.text!r} is not in it; set {path} whole")


def _model(model: BaseModel, tree: _Tree, path: str) -> BaseModel:
    cls = type(model)
    nodes = dict(model_spec(cls).fields)
    changes: dict[str, Any] = {}
    for segment, child in tree.children.items():
        name = segment.text
        if segment.is_key or name not in cls.model_fields:
            raise StateError(
                f"{f'{path} ({cls.__name__})' if path else cls.__name__} has no field {name!r}; "
                f"declare it in the schema, or check the spelling (it has {', '.join(cls.model_fields)})"
            )
        changes[name] = _child(getattr(model, name), child, join_field(path, name), nodes.get(name, ANYTHING))
    values = {name: getattr(model, name) for name in cls.model_fields} | dict(model.model_extra or {}) | changes
    try:
        # The class's own validator, not its model_validate: an error must know where in the state it stands.
        made = cast(BaseModel, cls.__pydantic_validator__.validate_python(values, by_name=True))
    except ValidationError as error:
        raise state_error(error, cls, path) from None
    private = getattr(model, "__pydantic_private__", None)
    if private is not None:
        object.__setattr__(made, "__pydantic_private__", dict(private))
    made.__pydantic_fields_set__ = model.model_fields_set | changes.keys()
    return made


def _keyed(values: list[Any], tree: _Tree, path: str, key: str, node: Node) -> list[Any]:
    made = {key_text(getattr(value, key, None)) or "": value for value in values}
    for segment, child in tree.children.items():
        name, entry = segment.text, join_key(path, segment.text)
        if child.is_set and _is_remove(child.value):
            made.pop(name, None)
        elif child.is_set:
            made[name] = _with_key(child.value, key, name, entry)
        elif name in made:
            made[name] = _child(made[name], child, entry, node.item or ANYTHING)
        else:
            raise StateError(f"{path} has no entry {name!r}; set {entry} whole to add it")
    return list(made.values())  # its model validates it, and makes it a KeyedList again


def _with_key(value: object, key: str, name: str, entry: str) -> object:
    """The new item with its key filled in; a key that is given must agree with the path."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        item: object = fields if key in fields else {key: name, **fields}
        given = fields.get(key, name)
    else:
        item, given = value, getattr(value, key, None)
    if key_text(given) != name:
        raise StateError(f"{entry} is set to an item whose {key!r} is another; the key in path and item must agree")
    return item


def _indexed(values: list[Any], tree: _Tree, path: str, node: Node) -> list[Any]:
    made = list(values)
    for segment, child in tree.children.items():
        if not segment.text.isdecimal() or int(segment.text) >= len(made):
            raise StateError(f"{path} has no item {segment.text!r} ({len(made)} items); set the list whole to add one")
        index = int(segment.text)
        made[index] = _child(made[index], child, f"{path}[{index}]", node.item or ANYTHING)
    return made


def _mapping(values: Mapping[str, Any], tree: _Tree, path: str, node: Node) -> dict[str, Any]:
    made = dict(values)
    for segment, child in tree.children.items():
        name, entry = segment.text, join_key(path, segment.text)
        if child.is_set and _is_remove(child.value):
            made.pop(name, None)
        elif child.is_set or name in made:
            made[name] = _child(made.get(name), child, entry, node.entry or ANYTHING)
        else:
            raise StateError(f"{path} has no entry {name!r}; set {entry} whole to add it")
    return made
