"""A state as plain JSON data, and back: for frameworks that keep the application's state in a store of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar, cast

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ._validation import reads_aliases
from ._walk import extras, snapshot
from .diff import diff
from .errors import StateError
from .state import TrackedState

StateT = TypeVar("StateT", bound=TrackedState)


def dump_state(state: TrackedState) -> dict[str, object]:
    """A state as plain JSON data from which `load_state` makes an equal one.

    Not pydantic's `model_dump`: that hides secrets, leaves fields out, and lets serialisers write something else.
    Secrets are kept in clear, so the data belongs where the state itself may be kept.

    Args:
        state: The state.

    Returns:
        Plain data, with the names of the fields.

    Raises:
        StateError: The state could not be read back as it is: a value without a JSON form, a part that was changed in
            place and does not fit, a part of a subclass with more fields than the schema names.
    """
    data = cast("dict[str, object]", _plain(state))
    now, again = snapshot(state), load_state(type(state), data)
    lost = next((change.path for change in diff(now, snapshot(again))), None)
    if lost is None and now.hidden:  # what is hidden is in no snapshot
        kept = cast("dict[str, object]", _plain(again))
        lost = next((name for name in data if not _is_same(data[name], kept.get(name))), None)
    if lost is not None:
        raise StateError(
            f"{lost} would not be the same when the state is read back: name its class in the schema (a subclass loses "
            "its own fields), and let validators accept what they have made"
        )
    return data


def load_state(schema: type[StateT], data: Mapping[str, object]) -> StateT:
    """A state from its data.

    Args:
        schema: The class of the state.
        data: What `dump_state` made, perhaps through JSON.

    Raises:
        StateError: The data does not fit the schema (any more).
    """
    return schema.model_validate_json(json.dumps(data), by_name=True, by_alias=reads_aliases(schema, inside=True))


def _plain(value: Any) -> Any:
    if isinstance(value, RootModel):
        return _plain(cast("RootModel[Any]", value).root)
    if isinstance(value, BaseModel):
        names = type(value).model_fields
        return {name: _plain(getattr(value, name)) for name in names} | _plain(dict(extras(value)))
    if isinstance(value, Secret | SecretStr | SecretBytes):
        return _plain(cast("Any", value).get_secret_value())
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value).items()
        return {key if type(key) is str else _json_key(key): _plain(item) for key, item in entries}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in cast("set[Any]", value)), key=json.dumps)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, PurePath):  # pydantic knows only those of this system
        return str(value)
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise StateError(f"a value of type {type(value).__name__} has no JSON form") from error


def _json_key(key: Any) -> str:
    """A key as JSON has it, from which pydantic makes it again: an enum's value, a moment in its ISO form."""
    return next(iter(_scalar({key: None})))


def _is_same(one: Any, two: Any) -> bool:
    """Whether plain data is equal, and NaN to itself."""
    if isinstance(one, dict) and isinstance(two, dict):
        first, second = cast("dict[str, Any]", one), cast("dict[str, Any]", two)
        return first.keys() == second.keys() and all(_is_same(first[name], second[name]) for name in first)
    if isinstance(one, list) and isinstance(two, list):
        pairs = cast("list[Any]", one), cast("list[Any]", two)
        return len(pairs[0]) == len(pairs[1]) and all(map(_is_same, *pairs))
    return one == two or (one != one and two != two)
