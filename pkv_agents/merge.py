"""Parallel writes: patches that several calls made from one state become one change, in the order of the calls.

    merged = merge_patches([(1, {"cart.total": 12}), (0, {"cart.total": 10}), (2, {"cart.items[0]": "tea"})])
    merged.patches    # ({"cart.total": 12, "cart.items[0]": "tea"},)
    merged.conflicts  # (PatchConflict("cart.total", "cart.total", 0, 1, "replaced"),)

The order in which the calls *finished* plays no part. Nothing here knows the state: `merged.apply_to(state)` validates.

A call that gives back a whole state has no patch: `patch_between(before, state)` is what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from ._between import patch_between as patch_between
from .errors import StateError
from .patch import append, apply_patch, is_append, is_remove
from .paths import Segment, parse_path
from .state import TrackedState

StateT = TypeVar("StateT", bound=TrackedState)

Policy = Literal["last_call_wins", "first_call_wins", "error"]
Outcome = Literal["replaced", "refined", "dropped"]

_POLICIES = ("last_call_wins", "first_call_wins", "error")


@dataclass(frozen=True, slots=True)
class PatchConflict:
    """Two calls of one step wrote to the same place, or one to a part of what the other wrote. No value is kept here.

    Attributes:
        earlier: The path of the call that comes first.
        later: The path of the other.
        earlier_call: The order key of the first call.
        later_call: The order key of the other.
        outcome: `replaced`: only the later one counts. `refined`: the later one changes a part of what the earlier one
            set whole; both count. `dropped`: only the earlier one counts. (What a policy is given: what would happen
            by `last_call_wins`.)
    """

    earlier: str
    later: str
    earlier_call: Any
    later_call: Any
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class MergedPatches:
    """What is to be written.

    Attributes:
        patches: To be applied one after the other; more than one only where a call refines what another set whole.
        conflicts: What the calls did to each other, in the order of the later calls.
    """

    patches: tuple[dict[str, object], ...] = ()
    conflicts: tuple[PatchConflict, ...] = ()

    def apply_to(self, state: StateT) -> StateT:
        """A new state with everything written.

        Args:
            state: The state that the calls started from.

        Raises:
            StateError: A patch that does not fit.
        """
        for patch in self.patches:
            state = apply_patch(state, patch)
        return state


@dataclass(slots=True)
class _Write:
    """One path of one patch."""

    call: Any
    path: str
    steps: tuple[Segment, ...]
    value: object
    number: int = 0
    layer: int = 0

    @property
    def is_append(self) -> bool:
        return is_append(self.value)


def merge_patches(
    patches: Sequence[tuple[Any, Mapping[str, object]]],
    *,
    policy: Policy | Callable[[PatchConflict], Policy] = "last_call_wins",
) -> MergedPatches:
    """Merge the patches of calls that ran side by side.

    Two calls conflict where both set the same path to different values, or one sets a whole and the other a part of it.
    Two that append to one list do not: both add, in the order of their calls.

    Args:
        patches: An order key and a patch for each call, in any order; keys are compared with `<` (the position of the
            tool call in the model's answer, say), and no two are equal.
        policy: `last_call_wins`, `first_call_wins` or `error`; or a function that chooses one for a conflict.

    Returns:
        What is to be written and what was in conflict: the same for the same patches, in whatever order they came.

    Raises:
        StateError: Two calls with one order key; a path that cannot be read; a conflict under the policy `error`, whose
            message names both paths.
    """
    try:
        ordered = sorted(patches, key=lambda pair: pair[0])
    except TypeError:
        raise StateError("the order keys cannot be compared; use numbers, or tuples of one shape") from None
    for (one, _), (two, _) in zip(ordered, ordered[1:], strict=False):
        if not one < two:
            raise StateError(f"two patches have the order key {one!r}; give each call a key of its own")
    written = _Written()
    conflicts: list[PatchConflict] = []
    for call, patch in ordered:
        first = written.count
        for path, value in patch.items():
            written.count += 1
            _place(_Write(call, path, parse_path(path), value, written.count), first, written, conflicts, policy)
    kept = written.kept.values()
    made = [dict[str, object]() for _ in range(1 + max((write.layer for write in kept), default=-1))]
    for write in kept:
        made[write.layer][write.path] = write.value
    return MergedPatches(tuple(made), tuple(conflicts))


class _Written:
    """The writes that count so far, in their order; found by their place."""

    def __init__(self) -> None:
        self.kept: dict[int, _Write] = {}
        self.count = 0
        self._at: dict[tuple[Segment, ...], dict[int, _Write]] = {}
        self._inside: dict[tuple[Segment, ...], dict[int, _Write]] = {}

    def add(self, write: _Write) -> None:
        """Let a write count."""
        self.kept[write.number] = write
        self._at.setdefault(write.steps, {})[write.number] = write
        for length in range(1, len(write.steps)):
            self._inside.setdefault(write.steps[:length], {})[write.number] = write

    def drop(self, write: _Write) -> None:
        """Let it no longer count."""
        del self.kept[write.number], self._at[write.steps][write.number]
        for length in range(1, len(write.steps)):
            del self._inside[write.steps[:length]][write.number]

    def at(self, write: _Write) -> Iterable[_Write]:
        """Those at the same place, in their order."""
        return self._at.get(write.steps, {}).values()

    def met(self, write: _Write, last: int) -> list[_Write]:
        """Those up to a number that a write may meet, in their order: at the same place, around it and inside it."""
        around = (self._at.get(write.steps[:length], {}) for length in range(1, len(write.steps) + 1))
        # An append meets nothing inside: it adds items, and those that are there stay.
        inside = {} if write.is_append else self._inside.get(write.steps, {})
        found = [other for group in (*around, inside) for other in group.values() if other.number <= last]
        return sorted(found, key=lambda other: other.number)


def _place(
    write: _Write,
    before: int,
    written: _Written,
    conflicts: list[PatchConflict],
    policy: Policy | Callable[[PatchConflict], Policy],
) -> None:
    """Add one write to those of earlier calls, whose numbers go up to `before`."""
    lost: list[_Write] = []
    found: list[PatchConflict] = []
    for other in written.met(write, before):
        outcome = _outcome(other, write)
        if outcome is None:
            continue
        if outcome == "replaced" and other.steps == write.steps and _is_same(other.value, write.value):
            lost.append(other)
            continue
        conflict = PatchConflict(other.path, write.path, other.call, write.call, outcome)
        chosen = policy if isinstance(policy, str) else policy(conflict)
        if chosen not in _POLICIES:
            raise StateError(f"a policy is one of {', '.join(_POLICIES)}")
        if chosen == "error":
            raise StateError(
                f"{other.path} and {write.path} are set by two calls of one step ({other.call!r} and {write.call!r}); "
                "let one call make both changes, or give them different paths"
            )
        if chosen == "first_call_wins":
            conflicts.append(PatchConflict(other.path, write.path, other.call, write.call, "dropped"))
            return
        found.append(conflict)
        if outcome == "replaced":
            lost.append(other)
        else:
            write.layer = max(write.layer, other.layer + 1)
    conflicts += found
    for gone in lost:
        written.drop(gone)
    same = next((kept for kept in written.at(write) if kept.is_append and write.is_append), None)
    if same is not None and same.number <= before:
        same.value = append(*_appended(same.value), *_appended(write.value))
        return
    written.add(write)


def _appended(value: object) -> list[object]:
    return cast("dict[str, list[object]]", value)["$append"]


def _outcome(earlier: _Write, later: _Write) -> Outcome | None:
    """What a later write does to an earlier one; None when they do not meet."""
    shorter = min(len(earlier.steps), len(later.steps))
    if earlier.steps[:shorter] != later.steps[:shorter]:
        return None
    if len(earlier.steps) == len(later.steps):
        if later.is_append:
            return None if earlier.is_append else _on_top(earlier)
        return "replaced"
    if len(later.steps) > len(earlier.steps):
        return None if earlier.is_append else _on_top(earlier)
    return None if later.is_append else "replaced"


def _on_top(earlier: _Write) -> Outcome:
    """A part can be written on top of a whole, but not of something that is gone."""
    return "replaced" if is_remove(earlier.value) else "refined"


def _is_same(one: object, two: object) -> bool:
    return one is two or (type(one) is type(two) and bool(one == two))
