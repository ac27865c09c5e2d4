"""Tool specs: one canonical form, and one order that never moves what was sent.

The tools stand before everything else in a prompt, so a byte that differs there costs the whole prefix. Servers list
them in any order, and write numbers and keywords as they like, so they are brought into one form. What changes a
model's choices stays as declared: the order of `properties`, `required` and `enum`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from .errors import ToolError
from .escape import escape_json

# Keywords of JSON Schema whose value is a map from names to schemas, a schema, a list of schemas.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SINGLE = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
MAX_NAME = 64
"""Characters of a tool's name; the fewest that a provider takes."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_EXACT = 2**53  # from here on a float no longer names one integer


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it.

    Attributes:
        name: What the model calls it.
        description: What it is for.
        parameters: The JSON schema of its arguments.
        server: Where it comes from, for instance the name of an MCP server; empty for the application's own.
        id: Tells tools of one name and server apart.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    server: str = ""
    id: str = ""

    @property
    def key(self) -> str:
        """What tells this tool from all others: `name`, `name@server`, or `name@server#id`."""
        server = f"@{self.server}" if self.server or self.id else ""
        return f"{self.name}{server}{f'#{self.id}' if self.id else ''}"

    def of_server(self, server: str) -> ToolSpec:
        """The tool under a name that no other server's has, and that providers take: `server__name`.

        What they refuse in a name is an underscore, and a name of more than 64 characters ends with a hash of it. The
        name that the server knows is the `id`.

        Args:
            server: The server's name with you.

        Raises:
            ToolError: It has none.
        """
        if not isinstance(server, str) or not server:  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise ToolError("a server of tools has no name; give it one, text that tells apart tools of one name")
        whole = f"{server}__{self.name}"
        name = _NOT_IN_NAMES.sub("_", whole)
        if len(name) > MAX_NAME:
            digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
            name = f"{name[: MAX_NAME - 9]}_{digest[:8]}"
        return replace(self, name=name, server=server, id=self.id or self.name)


def is_tool_name(name: str) -> bool:
    """Whether every provider takes a name: 1 to 64 of a to z, A to Z, 0 to 9, _ and -."""
    return 0 < len(name) <= MAX_NAME and _NOT_IN_NAMES.search(name) is None


def canonical_tool(tool: ToolSpec) -> ToolSpec:
    """A tool in canonical form.

    The keywords of each schema are sorted and numbers are written in one way (1.0 is 1); names and values keep the
    order in which they were declared.

    Args:
        tool: Any spec; it is not changed.

    Returns:
        The same tool; equal specs have equal bytes, however they were written.

    Raises:
        ToolError: It is none, has no name, or its schema is not plain JSON data.
    """
    if not isinstance(tool, ToolSpec):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise ToolError(
            f"a tool is a {type(tool).__name__}, and a ToolSpec is needed; "
            "`tool_from` makes one of a function or of a framework's tool"
        )
    if not tool.name:
        raise ToolError(f"a tool{f' of server {tool.server!r}' if tool.server else ''} has no name; give it one")
    for part, value, kind in (("description", tool.description, str), ("parameters", tool.parameters, Mapping)):
        if not isinstance(cast("object", value), kind):
            needed = "a JSON schema as a dict" if kind is Mapping else "text"
            raise ToolError(f"tool {tool.name!r}: {part} is a {type(value).__name__}; pass {needed}")
    parameters = cast("dict[str, object]", _schema(dict(tool.parameters), f"tool {tool.name!r}: parameters"))
    return replace(tool, parameters=parameters)


def tool_json(tool: ToolSpec) -> str:
    """The canonical JSON of what a model sees of a tool: its name, description and parameters.

    Args:
        tool: Any spec.

    Returns:
        One line, without white space between its pieces, non-ASCII text as it is.

    Raises:
        ToolError: It has no name, or its schema is not plain JSON data.
    """
    one = checked_tool(tool)
    seen = {"name": one.name, "description": one.description, "parameters": one.parameters}
    return _json(seen)


