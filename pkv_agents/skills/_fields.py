"""What is a field of a state wherever its schema puts it: found once at the class, and read from each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict

from ..errors import SchemaError
from ..paths import parse_path
from ..state import TrackedState


class StateField(BaseModel):
    """The base of `Skills` and `Tools`."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @classmethod
    def at(cls, state: TrackedState, path: str) -> Self:
        """What a state has at a path.

        Args:
            state: The state.
            path: A field's name, or names with dots between them.

        Raises:
            SchemaError: There is no such field, or it is of another class.
        """
        found: object = state
        for segment in parse_path(path):
            if isinstance(found, Mapping):
                found = cast("Mapping[str, object]", found).get(segment.text)
            else:
                found = getattr(found, segment.text, None)
        if not isinstance(found, cls):
            cls.check_at(type(state), path)
            raise SchemaError(f"{path}: the state has no {cls.__name__} there")
        return found

    @classmethod
    def is_in(cls, schema: type[BaseModel]) -> bool:
        """Whether a schema has such a field, itself or in a model of its fields."""
        kinds = [info.annotation for info in schema.model_fields.values()]
        return cls in kinds or any(
            isinstance(kind, type) and issubclass(kind, BaseModel) and cls.is_in(kind) for kind in kinds
        )

    @classmethod
    def check_at(cls, schema: type[TrackedState], path: str) -> None:
        """Hold a schema to having such a field.

        Args:
            schema: The class of the state.
            path: Where it should be: a field's name, or names with dots between them.

        Raises:
            SchemaError: There is no such field, or it is of another class.
        """
        found: Any = schema
        for segment in parse_path(path):
            if get_origin(found) is dict:
                found = get_args(found)[1]
                continue
            fields = found.model_fields if isinstance(found, type) and issubclass(found, BaseModel) else {}
            found = fields[segment.text].annotation if segment.text in fields else None
        if found is not cls:
            raise SchemaError(
                f"{schema.__name__} has no field {path} of type {cls.__name__}; declare it there, "
                f"`{path.rpartition('.')[2]}: {cls.__name__} = {cls.__name__}()`"
            )


FieldT = TypeVar("FieldT", bound=StateField)


def only(kind: type[FieldT], given: object) -> FieldT:
    """What was given, if it is of a kind: the whole state is the usual mistake.

    Raises:
        SchemaError: It is not.
    """
    if isinstance(given, kind):
        return given
    name = kind.__name__
    raise SchemaError(f"a {name} is needed, not a {type(given).__name__}; pass the state's field, state.{name.lower()}")
