"""Where a session's state is: its own, or the application's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Generic, TypeVar, cast

from .errors import SchemaError, SessionError
from .merge import MergedPatches
from .paths import canonical_path
from .state import TrackedState

StateT = TypeVar("StateT", bound=TrackedState)


class StateSource(Generic[StateT]):
    """A state that is owned, or read from the application.

    Args:
        state: The state, or a function that returns it as it is now.

    Raises:
        SchemaError: It is neither.
    """

    def __init__(self, state: StateT | Callable[[], StateT]) -> None:
        if isinstance(state, type) or not (isinstance(state, TrackedState) or callable(state)):
            kind = getattr(state, "__name__", type(state).__name__)
            raise SchemaError(f"the state is {kind}; pass a TrackedState instance, or a function that returns one")
        self._owned: StateT | None = cast(StateT, state) if isinstance(state, TrackedState) else None
        self._read: Callable[[], StateT] | None = None if isinstance(state, TrackedState) else state
        self.confirmed: dict[str, datetime] = {}
        """When paths were set by `update`, be it to the same value."""

    def get(self) -> StateT:
        """The state as it is now.

        Raises:
            SchemaError: The application's function returned something else.
        """
        if self._read is None:
            return cast(StateT, self._owned)
        found = self._read()
        if not isinstance(found, TrackedState):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise SchemaError(f"the state function returned a {type(found).__name__}; return a TrackedState")
        return found

    def update(self, patch: Mapping[str, object] | MergedPatches, now: datetime) -> StateT:
        """Change an owned state by paths; see `AgentSession.update`."""
        if self._owned is None:
            raise SessionError("the application owns this state; change it there, the session reads it")
        merged = patch if isinstance(patch, MergedPatches) else MergedPatches((cast("dict[str, object]", patch),))
        made = merged.apply_to(self._owned)
        if type(made).model_config.get("frozen"):
            self._owned = made
        else:
            _become(self._owned, made)  # the caller may hold the instance, and goes on assigning to it
        for one in merged.patches:
            self.confirmed.update(dict.fromkeys(map(canonical_path, one), now))
        return self._owned


def _become(state: TrackedState, made: TrackedState) -> None:
    """Take over the fields of a validated state."""
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        object.__setattr__(state, name, getattr(made, name))
