"""The schema of a state class, compiled once: what to render, what to hide, what cannot be tracked.

Compiling answers two questions early. Can every field be rendered? (If not: `SchemaError` where the class is defined.)
And what do the markers say? At run time the *value* decides its own shape, so unions and subclasses need no plan.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, MutableSequence, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ForwardRef, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, RootModel
from typing_extensions import is_typeddict

from ._hints import DICTS, SEQUENCES, SETS, aliases_of, alternatives, has_secret, list_items, typed_entries, unwrap
from ._resolution import check_resolution
from ._scalars import SCALARS
from .errors import SchemaError
from .markers import MARKERS, Hidden, Marker, Pinned, Shared, Tracked, Untrusted, Volatile
from .paths import is_field_name
from .snapshots import PLAIN, LeafMeta
from .tools import ToolSpec

RESERVED_PREFIX = "pkv_"
_ABSTRACT_LISTS: tuple[object, ...] = (Sequence, MutableSequence)
_KEYS: tuple[type, ...] = (str, int, Enum, UUID)


@dataclass(frozen=True, slots=True)
class Node:
    """What is known about the values at one place of a schema.

    Attributes:
        meta: The markers of this place.
        hidden: Never rendered.
        item: The items of a list here.
        entry: The values of a dict here.
        key: The field that identifies the items of a list here.
        key_aliases: The other names of that field in data.
        is_float: An int here is meant as a float (`1` reads `1.0`).
    """

    meta: LeafMeta = PLAIN
    hidden: bool = False
    item: Node | None = None
    entry: Node | None = None
    key: str | None = None
    key_aliases: frozenset[str] = frozenset()
    is_float: bool = False

    def __post_init__(self) -> None:
        """One object for all that is plain: a walk looks at it for each value, and `is` is quicker than `==`."""
        if self.meta == PLAIN:
            object.__setattr__(self, "meta", PLAIN)


ANYTHING = Node()


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A compiled model class: its visible fields in order, and the names of the hidden ones."""

    fields: tuple[tuple[str, Node], ...]
    hidden: frozenset[str]
    is_root: bool


_specs: dict[type[BaseModel], ModelSpec] = {}


def model_spec(cls: type[BaseModel]) -> ModelSpec:
    """The compiled form of a model class, made once.

    Raises:
        SchemaError: The class cannot be tracked.
    """
    found = _specs.get(cls)
    try:
        return found if found is not None else _compile_model(cls, ())
    except RecursionError:  # no model, or it would have been met again
        mend = "use JsonValue for JSON data of any depth, or hold nested items by id in a dict or keyed list"
        raise SchemaError(f"{cls.__name__} has a TypedDict or type alias that contains itself; {mend}") from None


def _compile_model(cls: type[BaseModel], inside: tuple[type[BaseModel], ...]) -> ModelSpec:
    if cls in inside:
        names = " -> ".join(model.__name__ for model in (*inside[inside.index(cls) :], cls))
        raise SchemaError(f"{cls.__name__} contains itself ({names}); hold nested items by id in a dict or keyed list")
    if cls in _specs:
        return _specs[cls]
    if not cls.__pydantic_complete__:
        cls.model_rebuild()
    fields: list[tuple[str, Node]] = []
    hidden: set[str] = set()
    for name, info in cls.model_fields.items():
        where = f"field {name!r} of {cls.__name__}"
        check_name(name, where)
        node = _compile(info.annotation, info.metadata, where, (*inside, cls))
        if node.hidden:
            hidden.add(name)
            info.repr = False
        else:
            fields.append((name, node))
    is_root = issubclass(cls, RootModel)
    for name, computed in () if is_root else cls.model_computed_fields.items():  # (pydantic ignores a root's)
        node = _compile(computed.return_type, (), f"computed field {name!r} of {cls.__name__}", (*inside, cls))
        if node.hidden:
            hidden.add(name)
            computed.repr = False
        else:
            fields.append((name, node))
    spec = ModelSpec(tuple(fields), frozenset(hidden), is_root)
    _specs[cls] = spec
    return spec


