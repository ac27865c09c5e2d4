"""What has to be told: the difference between what a model was told and what is true."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from json import loads

from ._minimal import digest, shortened
from .changes import Change
from .paths import prefixes
from .snapshots import PLAIN, Snapshot

UNKNOWN = ""
"""What is believed at a place whose edit says nothing to this reader: the text of no value."""

_SPAN = re.compile(r"(-?)P(\d+)DT(\d+)(?:\.(\d+))?S")


def diff(told: Snapshot, state: Snapshot, *, edits: bool = True) -> tuple[Change, ...]:
    """The fewest lines that take a reader from `told` to `state`.

    A value that went away and came back is no change. A Volatile value that moved by less than its resolution is no
    change. What disappears is named once, by the outermost thing that is gone; a line about a place also replaces
    everything that was said inside or around it. A long text, or a list without a key, is told by what changed in it
    where that is clearly shorter.

    Args:
        told: What the model has been told (`fold`).
        state: What is true.
        edits: Whether anything may be told by what changed in it.

    Returns:
        The lines to tell: first what is set, in schema order, then what is removed.
    """
    changes = [
        Change(path, "set", text, ((path, text),), untrusted=state.meta.get(path, PLAIN).untrusted)
        for path, text in state.leaves.items()
        if (old := told.leaves.get(path)) != text and (old is None or _is_news(path, old, text, state))
    ]
    gone = [path for path in told.leaves if path not in state.leaves]
    if gone:
        changes += [Change(path, "remove") for path in _removed(gone, state)]
    return shortened(changes, told, state) if edits else tuple(changes)


def _removed(gone: Sequence[str], state: Snapshot) -> Iterable[str]:
    """The outermost things that are gone, for some leaves that are."""
    alive = {prefix for path in state.leaves for prefix in prefixes(path)}
    removed: dict[str, None] = {}
    for path in gone:
        if path in alive:
            continue  # `orders: []` got entries: their lines say so
        missing = next(prefix for prefix in prefixes(path) if prefix not in alive or prefix in state.leaves)
        if missing not in state.leaves:  # else the line `orders: []` says it all
            removed[missing] = None
    return removed


def fold(told: Snapshot, changes: Iterable[Change]) -> Snapshot:
    """What a reader believes after reading some lines.

    Args:
        told: What was believed before.
        changes: The lines, oldest first.

    Returns:
        A new snapshot; `fold(a, diff(a, b)) == b`, but for Volatile values that did not move enough to be told. An edit
        of something else than what was believed leaves `UNKNOWN` there, so that it is told again.
    """
    believed = _Believed(told.leaves)
    leaves = believed.leaves
    for change in changes:
        if change.edits and change.edits != digest(believed.at(change.path)):
            believed.put((path, UNKNOWN) for path, _ in (*believed.at(change.path), *change.leaves))
        elif change.path in leaves and len(change.leaves) == 1 and change.leaves[0][0] == change.path:
            leaves[change.path] = change.leaves[0][1]
        else:
            believed.forget(change.path)
            believed.put(change.leaves)
    return Snapshot(leaves, told.meta)


class _Believed:
    """What is believed while it is folded. What lies below a path stands together when the paths are sorted."""

    def __init__(self, leaves: Mapping[str, str]) -> None:
        self.leaves = dict(leaves)
        self._sorted: list[str] | None = None  # made when it is first needed

    def at(self, path: str) -> list[tuple[str, str]]:
        """What is believed at or below a path."""
        if path in self.leaves:
            return [(path, self.leaves[path])]
        places = self._places()
        return [(place, self.leaves[place]) for start, end in _below(places, path) for place in places[start:end]]

    def forget(self, path: str) -> None:
        """Drop what was said at, inside or around a path."""
        places = self._places()
        for outer in prefixes(path):
            if self.leaves.pop(outer, None) is not None:
                del places[bisect_left(places, outer)]
        for start, end in _below(places, path):
            for inner in places[start:end]:
                del self.leaves[inner]
            del places[start:end]

    def put(self, leaves: Iterable[tuple[str, str]]) -> None:
        """Believe some leaves."""
        places = self._places()
        for path, text in leaves:
            if path not in self.leaves:
                insort(places, path)
            self.leaves[path] = text

    def _places(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self.leaves)
        return self._sorted


def _below(places: list[str], path: str) -> Iterator[tuple[int, int]]:
    """The two runs of sorted paths that lie inside a path: its entries, and its fields. The later one comes first."""
    for opening, after in ("[\\", "./"):
        start = bisect_left(places, path + opening)
        yield start, bisect_left(places, path + after, start)


def _is_news(path: str, old: str, new: str, state: Snapshot) -> bool:
    meta = state.meta.get(path, PLAIN)
    if not meta.volatile or meta.resolution is None:
        return True
    moved = _distance(old, new, isinstance(meta.resolution, timedelta))
    return moved is None or moved.is_nan() or moved >= _as_decimal(meta.resolution)


def _as_decimal(span: timedelta | float) -> Decimal:
    if isinstance(span, timedelta):
        return Decimal(span // timedelta(microseconds=1))
    return Decimal(str(span))


def _distance(old: str, new: str, is_time: bool) -> Decimal | None:
    """How far two rendered values lie apart; None when that cannot be said."""
    try:
        before, after = loads(old, parse_float=Decimal), loads(new, parse_float=Decimal)
        if is_time:
            moved = _span(after) - _span(before) if "P" in after else _moment(after) - _moment(before)
            return abs(_as_decimal(moved))
        return abs(Decimal(after) - Decimal(before))
    except (ValueError, TypeError, ArithmeticError):
        return None


def _span(text: str) -> timedelta:
    """A timedelta, from the text that a snapshot gives it."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ValueError("no span of time")
    span = timedelta(days=int(match[2]), seconds=int(match[3]), microseconds=int((match[4] or "0").ljust(6, "0")))
    return -span if match[1] else span


def _moment(text: str) -> datetime:
    """A date, time or datetime as a moment; only two of a kind can be compared."""
    if "T" in text:
        return datetime.fromisoformat(text)
    if ":" in text:
        return datetime.combine(date(2000, 1, 1), time.fromisoformat(text))
    return datetime.combine(date.fromisoformat(text), time())


__all__ = ["Change", "diff", "fold"]
