"""Whether a schema is a JSON Schema of a tool's arguments, and whether arguments fit one.

Only the keywords that tools use are looked at, and what is unknown is let through: a tool checks its own arguments, and
what is told here is told to a model, which then tries again.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_BOUNDS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "minimum": (operator.ge, "at least"),
    "maximum": (operator.le, "at most"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "exclusiveMaximum": (operator.lt, "less than"),
}
_DEPTH = 32
LIMITS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"}
    | {"enum", "const", "minItems", "maxItems", "uniqueItems", "format", "default", "description", "title", "examples"}
)
"""Keywords that say which values are right, or what they mean, and not what a call looks like."""

Schema = Mapping[str, Any]


def as_map(value: object) -> Schema | None:
    """A value as a map from names, if it is a map."""
    return cast("Schema", value) if isinstance(value, Mapping) else None


def schema_problem(schema: object, *, is_root: bool = True, room: int = _DEPTH) -> str | None:
    """Why something is no JSON Schema, in words; None when it is one.

    Args:
        schema: What a server calls a schema.
        is_root: It is that of a whole call, which is an object.
        room: How deep it may nest.
    """
    if isinstance(schema, bool) and not is_root:
        return None
    if not isinstance(schema, Mapping):
        return f"a schema is a {type(schema).__name__} and no object"
    if not room:
        return f"it is nested more than {_DEPTH} deep"
    one = cast("Schema", schema)
    kinds = one.get("type", "object" if is_root else [])
    named: list[object] = cast("list[object]", kinds) if isinstance(kinds, list) else [kinds]
    if not all(isinstance(kind, str) and kind in _TYPES for kind in named):
        return "`type` names a type that JSON does not have"
    if is_root and named != ["object"]:
        return "the arguments of a call are an object, and `type` says something else"
    required = one.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in cast("list[object]", required)):
        return "`required` is no list of names"
    for word in _MAPS:
        part = one.get(word, {})
        if not isinstance(part, Mapping):
            return f"`{word}` is a {type(part).__name__} and no object"
        for inner in cast("Mapping[str, object]", part).values():
            if problem := schema_problem(inner, is_root=False, room=room - 1):
                return problem
    for word in ("items", "additionalProperties", "not"):
        part = one.get(word, True)
        if not isinstance(part, list) and (problem := schema_problem(part, is_root=False, room=room - 1)):
            return problem
    return None


def same_shape(old: object, new: object) -> bool:
    """Whether two schemas ask for the same calls, but for limits and descriptions of values."""
    return _bare(old) == _bare(new)


def _bare(schema: object, *, is_map: bool = False) -> object:
    """A schema without its limits; a property may be named like a limit, and stays."""
    if isinstance(schema, Mapping):
        items = cast("Mapping[str, object]", schema).items()
        return {
            name: _bare(value, is_map=name in _MAPS and not is_map)
            for name, value in items
            if is_map or name not in LIMITS
        }
    if isinstance(schema, (list, tuple)):
        return [_bare(item) for item in cast("Sequence[object]", schema)]
    return schema


def argument_problems(schema: Schema, arguments: object) -> Iterator[str]:
    """What does not fit, in words for a model; nothing when all fits.

    Args:
        schema: The schema of the call.
        arguments: What the model wrote.
    """
    yield from _problems(schema, arguments, "arguments", schema, _DEPTH)


def _problems(schema: object, value: object, where: str, root: Schema, room: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or not room:
        return
    one = _resolved(cast("Schema", schema), root)
    kinds: list[str] = one["type"] if isinstance(one.get("type"), list) else [one["type"]] if "type" in one else []
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{where} must be {' or '.join(kinds)}"
        return
    yield from _limits(one, value, where)
    for word in ("anyOf", "oneOf"):
        choices = one.get(word)
        if isinstance(choices, list) and not any(
            next(_problems(choice, value, where, root, room - 1), None) is None
            for choice in cast("list[object]", choices)
        ):
            yield f"{where} fits none of the forms that are allowed"
    for part in cast("list[object]", one.get("allOf", [])):
        yield from _problems(part, value, where, root, room - 1)
    if isinstance(value, Mapping):
        yield from _object_problems(one, cast("Mapping[str, object]", value), where, root, room)
    elif isinstance(value, (list, tuple)) and isinstance(one.get("items"), Mapping):
        for at, item in enumerate(cast("Sequence[object]", value)):
            yield from _problems(one["items"], item, f"{where}[{at}]", root, room - 1)


def _object_problems(one: Schema, value: Mapping[str, object], where: str, root: Schema, room: int) -> Iterator[str]:
    properties = cast("Mapping[str, object]", one.get("properties", {}))
    for name in cast("list[str]", one.get("required", [])):
        if name not in value:
            yield f"{where}.{name} is missing"
    for name, inner in value.items():
        if name in properties:
            yield from _problems(properties[name], inner, f"{where}.{name}", root, room - 1)
        elif one.get("additionalProperties") is False and "patternProperties" not in one:
            yield f"{where} has no {str(name)[:60]!r}; it has {', '.join(properties) or 'nothing'}"


def _limits(one: Schema, value: object, where: str) -> Iterator[str]:
    if "enum" in one and value not in cast("list[object]", one["enum"]):
        yield f"{where} must be one of {', '.join(map(str, cast('list[object]', one['enum'])))}"
    if "const" in one and value != one["const"]:
        yield f"{where} must be {one['const']}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for word, (fits, says) in _BOUNDS.items():
            limit = one.get(word)
            if isinstance(limit, (int, float)) and not isinstance(limit, bool) and not fits(value, limit):
                yield f"{where} must be {says} {limit}"
    if isinstance(value, (str, list, tuple)):
        sized = cast("str | list[object]", value)
        least, most = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        if isinstance(one.get(least), int) and len(sized) < one[least]:
            yield f"{where} must have at least {one[least]}"
        if isinstance(one.get(most), int) and len(sized) > one[most]:
            yield f"{where} must have at most {one[most]}"
    if isinstance(value, str) and isinstance(one.get("pattern"), str) and not _matches(one["pattern"], value):
        yield f"{where} must match {one['pattern']}"


def _is(value: object, kind: str) -> bool:
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))


def _resolved(schema: Schema, root: Schema) -> Schema:
    """The schema that a reference inside the same document names."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: object = root
        for step in reference[2:].split("/"):
            found = (as_map(found) or {}).get(step.replace("~1", "/").replace("~0", "~"))
        named = as_map(found)
        if named is None:
            break
        schema = named
    return schema


def _matches(pattern: str, value: str) -> bool:
    """A pattern of a server could take for ever on a text of a model: only short texts are held to it."""
    if len(value) > 200:
        return True
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True
