"""Merging updates of the tracked state: one update, or all that were written in one step of the graph.

Patches of one step are merged by the core's `merge_patches`, in the order of the calls. Where they cannot be applied
together, those that can are, and the others are a conflict or a mistake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, TypeVar, cast

from langgraph.types import Overwrite

from langchain_pkv._messages import compact_json
from langchain_pkv._plain import dump, load
from pkv_agents import (
    Notice,
    PatchConflict,
    StateError,
    Tools,
    TrackedState,
    apply_patch,
    diff,
    merge_patches,
    patch_between,
    snapshot,
)

StateT = TypeVar("StateT", bound=TrackedState)
OnConflict = Callable[[Notice], None] | None
Patches = list[Mapping[str, object]]


def merge_step(
    schema: type[TrackedState], text: str | None, updates: Sequence[object], on_conflict: OnConflict
) -> tuple[str | None, str | None]:
    """Apply the updates of one step; it never raises.

    Args:
        schema: The class of the state.
        text: The state as JSON, or None when there is none yet.
        updates: The updates, in the order of the calls.
        on_conflict: Called with a notice when parallel patches exclude one another; None counts that as refused.

    Returns:
        The new state as JSON, and why an update was refused.
    """
    refused: str | None = None
    before = text
    rest = list(updates)
    if text is not None and len(rest) > 1:
        rest = [_changes_of(schema, text, update) for update in rest]
    while rest:
        patches = list(takewhile(_is_mapping, rest)) if text is not None else []
        if text is not None and patches:
            text, failed = _merged(schema, text, cast("Patches", patches), on_conflict)
            refused = failed or refused
        else:
            try:
                text = merge(schema, text, rest[0])
            except Exception as error:  # noqa: BLE001  # a validator of the user's may raise anything
                refused = _reason(error)
        rest = rest[len(patches) or 1 :]
    return _with_tools(schema, before, text), refused


def _with_tools(schema: type[TrackedState], before: str | None, now: str | None) -> str | None:
    """The new state, with the thread's tools array where a fresh state of the application's leaves it empty."""
    if before is None or now is None or before == now or not Tools.is_in(schema):
        return now
    given = json.loads(now)
    kept = Tools.carried(schema, json.loads(before), given)
    return now if kept == given else compact_json(kept)


def _changes_of(schema: type[TrackedState], text: str, update: object) -> object:
    """An update beside others: of a whole state as plain data, what it changed.

    An agent inside another graph gives its whole state back, also what it never touched: the later of two would undo
    what the earlier one did.
    """
    whole: Mapping[str, Any] = cast("Mapping[str, Any]", update) if isinstance(update, Mapping) else {}
    if not whole.keys() >= schema.model_fields.keys():
        return cast("object", update)
    try:
        return patch_between(_saved(schema, text), load(schema, merge(schema, text, whole)))
    except Exception:  # noqa: BLE001  # found again, and said, where it is applied
        return whole


def _is_mapping(update: object) -> bool:
    return isinstance(update, Mapping)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, StateError) else f"a validator raised {type(error).__name__}"


def _merged(schema: type[TrackedState], text: str, patches: Patches, on_conflict: OnConflict) -> tuple[str, str | None]:
    """Patches of one step, all of them or those that can be applied together; and why one was refused."""
    refused: str | None = None
    try:
        made, conflicts = _together(schema, text, patches, on_conflict)
    except Exception:  # noqa: BLE001  # see merge_step
        made, conflicts, kept = text, (), Patches()
        for patch in patches:
            try:
                made, conflicts = _together(schema, text, [*kept, patch], on_conflict)
                kept.append(patch)
            except Exception as error:  # noqa: BLE001  # see merge_step
                alone = _misfit(schema, text, patch)
                if on_conflict is None or alone is not None:
                    refused = _reason(alone or error)
                else:
                    cost = "one of the parallel patches was not applied"
                    on_conflict(_conflict(paths_of(patch), cost, _reason(error)))
    for conflict in conflicts:
        if on_conflict is not None and conflict.outcome == "replaced":
            cost = "what the earlier of two parallel calls wrote is lost; the later call counts"
            on_conflict(_conflict(conflict.later, cost, f"two parallel calls wrote to {conflict.later}"))
    return made, refused


def _together(
    schema: type[TrackedState], text: str, patches: Patches, on_conflict: OnConflict
) -> tuple[str, tuple[PatchConflict, ...]]:
    """Patches merged and applied.

    Raises:
        StateError: They do not fit, or a write would be lost where that is an error.
    """

    def policy(conflict: PatchConflict) -> Literal["error", "last_call_wins"]:
        return "error" if on_conflict is None and conflict.outcome == "replaced" else "last_call_wins"

    merged = merge_patches(list(enumerate(patches)), policy=policy)
    return _survives(schema, merged.apply_to(_saved(schema, text))), merged.conflicts


def _misfit(schema: type[TrackedState], text: str, patch: object) -> Exception | None:
    """Why a patch cannot be applied by itself; None where it can."""
    try:
        merge(schema, text, patch)
    except Exception as error:  # noqa: BLE001  # see merge_step
        return error
    return None


def _conflict(path: str, cost: str, message: str) -> Notice:
    mend = "let one tool make both changes, or give the parallel tools different paths"
    return Notice(code="patch_conflict", path=path, cost=cost, mend=mend, message=message)


def paths_of(update: object) -> str:
    """The paths that an update names, for a notice."""
    return ", ".join(str(path) for path in cast("Mapping[Any, Any]", update)) if isinstance(update, Mapping) else ""


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
    try:  # by name, too: `dump_state` writes names, and so does LangGraph where it may not restore the class
        return schema.model_validate(dict(update), by_name=True)
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
