"""The operations of an OpenAPI document as tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..errors import ToolError
from ..tools import ToolSpec, order_tools
from ._arguments import as_map

_METHODS = ("delete", "get", "head", "options", "patch", "post", "put", "trace")
_REFERENCES = 64
_MAX_PARTS = 20_000
"""Objects in the schemas of one operation, with what they refer to in its place; a few references can name millions."""

Data = Mapping[str, Any]


def tools_from_openapi(document: Mapping[str, object], *, server: str = "") -> tuple[ToolSpec, ...]:
    """The operations of an OpenAPI document (3.x) as tools.

    Parameters and the fields of a JSON body are the arguments; a body that is no object, or has a field that is called
    like a parameter, is the argument `body`. Operations without an `operationId` are named by method and path.

    Args:
        document: The document, as data.
        server: Where the tools come from; their text then counts as written by others.

    Returns:
        The tools, sorted.

    Raises:
        ToolError: It is no such document, or a reference leads nowhere.
    """
    paths = as_map(document.get("paths"))
    if paths is None:
        raise ToolError("this is no OpenAPI document: it has no `paths`; pass the whole document as data")
    made: list[ToolSpec] = []
    for path, item in paths.items():
        place = as_map(item) or {}
        for method in _METHODS:
            if (operation := as_map(place.get(method))) is not None:
                name = str(operation.get("operationId") or f"{method}_{'_'.join(_words(path))}")
                shared = _listed(place.get("parameters"))
                made.append(_Reader(document, name).tool(operation, shared, server))
    return order_tools((), made)


class _Reader:
    """Reads one operation of a document."""

    def __init__(self, document: Data, name: str) -> None:
        self.document = document
        self.name = name
        self.room = _MAX_PARTS

    def tool(self, operation: Data, shared: Sequence[object], server: str) -> ToolSpec:
        """The operation's spec."""
        properties: dict[str, object] = {}
        required: list[str] = []
        for given in (*shared, *_listed(operation.get("parameters"))):
            parameter = self.resolved(given)
            name = parameter.get("name")
            if not isinstance(name, str):
                raise ToolError(f"operation {self.name!r} has a parameter without a name")
            described = {"description": parameter["description"]} if "description" in parameter else {}
            properties[name] = {**self.inlined(parameter.get("schema", {})), **described}
            if parameter.get("required"):
                required.append(name)
        body = self.resolved(operation.get("requestBody", {}))
        content = as_map((as_map(body.get("content")) or {}).get("application/json")) or {}
        schema = self.inlined(content.get("schema", {}))
        fields = as_map(schema.get("properties"))
        if fields is not None and not fields.keys() & properties.keys():
            properties |= fields
            required += [str(one) for one in _listed(schema.get("required"))] if body.get("required") else []
        elif schema:
            properties["body"] = schema
            required += ["body"] if body.get("required") else []
        parameters: dict[str, object] = {"type": "object", "properties": properties}
        if required:
            parameters["required"] = list(dict.fromkeys(required))
        says = "\n".join(str(operation[word]) for word in ("summary", "description") if operation.get(word))
        return ToolSpec(self.name, says, parameters, server)

    def resolved(self, value: object) -> Data:
        """What a local reference names, or the value itself."""
        for _ in range(_REFERENCES):
            reference = (as_map(value) or {}).get("$ref")
            if reference is None:
                break
            value = self._found(str(reference))
        made = as_map(value)
        if made is None:
            raise ToolError(f"operation {self.name!r}: a {type(value).__name__} where a schema should be")
        return made

    def inlined(self, schema: object, inside: tuple[str, ...] = ()) -> dict[str, Any]:
        """A schema with what it refers to in its place; a schema inside itself becomes any object."""
        self.room -= 1
        if self.room < 0 or len(inside) > _REFERENCES:
            raise ToolError(f"operation {self.name!r} refers to more than {_MAX_PARTS:,} schemas; offer a smaller one")
        reference = (as_map(schema) or {}).get("$ref")
        if isinstance(reference, str):
            if reference in inside:
                return {"type": "object"}
            inside = (*inside, reference)
        return {name: self._part(value, inside) for name, value in self.resolved(schema).items()}

    def _part(self, part: object, inside: tuple[str, ...]) -> object:
        if isinstance(part, Mapping):
            return self.inlined(cast("Data", part), inside)
        return [self._part(item, inside) for item in cast("list[object]", part)] if isinstance(part, list) else part

    def _found(self, reference: str) -> object:
        found: object = self.document if reference.startswith("#/") else None
        for step in reference[2:].split("/"):
            found = (as_map(found) or {}).get(step.replace("~1", "/").replace("~0", "~"))
        if found is None:
            where = json.dumps(reference[:200])
            raise ToolError(f"operation {self.name!r}: the reference {where} leads nowhere in the document")
        return found


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _words(path: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in path).split()


__all__ = ["tools_from_openapi"]
