"""The graph channel `pkv_state`: the tracked state as plain data, changed by path patches.

The channel never raises. LangGraph saves a step's writes before it applies them, so a channel that raises is asked to
apply the same writes again on every resume and on every `get_state`: the thread would be stuck. What cannot be applied
is refused instead, and the state stays as it was:

- a patch that fitted the state at the start of the step and no longer fits, since a parallel write changed what it
  names, is a conflict: reported as a notice, and the run goes on;
- any other update that does not fit is a mistake in the application (its input, `update_state`, a node). It is
  remembered, and the next model call raises it, until the application sends a corrected update. Tools do not come
  this far: `StateMiddleware` checks their patches when they return.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Self, TypeVar, cast
from uuid import UUID

from langgraph.channels.base import BaseChannel  # pyright: ignore[reportMissingTypeStubs]  # no py.typed in there
from langgraph.errors import EmptyChannelError
from langgraph.types import Overwrite
from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from langchain_pkv._messages import compact_json
from pkv_agents import REMOVE, Notice, StateError, TrackedState, apply_patch, diff, snapshot

StateT = TypeVar("StateT", bound=TrackedState)

_REMOVE_JSON = {"$remove": True}
# Checkpointers keep these as they are, and a schema with ConfigDict(strict=True) takes nothing else for them.
_KEPT = (Decimal, date, time, timedelta, UUID)


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
        """What the checkpointer keeps: plain data."""
        if not self.is_available():
            return super().checkpoint()
        return {"state": dict(self.get()), "refused": self._refused}

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """A channel with the value of a checkpoint; an empty one for anything that is not ours."""
        twin = type(self)(self._schema, self._on_conflict)
        twin.key = self.key
        if isinstance(checkpoint, Mapping):
            saved = cast("Mapping[str, Any]", checkpoint)
            twin._refused = saved.get("refused")
            twin._text = compact_json(saved["state"]) if saved.get("state") else None
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
        start, self._refused = self._text, None
        for value in values:
            try:
                self._text = merge(self._schema, self._text, value)
            except Exception as error:  # noqa: BLE001  # a validator of the user's may raise anything, and we must not
                conflict = start != self._text and _fits(self._schema, start, value)
                if self._on_conflict is None or not conflict:
                    known = isinstance(error, StateError)
                    self._refused = str(error) if known else f"a validator raised {type(error).__name__}"
                else:
                    self._on_conflict(conflict_notice(error, value))
        return True


def paths_of(update: object) -> str:
    """The paths that an update names, for a notice."""
    return ", ".join(str(path) for path in cast("Mapping[Any, Any]", update)) if isinstance(update, Mapping) else ""


def _fits(schema: type[TrackedState], text: str | None, update: object) -> bool:
    try:
        merge(schema, text, update)
    except Exception:  # noqa: BLE001  # see StateChannel.update
        return False
    return True


def conflict_notice(error: Exception, update: object) -> Notice:
    """The notice for a patch that lost against a parallel one."""
    return Notice(
        code="patch_conflict",
        path=paths_of(update),
        cost="the later of two parallel patches was not applied",
        mend="let one tool make both changes, or give the parallel tools different paths",
        message=str(error),
    )


def merge(schema: type[TrackedState], text: str | None, update: object) -> str:
    """Apply one update to a state.

    Args:
        schema: The class of the state.
        text: The state as JSON, or None when there is none yet.
        update: An instance, a mapping of paths, or LangGraph's `Overwrite` of one of them.

    Returns:
        The new state as JSON.

    Raises:
        StateError: If the update does not fit; nothing was changed.
    """
    if isinstance(update, Overwrite):
        return merge(schema, None, cast("object", update.value))
    if isinstance(update, schema):
        return _survives(schema, update)
    if not isinstance(update, Mapping):
        raise StateError(
            f"pkv_state takes {schema.__name__}(...) or a mapping of paths to values, not {type(update).__name__}"
        )
    patch = cast("Mapping[str, Any]", update)
    return _survives(schema, _first(schema, patch) if text is None else apply_patch(_saved(schema, text), patch))


def _survives(schema: type[StateT], state: StateT) -> str:
    """The state's JSON, from which the same state can be read back.

    Raises:
        StateError: It cannot: a part was changed in place and does not fit, is of a subclass with more fields than the
            schema names, or a validator changes what it is given a second time.
    """
    text = dump(state)
    changes = diff(snapshot(state), snapshot(load(schema, text)))
    if changes:
        raise StateError(
            f"{changes[0].path} would not be the same when the thread's state is read back: name its class in the "
            "schema (a subclass loses its own fields), and let validators accept what they have made"
        )
    return text


def _first(schema: type[StateT], update: Mapping[str, Any]) -> StateT:
    try:
        return schema.model_validate(dict(update))
    except StateError as error:
        needed = {name for name, field in schema.model_fields.items() if field.is_required()}
        if needed <= update.keys() <= schema.model_fields.keys():
            raise
        raise StateError(
            f"there is no state in this thread yet, so the first update must be a whole {schema.__name__}(...), not a "
            f"patch; is there a checkpointer, and is thread_id the same as before? ({error})"
        ) from None


def _saved(schema: type[StateT], text: str) -> StateT:
    try:
        return load(schema, text)
    except StateError as error:
        raise StateError(misfit(schema, error)) from None


def misfit(schema: type[TrackedState], error: StateError) -> str:
    """What to say about a saved state that the schema does not accept (any more)."""
    return (
        f"the saved state of this thread does not fit {schema.__name__}, which has perhaps changed since: send a whole "
        f"{schema.__name__}(...) as pkv_state, or give new fields defaults ({error})"
    )


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
