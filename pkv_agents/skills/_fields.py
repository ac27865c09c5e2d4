"""The fields in which a state has its skills or tools: found once at the class, and read from each state."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ..errors import SchemaError
from ..paths import parse_path
from ..state import TrackedState

FieldT = TypeVar("FieldT", bound=BaseModel)


def check_state_field(schema: type[TrackedState], path: str, kind: type[BaseModel]) -> None:
    """Hold a schema to having a field of one class, as `Skills` or `Tools`.

    Args:
        schema: The class of the state.
        path: Where it should be: a field's name, or names with dots between them.
        kind: The class.

    Raises:
        SchemaError: There is no such field, or it is of another class.
    """
    found: Any = schema
    for segment in parse_path(path):
        fields = found.model_fields if isinstance(found, type) and issubclass(found, BaseModel) else {}
        found = fields[segment.text].annotation if segment.text in fields else None
    if found is not kind:
        raise SchemaError(
            f"{schema.__name__} has no field {path} of type {kind.__name__}; declare it there, "
            f"`{path.rpartition('.')[2]}: {kind.__name__} = {kind.__name__}()`"
        )


def state_field(state: TrackedState, path: str, kind: type[FieldT]) -> FieldT:
    """What a state has at a path.

    Args:
        state: The state.
        path: A field's name, or names with dots between them.
        kind: The class of the field.

    Raises:
        SchemaError: There is no such field, or it is of another class.
    """
    found: object = state
    for segment in parse_path(path):
        found = getattr(found, segment.text, None)
    if not isinstance(found, kind):
        check_state_field(type(state), path, kind)
    return cast(FieldT, found)


__all__ = ["check_state_field", "state_field"]
