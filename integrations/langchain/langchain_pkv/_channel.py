"""The graph channel `pkv_state`: the tracked state as plain data, changed by path patches.

The channel never raises. LangGraph saves a step's writes before it applies them, so a channel that raises is asked to
apply the same writes again on every resume and on every `get_state`: the thread would be stuck. What cannot be applied
is refused instead, and the state stays as it was:

- parallel patches that exclude one another are a conflict: the later call counts, or whichever can be applied; it is
  reported as a notice, and the run goes on;
- any other update that does not fit is a mistake in the application (its input, `update_state`, a node). It is
  remembered, and the next model call raises it, until the application sends a corrected update. Tools do not come
  this far: `StateMiddleware` checks their patches when they return.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

from langgraph.channels.base import BaseChannel  # pyright: ignore[reportMissingTypeStubs]  # no py.typed in there
from langgraph.errors import EmptyChannelError

from langchain_pkv._merging import merge_step
from langchain_pkv._messages import compact_json
from pkv_agents import Notice, TrackedState


class StateData(dict[str, Any]):
    """The tracked state as plain data, as graph nodes see it.

    Attributes:
        refused: Why the last update was not applied, or None.
    """

    refused: str | None = None


class StateChannel(BaseChannel[dict[str, Any], Any, dict[str, Any]]):
    """A channel whose value is a `TrackedState` as plain data and whose updates are merged in call order.

    An update is an instance of the schema (replaces everything), a mapping of paths to values (`{"orders[K417].status":
    "delivered"}`; a value may be `REMOVE`), or, for the first one, a mapping with the whole state.

    Args:
        schema: The class of the state.
        on_conflict: Called with a notice when parallel writes exclude one another; None counts that as refused.
    """

    __slots__ = ("_on_conflict", "_refused", "_schema", "_text")

    def __init__(self, schema: type[TrackedState], on_conflict: Callable[[Notice], None] | None) -> None:
        super().__init__(dict)
        self._schema = schema
        self._on_conflict = on_conflict
        self._text: str | None = None
        self._refused: str | None = None

    @property
    def ValueType(self) -> Any:  # noqa: N802  # LangGraph's name
        """Plain data; for LangGraph's JSON schemas."""
        return dict[str, Any]

    @property
    def UpdateType(self) -> Any:  # noqa: N802  # LangGraph's name
        """Plain data; for LangGraph's JSON schemas."""
        return dict[str, Any]

    def copy(self) -> Self:
        """A channel with the same value."""
        twin = type(self)(self._schema, self._on_conflict)
        twin.key, twin._text, twin._refused = self.key, self._text, self._refused
        return twin

    def checkpoint(self) -> Any:
        """What the checkpointer keeps: JSON in plain data, since checkpointers keep no integer beyond 64 bits."""
        if not self.is_available():
            return super().checkpoint()
        return {"state": self._text, "refused": self._refused}

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """A channel with the value of a checkpoint; an empty one for anything that is not ours."""
        twin = type(self)(self._schema, self._on_conflict)
        twin.key = self.key
        if isinstance(checkpoint, Mapping):
            saved = cast("Mapping[str, Any]", checkpoint)
            twin._refused = saved.get("refused")
            state = saved.get("state")
            twin._text = state if isinstance(state, str) else compact_json(state) if state else None
        return twin

    def get(self) -> StateData:
        """The state as fresh plain data: a node that changes it in place changes nothing here."""
        if not self.is_available():
            raise EmptyChannelError
        data = StateData(json.loads(self._text or "{}"))
        data.refused = self._refused
        return data

    def is_available(self) -> bool:
        """Whether anything was ever written."""
        return self._text is not None or self._refused is not None

    def update(self, values: Sequence[Any]) -> bool:
        """Merge the updates of one step, in call order."""
        if not values:
            return False
        self._text, refused = merge_step(self._schema, self._text, values, self._on_conflict)
        # A state that another node or graph handed on as it was is no correction of what was refused before.
        handed = (value.refused for value in values if isinstance(value, StateData))
        self._refused = refused or next(filter(None, handed), None)
        return True
