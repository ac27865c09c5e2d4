"""Where a state holds its skills and its tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from ..errors import StateError
from ..paths import parse_path
from ..state import TrackedState

HeldT = TypeVar("HeldT")


def held(state: TrackedState, field: str, kind: type[HeldT]) -> HeldT:
    """The value of a field that must be there.

    Args:
        state: The state.
        field: The path of the field.
        kind: What stands there.

    Raises:
        StateError: Something else does, or nothing.
    """
    found: object = state
    for step in parse_path(field):
        if isinstance(found, Mapping):
            found = cast("Mapping[str, object]", found).get(step.text)
        else:
            found = getattr(found, step.text, None)
    if isinstance(found, kind):
        return found
    name = kind.__name__
    raise StateError(
        f"{field}: {type(state).__name__} holds no {name} there; declare `{field}: {name} = {name}()`, or name the "
        "field that holds them"
    )


__all__ = ["held"]