def check_name(name: str, where: str) -> None:
    """Refuse a field name that a path cannot hold or that the library keeps for itself.

    Raises:
        SchemaError: With the mend.
    """
    if not is_field_name(name):
        raise SchemaError(f"{where} has a name that is no identifier; rename it and use an alias for the outside name")
    if name.startswith(RESERVED_PREFIX):
        raise SchemaError(f"{where} begins with the reserved prefix {RESERVED_PREFIX!r}; rename it")


def _compile(hint: Any, metadata: Iterable[object], where: str, inside: tuple[type[BaseModel], ...]) -> Node:
    """The node of one annotation with the markers that stand beside it."""
    marks = [mark() if isinstance(mark, type) else mark for mark in metadata if _is_marker(mark)]
    hint, more = unwrap(hint)
    marks += [mark() if isinstance(mark, type) else mark for mark in more if _is_marker(mark)]
    if any(isinstance(mark, Hidden) for mark in marks) or has_secret(hint):
        return Node(hidden=True)
    node = _shape(hint, where, inside)
    if _hides(node):
        return Node(hidden=True)  # a list of secrets is a secret: how many there are is already too much
    for mark in marks:
        node = _marked(node, mark, where)
        if isinstance(mark, Volatile):
            check_resolution(hint, mark, where)
    if node.meta.volatile and node.meta.pinned:
        raise SchemaError(f"{where} is both Volatile and Pinned; a value that should not move has no resolution")
    if node.meta.volatile and node.meta.shared:
        raise SchemaError(f"{where} is both Volatile and Shared; what never stands in a head cannot be shared there")
    if node.key is not None:
        node = replace(node, key_aliases=_check_key(hint, node.key, where))
    return node


def _hides(node: Node | None) -> bool:
    return node is not None and (node.hidden or _hides(node.item) or _hides(node.entry))


def _is_marker(mark: object) -> bool:
    return isinstance(mark, MARKERS) or (isinstance(mark, type) and issubclass(mark, MARKERS))


def _marked(node: Node, mark: Marker | Any, where: str) -> Node:
    meta = node.meta
    if isinstance(mark, Tracked):
        meta = replace(meta, label=mark.label, critical=mark.critical, ttl=mark.ttl)
        return replace(node, meta=meta, key=mark.key if mark.key is not None else node.key)
    if isinstance(mark, Volatile):
        meta = replace(meta, volatile=True, resolution=mark.resolution)
    elif isinstance(mark, Pinned):
        meta = replace(meta, pinned=True)
    elif isinstance(mark, Untrusted):
        meta = replace(meta, untrusted=True)
    elif isinstance(mark, Shared):
        meta = replace(meta, shared=True)
    return replace(node, meta=meta)


def _shape(hint: Any, where: str, inside: tuple[type[BaseModel], ...]) -> Node:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is None or origin is Literal:
        return ANYTHING
    if origin in (Union, types.UnionType):
        return _merge([_compile(arg, (), where, inside) for arg in args], where)
    if isinstance(hint, (str, ForwardRef)):
        raise SchemaError(f"{where} refers to {hint!r}, which is not defined yet; define it before the state class")
    target = cast("object", origin or hint)
    if not isinstance(target, type):
        raise _refused(hint, where)
    if issubclass(target, BaseModel):
        _compile_model(target, inside)
        return ANYTHING
    return _plain_shape(hint, cast("type[object]", target), args, where, inside)


def _plain_shape(
    hint: Any, target: type[object], args: tuple[Any, ...], where: str, inside: tuple[type[BaseModel], ...]
) -> Node:
    """The shape of a class that is no model."""
    if issubclass(target, SCALARS):
        return Node(is_float=issubclass(target, float))
    if issubclass(target, ToolSpec):
        return ANYTHING
    if issubclass(target, SETS):
        return _set_node(args, where, inside)
    if is_typeddict(target):
        return _typed_dict_node(target, where, inside)
    if issubclass(target, DICTS):
        return _dict_node(args, where, inside)
    is_list = target in _ABSTRACT_LISTS or issubclass(target, SEQUENCES)
    if is_list and not hasattr(cast("object", target), "_fields"):
        return Node(item=_merge([_compile(arg, (), where, inside) for arg in args if arg not in ((), ...)], where))
    raise _refused(hint, where)


