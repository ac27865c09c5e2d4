"""A state as JSON and back, and updates as plain data that every checkpointer keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar, cast
from uuid import UUID

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from langchain_pkv._messages import compact_json
from pkv_agents import REMOVE, StateError, TrackedState

StateT = TypeVar("StateT", bound=TrackedState)

_REMOVE_JSON = {"$remove": True}
# Checkpointers keep these as they are, and a schema with ConfigDict(strict=True) takes nothing else for them.
_KEPT = (Decimal, date, time, timedelta, UUID)


def load(schema: type[StateT], text: str) -> StateT:
    """The state from its JSON.

    Raises:
        StateError: If it does not fit the schema.
    """
    return schema.model_validate_json(text, by_name=True)


def dump(state: BaseModel) -> str:
    """The state as JSON. Secrets are kept in clear: they would be lost otherwise."""
    return compact_json(_dump(state))


def _dump(value: Any) -> Any:
    """A value as plain data from which its declared type makes it again.

    Not pydantic's `model_dump`: that hides secrets, leaves fields out, and lets serialisers write something else.
    """
    if isinstance(value, RootModel):
        return _dump(cast("RootModel[Any]", value).root)
    if isinstance(value, BaseModel):
        names = type(value).model_fields
        return {name: _dump(getattr(value, name)) for name in names} | _dump(dict(value.model_extra or {}))
    if isinstance(value, Secret | SecretStr | SecretBytes):
        return _dump(cast("Any", value).get_secret_value())
    if isinstance(value, Mapping):
        return {_key(key): _dump(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, set | frozenset):
        return sorted((_dump(item) for item in cast("set[Any]", value)), key=compact_json)
    if isinstance(value, list | tuple):
        return [_dump(item) for item in cast("Sequence[Any]", value)]
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise StateError(f"a value of type {type(value).__name__} has no JSON form") from error


def _key(key: Any) -> str:
    found = key.value if isinstance(key, Enum) else key
    if not isinstance(found, str):
        raise StateError(f"a dict has a key of type {type(key).__name__}; use str keys")
    return found


def plain(update: object) -> dict[str, Any]:
    """An update as plain data, fit for a checkpointer's pending writes.

    Raises:
        StateError: If a value has no JSON form.
    """
    if isinstance(update, BaseModel):
        return _dump(update)
    if not isinstance(update, Mapping):
        raise StateError(f"pkv_state takes a mapping of paths to values, not {type(update).__name__}")
    return {str(path): _plain_value(value) for path, value in cast("Mapping[Any, Any]", update).items()}


def _plain_value(value: Any) -> Any:
    if value is REMOVE:
        return dict(_REMOVE_JSON)
    if isinstance(value, _KEPT):
        return value
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise StateError("an integer beyond 64 bits, which checkpointers cannot keep; declare the field as str")
    if isinstance(value, Mapping):
        return {_key(key): _plain_value(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in cast("Sequence[Any]", value)]
    return _dump(value)
