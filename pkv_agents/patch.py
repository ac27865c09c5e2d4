"""Patches: changing a state by paths, validated by its schema.

    apply_patch(shop, {"orders[K417].status": "delivered", "orders[M220]": REMOVE})

Nothing is changed in place: the result is a new state that shares what did not change. All changes to one model are
validated together, so a rule over two fields sees both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy
from enum import Enum
from typing import Any, TypeVar, cast

from pydantic import BaseModel, RootModel, ValidationError

from ._hints import SEQUENCES, aliases_of
from ._schema import ANYTHING, Node, model_spec
from ._validation import reads_aliases, state_error
from ._walk import extra_path
from .errors import StateError
from .keyed import key_text
from .paths import Segment, is_field_name, join_field, join_key, parse_path
from .state import TrackedState, check_state

StateT = TypeVar("StateT", bound=TrackedState)


class Remove(Enum):
    """The patch value that deletes an entry of a keyed list or a dict; survives copying and pickling."""

    REMOVE = "$remove"

    def __repr__(self) -> str:
        """As it is written in code."""
        return "REMOVE"


REMOVE = Remove.REMOVE


def is_remove(value: object) -> bool:
    """Whether a patch value deletes."""
    return value is REMOVE or (isinstance(value, dict) and value == {"$remove": True})


def append(*items: object) -> dict[str, object]:
    """The patch value that adds to what is there: to a list at its end, to a set as members.

        apply_patch(desk, {"todos": append("buy milk"), "tags": append("urgent")})

    Unlike a list that is set whole, it loses nothing that another tool added in the same step. It is plain data
    (`{"$append": [...]}`), so it can stand in JSON and in a graph's writes.

    Args:
        items: What to add; to a keyed list, items with keys of their own.

    Returns:
        The value to patch with.
    """
    return {"$append": list(items)}


def is_append(value: object) -> bool:
    """Whether a patch value adds to what is there."""
    return isinstance(value, dict) and value.keys() == {"$append"} and isinstance(value["$append"], list)


class _Tree:
    """A patch, grouped by the steps of its paths."""

    __slots__ = ("added", "children", "is_set", "value")

    def __init__(self) -> None:
        self.children: dict[Segment, _Tree] = {}
        self.added: list[Any] | None = None
        self.is_set = False
        self.value: Any = None

    def add(self, path: str, value: object) -> None:
        tree = self
        for segment in parse_path(path):
            if tree.is_set:
                raise StateError(f"{path} is patched twice: as a whole and in part; patch it once")
            tree = tree.children.setdefault(segment, _Tree())
        if tree.is_set or tree.added is not None or (tree.children and not is_append(value)):
            raise StateError(f"{path} is patched twice; patch it once")
        if is_append(value):
            tree.added = cast("dict[str, list[Any]]", value)["$append"]
        else:
            tree.is_set, tree.value = True, value


def apply_patch(state: StateT, patch: Mapping[str, object]) -> StateT:
    """Change a state by paths.

    Args:
        state: The state; it is not changed.
        patch: Path to new value. `REMOVE`, or `{"$remove": true}` in JSON, deletes an entry of a keyed list or dict;
            deleting what is not there is no error. A new entry is set whole: `{"orders[N1]": {"status": "new"}}`
            (the key is filled in). `append(...)`, or `{"$append": [...]}` in JSON, adds to a list or set.

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
    if not tree.children:
        return state
    made = cast(StateT, _model(state, tree, ""))
    for segment in tree.children:  # NaN and the like pass pydantic, and have no text
        check_state(made, segment.text)
    return made


def _child(value: Any, tree: _Tree, path: str, node: Node) -> Any:
    """The new value at `path`: given whole, or the old one with parts of it changed."""
    if tree.is_set:
        if is_remove(tree.value):
            raise StateError(
                f"{path} ({type(value).__name__}) cannot be removed; only entries of a keyed list, a dict or a model "
                "with extra fields can, set it instead"
            )
        return tree.value
    if tree.children:
        value = _in_parts(value, tree, path, node)
    return value if tree.added is None else _added(value, tree.added, path)


def _in_parts(value: Any, tree: _Tree, path: str, node: Node) -> Any:
    if isinstance(value, RootModel):
        root = cast("RootModel[Any]", value)
        inner = dict(model_spec(type(root)).fields).get("root", ANYTHING)
        return _validated(root, _in_parts(root.root, tree, path, inner), path)
    if isinstance(value, BaseModel):
        return _model(value, tree, path)
    if isinstance(value, SEQUENCES):
        values = cast("list[Any]", value)
        changed = _keyed(values, tree, path, node.key, node) if node.key else _indexed(values, tree, path, node)
        return _like(value, changed)
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[str, Any]", value), tree, path, node)
    step = next(iter(tree.children)).text
    if value is None:
        raise StateError(f"{path} (NoneType) has no {step!r} to change; set {path} whole")
    if isinstance(value, (set, frozenset)):
        raise StateError(
            f"{path} ({type(cast('object', value)).__name__}) has no parts; set {path} whole, or add with append(...)"
        )
    raise StateError(f"{path} ({type(value).__name__}) has no parts, so {step!r} is not in it; set {path} whole")


def _added(value: Any, items: list[Any], path: str) -> Any:
    """A list, tuple or set with more in it."""
    if isinstance(value, RootModel):
        root = cast("RootModel[Any]", value)
        return _validated(root, _added(root.root, items, path), path)
    if isinstance(value, (*SEQUENCES, set, frozenset)):
        return _like(value, [*cast("list[Any]", value), *items])
    raise StateError(f"{path} ({type(value).__name__}) is no list or set to append to; set {path} whole")