def _refused(hint: Any, where: str) -> SchemaError:
    name = getattr(hint, "__qualname__", None) or str(hint)
    return SchemaError(
        f"{where} has the type {name}, which has no text that a model could read; "
        "use a pydantic model, a plain value, a list, dict or set of them, or mark the field Hidden()"
    )


def _merge(nodes: list[Node], where: str) -> Node:
    """One node for several alternatives; the value picks its own at run time."""
    if not nodes:
        return ANYTHING
    keys = {node.key for node in nodes if node.key is not None}
    if len(keys) > 1:
        raise SchemaError(f"{where} has alternatives with different keys {sorted(keys)}; use one key for all")
    items = [node.item for node in nodes if node.item is not None]
    entries = [node.entry for node in nodes if node.entry is not None]
    meta = PLAIN
    for node in nodes:
        meta = replace(node.meta.inside(meta), label=meta.label or node.meta.label)
    return Node(
        meta=meta,
        hidden=any(node.hidden for node in nodes),
        item=_merge(items, where) if items else None,
        entry=_merge(entries, where) if entries else None,
        key=keys.pop() if keys else None,
        key_aliases=frozenset[str]().union(*(node.key_aliases for node in nodes)),
        is_float=any(node.is_float for node in nodes),
    )


def _set_node(args: tuple[Any, ...], where: str, inside: tuple[type[BaseModel], ...]) -> Node:
    for inner in (kind for arg in args for kind in alternatives(arg)):
        target = cast("object", get_origin(inner) or inner)
        if isinstance(target, type) and not issubclass(target, SCALARS) and target is not Any:
            name = cast("type[object]", target).__name__
            raise SchemaError(f"{where} is a set of {name}; use a list with key=... for items with fields")
    return Node(item=_merge([_compile(arg, (), where, inside) for arg in args], where))


def _dict_node(args: tuple[Any, ...], where: str, inside: tuple[type[BaseModel], ...]) -> Node:
    if not args:
        return ANYTHING
    key, _ = unwrap(args[0])
    literal = get_origin(key) is Literal and all(isinstance(word, str) for word in get_args(key))
    if not (key is Any or literal or (isinstance(key, type) and issubclass(key, str))):
        name = getattr(args[0], "__name__", str(args[0]))
        raise SchemaError(f"{where} is a dict with {name} keys; use str keys, since a path and JSON have only those")
    if _compile(args[0], (), where, inside).hidden:
        return Node(hidden=True)
    return Node(entry=_compile(args[1], (), where, inside) if len(args) > 1 else ANYTHING)  # (a Counter's are int)


def _says_more(node: Node | None) -> bool:
    """Whether a marker holds somewhere in a node."""
    return node is not None and (
        node.hidden or node.meta is not PLAIN or node.key is not None or _says_more(node.item) or _says_more(node.entry)
    )


def _typed_dict_node(target: type[object], where: str, inside: tuple[type[BaseModel], ...]) -> Node:
    """A dict at run time: nothing is left there of what the class says about its entries, so it may say nothing."""
    for name, hint in typed_entries(target).items():
        if _says_more(_compile(hint, (), f"{where}, entry {name!r}", inside)):
            raise SchemaError(f"{where} is a TypedDict that says more of {name!r} than its type; use a pydantic model")
    return ANYTHING


def _check_key(hint: Any, key: str, where: str) -> frozenset[str]:
    """The items of a keyed list must be models that have the key; returns its aliases in them."""
    models = [model for part in list_items(hint) for model in alternatives(part)]
    if not models:
        raise SchemaError(f"{where} has key={key!r} but is no list; take the key away or use a list of models")
    for model in models:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise SchemaError(f"{where} has key={key!r} but its items are no models; use a list of models")
        if key not in model.model_fields or key in model_spec(model).hidden:
            raise SchemaError(f"{where} has key={key!r}, but {model.__name__} has no visible field {key!r}; name one")
        kinds = alternatives(model.model_fields[key].annotation)
        if any(isinstance(kind, type) and (kind is bool or not issubclass(kind, _KEYS)) for kind in kinds):
            raise SchemaError(f"{where} has key={key!r}, which is not a str, int, enum or UUID; use one of those")
    return frozenset[str]().union(*(aliases_of(model.model_fields[key]) for model in models))
