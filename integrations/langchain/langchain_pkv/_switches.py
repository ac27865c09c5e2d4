"""Tools that a field of the state turns on and off, while the tools that are sent stay as they are.

The tools stand before everything else in a request: sending fewer of them would cost the whole cached prefix. So all of
them are sent, the model is told which are off as it is told of any field, and a call of one that is off is answered
here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast, get_args, get_origin

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage

from pkv_agents import SchemaError, TrackedState

_KINDS = (dict, list, set, frozenset, tuple)


def checked_switch(schema: type[TrackedState], name: str | None) -> str | None:
    """The field's name.

    Raises:
        SchemaError: The schema has no such field, or it is of another kind.
    """
    if name is None:
        return None
    field = schema.model_fields.get(name)
    if field is None:
        raise SchemaError(
            f"tools_on: {schema.__name__} has no field {name!r}; declare it there, `{name}: dict[str, bool] = {{}}`"
        )
    kind: Any = get_origin(field.annotation) or field.annotation
    values = get_args(field.annotation)
    if kind not in _KINDS or (kind is dict and values and values[1] is not bool):
        raise SchemaError(
            f"tools_on: {name} turns tools on and off, so it is a dict[str, bool], or a list or set of str"
        )
    return name


def names_off(switches: object, names: Collection[str], asking: Collection[str] = ()) -> frozenset[str]:
    """Those of the tools that are off.

    Args:
        switches: The field's value.
        names: The tools' names.
        asking: Of these those that are ours, by which a model asks for others.
    """
    if isinstance(switches, Mapping):
        known = cast("Mapping[str, bool]", switches)
        return frozenset(name for name in names if not known.get(name, True))
    # Who lists an application's tools that are on does not mean those by which a model asks for the others.
    return frozenset(names) - frozenset(cast("Collection[str]", switches)) - frozenset(asking)


def name_of(given: object) -> str:
    """The name of one of a request's tools; empty where a provider's own has none."""
    record = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {"name": getattr(given, "name", "")}
    return str(cast("Mapping[str, Any]", record.get("function", record)).get("name") or "")


def answer_if_off(switches: object, request: ToolCallRequest, asking: Collection[str] = ()) -> ToolMessage | None:
    """The error that answers a call of a tool that is off; None where it is on.

    Args:
        switches: The field's value.
        request: The tool call.
        asking: The names of our own tools, by which a model asks for others.
    """
    name, call_id = request.tool_call["name"], request.tool_call["id"]
    if not names_off(switches, (name,), asking):
        return None
    text = f"Error: the tool {name} is turned off at present, so it was not run. Go on without it."
    return ToolMessage(text, name=name, tool_call_id=call_id or "", status="error")