def checked_tool(tool: ToolSpec) -> ToolSpec:
    """A tool in canonical form whose text can be sent; see `canonical_tool`."""
    one = canonical_tool(tool)
    try:
        _json([one.name, one.description, one.parameters, one.server, one.id]).encode()
    except UnicodeEncodeError:
        raise ToolError(f"tool {tool.name!r}: text with half of a surrogate pair; decode it first") from None
    return one


def spec_texts(tool: ToolSpec) -> dict[str, str]:
    """What a state that holds a tool shows of it: the JSON text of its name, description and parameters."""
    one = checked_tool(tool)
    shown = {"name": one.name, "description": one.description, "parameters": one.parameters}
    return {name: escape_json(_json(value)) for name, value in shown.items()}


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def order_tools(frozen_names: Sequence[str], tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Put tools into the order in which they go out.

    What was sent stays where it was; what is new comes after it, sorted by name, server and id. At the start of an
    epoch nothing was sent, so all are sorted.

    Args:
        frozen_names: The keys (`ToolSpec.key`) of the tools that were sent in this epoch, in their order. One that is
            no longer among the tools is passed over: that breaks the prefix, so rather keep its spec and switch it off.
        tools: The tools, in any order.

    Returns:
        The tools in canonical form, in their order.

    Raises:
        ToolError: Two tools cannot be told apart, or a spec is not plain JSON data.
    """
    known: dict[str, ToolSpec] = {}
    for tool in map(canonical_tool, tools):
        if tool.key in known:
            raise ToolError(
                f"two tools have the key {tool.key!r}; give their ToolSpec a `server` or an `id`, or drop one"
            )
        known[tool.key] = tool
    frozen = [known[key] for key in dict.fromkeys(frozen_names) if key in known]
    sent = {tool.key for tool in frozen}
    late = [tool for tool in known.values() if tool.key not in sent]
    return (*frozen, *sorted(late, key=lambda tool: (tool.name, tool.server, tool.id)))


def sorted_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """A tool call's arguments with sorted keys, at every depth.

    A store may hand them back in another order than the model wrote them in; sorted, they are the same bytes always.

    Args:
        arguments: Plain JSON data; not changed.

    Returns:
        A copy. Lists keep their order, values are as they were.
    """
    return {name: _sorted(arguments[name]) for name in sorted(arguments)}


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        return sorted_arguments(cast("Mapping[str, object]", value))
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in cast("Sequence[object]", value)]
    return value


def _schema(schema: object, where: str) -> object:
    """A schema with its keywords sorted; everything that is not a keyword stays in order."""
    if not isinstance(schema, Mapping):
        return _data(schema, where)  # `true` and `false` are schemas, too
    canonical: dict[str, object] = {}
    for word, value in sorted(_items(cast("Mapping[object, object]", schema), where)):
        inside = f"{where}.{word}"
        if word in _NAMED and isinstance(value, Mapping):
            named = _items(cast("Mapping[object, object]", value), inside)
            canonical[word] = {name: _schema(one, f"{inside}.{name}") for name, one in named}
        elif word in _LISTED and isinstance(value, (list, tuple)):
            listed = cast("Sequence[object]", value)
            canonical[word] = [_schema(one, f"{inside}[{at}]") for at, one in enumerate(listed)]
        elif word in _SINGLE:
            canonical[word] = _schema(value, inside)
        else:
            canonical[word] = _data(value, inside)
    return canonical


def _data(value: object, where: str) -> object:
    """Plain JSON data in its own order, its numbers written in one way."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ToolError(f"{where} is a number that JSON does not have; leave it out")
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if isinstance(value, Mapping):
        return {
            name: _data(one, f"{where}.{name}") for name, one in _items(cast("Mapping[object, object]", value), where)
        }
    if isinstance(value, (list, tuple)):
        return [_data(one, f"{where}[{at}]") for at, one in enumerate(cast("Sequence[object]", value))]
    raise ToolError(f"{where} is a {type(value).__name__}, which is not plain JSON data; convert it first")


def _items(data: Mapping[object, object], where: str) -> list[tuple[str, object]]:
    for name in data:
        if not isinstance(name, str):
            raise ToolError(f"{where} has a key that is a {type(name).__name__}; keys are text")
    return list(cast("Mapping[str, object]", data).items())


__all__ = ["ToolSpec", "canonical_tool", "order_tools", "sorted_arguments", "tool_json"]
