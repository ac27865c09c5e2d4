"""What has to be told: the difference between what a model was told and what is true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from json import loads
from typing import Literal

from .paths import is_below, prefixes
from .snapshots import PLAIN, Snapshot


@dataclass(frozen=True, slots=True)
class Change:
    """One line of an erratum.

    Attributes:
        path: What it is about; for a removal, the outermost thing that is gone.
        kind: `set` or `remove`.
        text: The JSON text that is shown (empty for a removal).
        leaves: The leaves that are true from here on, at or below `path`.
    """

    path: str
    kind: Literal["set", "remove"]
    text: str = ""
    leaves: tuple[tuple[str, str], ...] = ()


def diff(told: Snapshot, state: Snapshot) -> tuple[Change, ...]:
    """The fewest lines that take a reader from `told` to `state`.

    A value that went away and came back is no change. A Volatile value that moved by less than its resolution is no
    change. What disappears is named once, by the outermost thing that is gone; a line about a place also replaces
    everything that was said inside or around it.

    Args:
        told: What the model has been told (`fold`).
        state: What is true.

    Returns:
        The lines to tell: first what is set, in schema order, then what is removed.
    """
    changes = [
        Change(path, "set", text, ((path, text),))
        for path, text in state.leaves.items()
        if (old := told.leaves.get(path)) != text and (old is None or _is_news(path, old, text, state))
    ]
    gone = [path for path in told.leaves if path not in state.leaves]
    if not gone:
        return tuple(changes)
    alive = {prefix for path in state.leaves for prefix in prefixes(path)}
    removed: dict[str, None] = {}
    for path in gone:
        if path in alive:
            continue  # `orders: []` got entries: their lines say so
        missing = next(prefix for prefix in prefixes(path) if prefix not in alive or prefix in state.leaves)
        if missing not in state.leaves:  # else the line `orders: []` says it all
            removed[missing] = None
    return (*changes, *(Change(path, "remove") for path in removed))


def fold(told: Snapshot, changes: Iterable[Change]) -> Snapshot:
    """What a reader believes after reading some lines.

    Args:
        told: What was believed before.
        changes: The lines, oldest first.

    Returns:
        A new snapshot; `fold(a, diff(a, b)) == b`, but for Volatile values that did not move enough to be told.
    """
    leaves = dict(told.leaves)
    for change in changes:
        if change.kind == "set" and change.path in leaves and change.leaves == ((change.path, change.text),):
            leaves[change.path] = change.text
            continue
        for outer in prefixes(change.path):
            leaves.pop(outer, None)
        for inner in [path for path in leaves if is_below(path, change.path)]:
            del leaves[inner]
        leaves.update(change.leaves)
    return Snapshot(leaves, told.meta)


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
            return abs(_as_decimal(_moment(after) - _moment(before)))
        return abs(Decimal(after) - Decimal(before))
    except (ValueError, TypeError, ArithmeticError):
        return None


def _moment(text: str) -> datetime:
    """A date, time or datetime as a moment; only two of a kind can be compared."""
    if "T" in text:
        return datetime.fromisoformat(text)
    if ":" in text:
        return datetime.combine(date(2000, 1, 1), time.fromisoformat(text))
    return datetime.combine(date.fromisoformat(text), time())