def _like(value: Any, items: list[Any]) -> Any:
    """Items in a container of the kind that they were in: a strict model takes no other."""
    if isinstance(value, deque):
        return deque(items, cast("deque[Any]", value).maxlen)
    make: type[Any] = next((kind for kind in (tuple, set, frozenset) if isinstance(value, kind)), list)
    try:
        return make(items)
    except TypeError:  # what no set can hold; pydantic says where
        return items


def _no_field(model: BaseModel, name: str, path: str) -> StateError:
    cls = type(model)
    where = f"{path} ({cls.__name__})" if path else cls.__name__
    if name in cls.model_computed_fields:
        return StateError(f"{where} computes {name!r}; patch the fields that it is computed from")
    for field, info in cls.model_fields.items():
        if name in aliases_of(info):
            return StateError(f"{where} has no field {name!r}; that is the alias of {field!r}, and a path names fields")
    return StateError(
        f"{where} has no field {name!r}; "
        f"declare it in the schema, or check the spelling (it has {', '.join(cls.model_fields)})"
    )


def _model(model: BaseModel, tree: _Tree, path: str) -> BaseModel:
    cls = type(model)
    nodes = dict(model_spec(cls).fields)
    extra = model.model_extra
    # (An extra field may be named like a field that has an alias; here it would be taken for the field.)
    values = (extra or {}) | {name: getattr(model, name) for name in cls.model_fields}
    for segment, child in tree.children.items():
        name = segment.text
        is_open = extra is not None and name not in cls.model_computed_fields and (child.is_set or name in extra)
        if name in cls.model_fields and not segment.is_key:
            where = join_field(path, name)
        elif is_open and is_field_name(name) != segment.is_key:
            where = extra_path(path, name)
            if child.is_set and is_remove(child.value):
                values.pop(name, None)
                continue
        else:
            raise _no_field(model, name, path)
        values[name] = _child(values.get(name), child, where, nodes.get(name, ANYTHING))
    made = _validated(model, values, path)
    private = getattr(model, "__pydantic_private__", None)
    if private is not None:
        object.__setattr__(made, "__pydantic_private__", dict(private))
    made.__pydantic_fields_set__ = (model.model_fields_set | {step.text for step in tree.children}) & values.keys()
    return made


def _validated(model: BaseModel, values: object, path: str) -> BaseModel:
    """A new model of the same class."""
    cls = type(model)
    try:
        # The class's own validator, not its model_validate: an error must know where in the state it stands.
        validator = cls.__pydantic_validator__
        return cast(BaseModel, validator.validate_python(values, by_name=True, by_alias=reads_aliases(cls)))
    except ValidationError as error:
        raise state_error(error, cls, path) from None


def _keyed(values: list[Any], tree: _Tree, path: str, key: str, node: Node) -> list[Any]:
    made = {key_text(getattr(value, key, None)) or "": value for value in values}
    for segment, child in tree.children.items():
        name, entry = segment.text, join_key(path, segment.text)
        if child.is_set and is_remove(child.value):
            made.pop(name, None)
        elif child.is_set:
            made[name] = _with_key(child.value, key, node.key_aliases, name, entry)
        elif name in made:
            made[name] = _child(made[name], child, entry, node.item or ANYTHING)
        else:
            raise StateError(f"{path} ({type(values).__name__}) has no entry {name!r}; set {entry} whole to add it")
    return list(made.values())  # its model validates it, and makes it a KeyedList again


def _with_key(value: object, key: str, aliases: frozenset[str], name: str, entry: str) -> object:
    """The new item with its key filled in; a key that is given must agree with the path."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        said = next((one for one in (key, *sorted(aliases)) if one in fields), None)
        item: object = fields if said is not None else {key: name, **fields}
        given = fields[said] if said is not None else name
    else:
        item, given = value, getattr(value, key, None)
    if key_text(given) != name:
        raise StateError(f"{entry} is set to an item whose {key!r} is another; the key in path and item must agree")
    return item


def _indexed(values: list[Any], tree: _Tree, path: str, node: Node) -> list[Any]:
    made = list(values)
    for segment, child in tree.children.items():
        if not segment.text.isdecimal() or int(segment.text) >= len(made):
            raise StateError(
                f"{path} ({type(values).__name__}) has no item {segment.text!r} ({len(made)} items); "
                "add with append(...), or set it whole to insert"
            )
        index = int(segment.text)
        if child.is_set and is_remove(child.value):
            raise StateError(
                f"{path}[{index}] ({type(made[index]).__name__}) cannot be removed, since later items would take other "
                f"numbers; set {path} whole"
            )
        made[index] = _child(made[index], child, f"{path}[{index}]", node.item or ANYTHING)
    return made


def _mapping(values: Mapping[str, Any], tree: _Tree, path: str, node: Node) -> dict[str, Any]:
    made = copy(values) if isinstance(values, dict) else dict(values)
    for segment, child in tree.children.items():
        name, entry = segment.text, join_key(path, segment.text)
        if child.is_set and is_remove(child.value):
            made.pop(name, None)
        elif child.is_set or name in made:
            made[name] = _child(made.get(name), child, entry, node.entry or ANYTHING)
        else:
            raise StateError(f"{path} ({type(values).__name__}) has no entry {name!r}; set {entry} whole to add it")
    return made
