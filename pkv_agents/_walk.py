"""Reading a state: one walk over its values, each attribute once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel

from ._hints import SEQUENCES
from ._scalars import SECRETS, scalar_text, sort_key
from ._schema import ANYTHING, Node, model_spec
from .errors import StateError, ToolError
from .escape import MAX_CHARACTERS, too_long
from .keyed import key_text
from .paths import is_field_name, join_field, join_key
from .snapshots import PLAIN, LeafMeta, Snapshot
from .tools import ToolSpec, spec_texts

MAX_DEPTH = 64
"""How many containers may stand inside one another. A fixed number: what fits must not hang on the caller's stack."""


@dataclass(slots=True)
class Walk:
    """Collects leaves while it descends; `path` of an error is added where it is caught."""

    leaves: dict[str, str] = field(default_factory=dict[str, str])
    meta: dict[str, LeafMeta] = field(default_factory=dict[str, LeafMeta])
    hidden: set[str] = field(default_factory=set[str])
    lists: set[str] = field(default_factory=set[str])
    depth: int = 0

    def model(self, model: BaseModel, path: str, meta: LeafMeta, skip: str | None = None) -> None:
        """Read a model's visible fields; one without any is the leaf `{}`, so that it exists for a reader."""
        spec = model_spec(type(model))
        before = len(self.leaves)
        if spec.hidden:
            self.hidden.update(path if spec.is_root else join_field(path, name) for name in spec.hidden)
        prefix = f"{path}." if path else ""
        for name, node in spec.fields:
            if name != skip:
                self.value(getattr(model, name), path if spec.is_root else prefix + name, node, meta)
        for name, value in extras(model):
            self.value(value, extra_path(path, name), ANYTHING, meta)
        if len(self.leaves) == before and path:
            self.leaf(path, "{}", meta)

    def leaf(self, path: str, text: str, meta: LeafMeta) -> None:
        """Record one leaf."""
        if len(text) > MAX_CHARACTERS:
            raise StateError(f"{path} {too_long(len(text))}")
        self.leaves[path] = text
        if meta is not PLAIN:
            self.meta[path] = meta

    def value(self, value: Any, path: str, node: Node, outer: LeafMeta) -> None:
        """Read one value, whatever its shape."""
        meta = node.meta if outer is PLAIN else node.meta.inside(outer)
        try:
            text = scalar_text(_as_float(value) if node.is_float and type(value) is int else value)
        except StateError as error:
            raise StateError(f"{path} ({type(value).__name__}) {error}") from None
        if text is not None:  # as in `leaf`: most values end here, so a call less counts
            if len(text) > MAX_CHARACTERS:
                raise StateError(f"{path} {too_long(len(text))}")
            self.leaves[path] = text
            if meta is not PLAIN:
                self.meta[path] = meta
            return
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise StateError(
                f"{_short(path)} contains itself or is nested more than {MAX_DEPTH} deep; "
                "hold nested items by id in a dict or keyed list"
            )
        if isinstance(value, BaseModel):
            self.model(value, path, meta)
        elif isinstance(value, SEQUENCES):
            self.sequence(cast("list[Any]", value), path, node, meta)
        elif isinstance(value, Mapping):
            self.mapping(cast("Mapping[Any, Any]", value), path, node, meta)
        elif isinstance(value, (set, frozenset)):
            texts = [self._member(item, path) for item in cast("set[Any]", value)]
            self.leaf(path, f"[{', '.join(sorted(texts, key=sort_key))}]", _with_items(meta, node))
        elif isinstance(value, SECRETS):
            self.hidden.add(path)
        elif isinstance(value, ToolSpec):
            self.tool(value, path, meta)
        else:
            raise StateError(
                f"{path} holds a {type(value).__name__}, which has no text that a model could read; "
                "use plain values and models, or mark the field Hidden()"
            )
        self.depth -= 1

    def tool(self, tool: ToolSpec, path: str, meta: LeafMeta) -> None:
        """Read a tool: its name, its description, and its schema as one line."""
        try:
            texts = spec_texts(tool)
        except ToolError as error:
            raise StateError(f"{path}: {error}") from None
        for name, text in texts.items():
            self.leaf(join_field(path, name), text, meta)

    def _member(self, item: Any, path: str) -> str:
        try:
            text = scalar_text(item)
        except StateError as error:
            raise StateError(f"{path} ({type(item).__name__}) {error}") from None
        if text is None:
            raise StateError(f"{path} is a set with a {type(item).__name__}; sets hold plain values")
        return text

    def sequence(self, values: list[Any], path: str, node: Node, meta: LeafMeta) -> None:
        """Read a list: by key, as one line of scalars, or by index."""
        if node.key is not None:
            self.keyed(values, path, node.key, node.item or ANYTHING, meta)
            return
        item = node.item or ANYTHING
        inner = Walk(hidden=self.hidden, lists=self.lists, depth=self.depth)
        for index, value in enumerate(values):
            inner.value(value, f"{path}[{index}]", item, meta)
        # One leaf an item, each at the item's own place, means that all items are scalars.
        flat = len(inner.leaves) == len(values) and not any(_is_container(value) for value in values)
        if flat:
            self.leaf(path, f"[{', '.join(inner.leaves.values())}]", _with_items(meta, node))
        else:
            self.lists.add(path)
            self.leaves.update(inner.leaves)
            self.meta.update(inner.meta)

    def keyed(self, values: list[Any], path: str, key: str, item: Node, meta: LeafMeta) -> None:
        """Read a list whose items have an identity; the key stands in the path and not again below it."""
        if not values:
            self.leaf(path, "[]", meta)
        seen: set[str] = set()
        for value in values:
            text = key_text(getattr(value, key, None))
            if text is None:
                raise StateError(f"{path} has an item without a usable {key!r} ({type(value).__name__}); set it")
            if text in seen:
                raise StateError(f"{path} has two items with {key}={text!r}; keys must be unique in one list")
            seen.add(text)
            self.model(value, join_key(path, text), item.meta.inside(meta), skip=key)

    def mapping(self, values: Mapping[Any, Any], path: str, node: Node, meta: LeafMeta) -> None:
        """Read a dict, sorted by key."""
        if not values:
            self.leaf(path, "{}", meta)
        named: dict[str, Any] = {}
        for key, value in values.items():
            key = key.value if isinstance(key, Enum) else key
            if not isinstance(key, str):
                raise StateError(f"{path} has a key of type {type(key).__name__}; use str keys")
            named[key] = value
        for key in sorted(named):
            try:
                inner = join_key(path, key)
            except StateError as error:
                raise StateError(f"{path} has a key whose {error}") from None
            self.value(named[key], inner, node.entry or ANYTHING, meta)


