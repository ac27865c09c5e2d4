"""What of a difference is better told as an edit (`_edits`): long texts, long lists, lists whose items moved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ._edits import MIN_WHOLE, Item, is_worth, list_edit, scalars, text_edit
from .changes import Change
from .paths import is_below, prefixes
from .snapshots import PLAIN, Snapshot


def digest(leaves: Iterable[tuple[str, str]]) -> str:
    """A short hash of what was told at one place, whatever the order of its lines."""
    lines = sorted(f"{path}\0{text}" for path, text in leaves)
    return hashlib.sha256("\0\0".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def shortened(changes: Sequence[Change], told: Snapshot, state: Snapshot) -> tuple[Change, ...]:
    """The same difference with fewer words, where an edit is clearly shorter.

    Args:
        changes: What `diff` found.
        told: What the model has been told.
        state: What is true.

    Returns:
        The lines; each still carries all leaves that are true after it.
    """
    made = [_line(change, told) if len(change.text) > MIN_WHOLE else change for change in changes]
    if state.lists and sum(_size(change) for change in made) > MIN_WHOLE:
        return _with_lists(made, told, state)
    return tuple(made)


def _line(change: Change, told: Snapshot) -> Change:
    """One leaf: a text, or a list of plain values in one line."""
    old = told.leaves.get(change.path)
    if old is None:
        return change
    edit = text_edit(old, change.text)
    if edit is None:
        was, now = scalars(old), scalars(change.text)
        if was is None or now is None:
            return change
        edit = list_edit([Item(text, text) for text in was], [Item(text, text) for text in now])
        if not is_worth(edit, len(change.text)):
            return change
    return replace(change, text=edit, edits=digest([(change.path, old)]))


def _size(change: Change) -> int:
    return len(change.path) + len(change.text) + 3


@dataclass(slots=True)
class _List:
    """A list in which something changed: its leaves by index, as told and as true, and what its lines would cost."""

    cost: int = 0
    told: dict[int, list[tuple[str, str]]] = field(default_factory=dict[int, list[tuple[str, str]]])
    true: dict[int, list[tuple[str, str]]] = field(default_factory=dict[int, list[tuple[str, str]]])
    is_plain: bool = True

    def edit(self, path: str) -> str | None:
        """The words, or None when its own lines should stand."""
        was, now = _items(self.told), _items(self.true)
        if not self.is_plain or not was or now is None:
            return None  # (none told: the reader knows `[]` or nothing, and has no items to edit)
        edit = list_edit(was, now, path)
        return edit if edit and is_worth(edit, self.cost) else None


def _items(leaves: dict[int, list[tuple[str, str]]]) -> list[Item] | None:
    """The items of a list, if none is missing."""
    if sorted(leaves) != list(range(len(leaves))):
        return None
    return [Item(frozenset(leaves[at]), _shown(leaves[at])) for at in range(len(leaves))]


def _shown(leaves: Sequence[tuple[str, str]]) -> str:
    if leaves[0][0] == "":
        return leaves[0][1]
    return "{" + ", ".join(f"{name.removeprefix('.')}: {text}" for name, text in leaves) + "}"


def _with_lists(changes: Sequence[Change], told: Snapshot, state: Snapshot) -> tuple[Change, ...]:
    lists: dict[str, _List] = {}
    for change in changes:
        for place in _around(change.path, state.lists):
            lists.setdefault(place, _List()).cost += _size(change)
    lists = {place: found for place, found in lists.items() if found.cost > MIN_WHOLE}
    _collect(lists, told, state)
    chosen: dict[str, str] = {}
    # Inner lists first: what they save makes an edit of the outer one less needed.
    for place in sorted(lists, key=len, reverse=True):
        edit = lists[place].edit(place)
        if edit is not None:
            saved = lists[place].cost - len(place) - len(edit)
            for outer in _around(place, lists):
                lists[outer].cost -= saved
            chosen[place] = edit
    made: dict[str, Change] = {}
    for change in changes:
        place = next(iter(_around(change.path, chosen)), None)
        if place is None:
            made[change.path] = change
        elif place not in made:
            made[place] = _edited(place, chosen[place], told, state)
    return tuple(made.values())


def _around(path: str, places: Iterable[str]) -> list[str]:
    """Those of some places that lie strictly around a path, outermost first."""
    return [outer for outer in prefixes(path)[:-1] if outer in places]


def _collect(lists: dict[str, _List], told: Snapshot, state: Snapshot) -> None:
    """Sort the leaves of told and state into the lists that they lie in."""
    for is_true, (path, text) in chain(
        ((False, pair) for pair in told.leaves.items()), ((True, pair) for pair in state.leaves.items())
    ):
        if "[" not in path:
            continue
        steps = prefixes(path)
        meta = state.meta.get(path, PLAIN) if is_true else told.meta.get(path, PLAIN)
        for at, place in enumerate(steps[:-1]):
            found = lists.get(place)
            if found is None:
                continue
            index = steps[at + 1][len(place) + 1 : -1]
            # What the markers watch must keep lines of its own: a plan looks them up by their path.
            if meta.volatile or meta.pinned or meta.critical or meta.ttl is not None or not index.isdecimal():
                found.is_plain = False
            else:
                side = found.true if is_true else found.told
                side.setdefault(int(index), []).append((path[len(steps[at + 1]) :], text))


def _edited(place: str, edit: str, told: Snapshot, state: Snapshot) -> Change:
    old = [pair for pair in told.leaves.items() if is_below(pair[0], place)]
    new = tuple(pair for pair in state.leaves.items() if is_below(pair[0], place))
    untrusted = any(state.meta.get(path, PLAIN).untrusted for path, _ in new)
    return Change(place, "set", edit, new, digest(old), untrusted)
