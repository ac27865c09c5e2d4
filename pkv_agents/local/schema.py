"""Prepares a JSON schema for constrained decoding: same values or fewer, never others.

- Objects that list their properties are closed, as validators read them in practice: a small model that may invent keys
  does. (Not where schemas are combined so that closing one part would contradict another.)
- Numbers without bounds get the range in which every JSON reader agrees: `1e999` is valid JSON and no number.
- Formats that are only annotations are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from pkv_agents.errors import GrammarError

_SAFE_INTEGER = 2**53 - 1
_SAFE_NUMBER = 10**15
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
)  # the ones that llguidance enforces
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "const")
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties"})
"""Keywords whose values map names to schemas."""
_LITERAL = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are data and no schemas."""

Schema = Mapping[str, object]


def prepared(schema: object, where: str) -> str:
    """The schema as one line of JSON for llguidance's `%json`.

    Args:
        schema: A JSON schema.
        where: Its name in error messages.
    """
    if not isinstance(schema, Mapping):
        raise GrammarError(f"the schema of {where} is a {type(schema).__name__}, not an object")
    schema = cast("Schema", schema)
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"the schema of {where} is no JSON data: {error}") from error
    done = _rewritten(schema, close=not _combined(schema))
    return json.dumps({**done, "x-guidance": {"whitespace_flexible": False}})


def arguments_schema(parameters: object) -> object:
    """A tool's `parameters` as the schema of an object; no parameters means an empty object."""
    if not parameters:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return {"type": "object", **cast("Schema", parameters)} if isinstance(parameters, Mapping) else parameters


def _combined(node: object) -> bool:
    """Whether some object schema is spread over several places that are combined."""
    if isinstance(node, Mapping):
        schema = cast("Schema", node)
        spread = "properties" in schema and ("anyOf" in schema or "oneOf" in schema or "$ref" in schema)
        return spread or "allOf" in schema or any(map(_combined, schema.values()))
    return isinstance(node, list) and any(map(_combined, cast("list[object]", node)))


def _rewritten(schema: Schema, *, close: bool) -> dict[str, object]:
    done: dict[str, object] = {}
    for key, value in schema.items():
        if (key == "format" and value not in _FORMATS) or (key == "uniqueItems" and value is False):
            continue
        done[key] = _rewritten_value(key, value, close=close)
    kinds = schema.get("type")
    names = cast("list[object]", kinds) if isinstance(kinds, list) else [kinds]
    if not any(bound in schema for bound in _BOUNDS):
        if "number" in names:
            done |= {"minimum": -_SAFE_NUMBER, "maximum": _SAFE_NUMBER}
        elif "integer" in names:
            done |= {"minimum": -_SAFE_INTEGER, "maximum": _SAFE_INTEGER}
    if close and "properties" in schema and not {"additionalProperties", "patternProperties"} & schema.keys():
        done["additionalProperties"] = False
    return done


def _rewritten_value(key: str, value: object, *, close: bool) -> object:
    if key in _LITERAL:
        return value
    if isinstance(value, Mapping):
        inner = cast("Schema", value)
        if key in _NAMED:
            return {name: _rewritten_value("", item, close=close) for name, item in inner.items()}
        return _rewritten(inner, close=close)
    if isinstance(value, list):
        return [_rewritten_value("", item, close=close) for item in cast("list[object]", value)]
    return value