def _with_items(meta: LeafMeta, node: Node) -> LeafMeta:
    """The meta of a list that is one line: what its items' markers say holds for the line."""
    if node.item is None or node.item.meta is PLAIN:
        return meta
    return replace(node.item.meta.inside(meta), label=meta.label)


def _as_float(value: int) -> float | int:
    """An int where a float may stand, so that 1 and 1.0 read the same; one with too many digits for it stays exact."""
    return float(value) if abs(value) <= 2**53 else value


def _is_container(value: Any) -> bool:
    return isinstance(value, (BaseModel, *SEQUENCES, Mapping, set, frozenset))


def _short(path: str) -> str:
    """The beginning of a path that goes on and on."""
    return path if len(path) <= 60 else f"{path[:60]}..."


def extras(model: BaseModel) -> list[tuple[str, Any]]:
    """A model's extra fields, sorted by name as a dict's entries are.

    One that is named like a field is none: pydantic keeps it where the field has an alias, or is computed, and a reader
    would take it for the field (and see what the field hides).
    """
    extra = model.model_extra
    if not extra:
        return []
    declared = {*type(model).model_fields, *type(model).model_computed_fields}
    return [(name, extra[name]) for name in sorted(extra) if name not in declared]


def extra_path(path: str, name: str) -> str:
    """The path of an extra field of the model at `path`."""
    return join_field(path, name) if is_field_name(name) else join_key(path, name)


def check_value(value: Any, name: str, node: Node) -> None:
    """Read the value of one field for its errors alone.

    Raises:
        StateError: It has no text that a model could read.
    """
    Walk().value(value, name, node, PLAIN)


def snapshot(state: BaseModel) -> Snapshot:
    """Read a state once and freeze what a model may see of it.

    Every attribute is read once, so a getter with a side effect runs once. Hidden fields are not read at all.

    Args:
        state: A TrackedState (or any pydantic model).

    Returns:
        The leaves in schema order, with what the markers say about them and the paths of what is hidden.

    Raises:
        SchemaError: The class cannot be tracked.
        StateError: A value has no text (NaN, a lone surrogate, two equal keys, an object), is longer than a million
            characters, or is nested too deeply; the message names the path.
    """
    walk = Walk()
    walk.model(state, "", PLAIN)
    return Snapshot(walk.leaves, walk.meta, frozenset(walk.hidden), frozenset(walk.lists), type(state))
