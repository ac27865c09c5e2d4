r"""Minimal edits: how a long text or a list can be told by what changed in it.

    notes: replace "in transit since Monday" with "delivered"
    rules: replace "- A late parcel: call `track`." with "- A late parcel: call `refund`."
    todos: remove at 3 ("old"); insert at 0 "buy milk"
    items: insert at 0 {price: 1.0, tags: ["a"]}; now items[0] to items[7]

What is edited is always the text that was told. All parts are slices of told and new JSON text, so they are escaped as
values are, and the verbs stand outside quotes, where no value can stand. An old part occurs exactly once in the told
text. The steps on a list go from its back to its front, so an index means the same whether a reader counts in the list
as it was told or after each step.

Everything here takes (nearly) linear time: no step compares each part with each other.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

MIN_WHOLE = 200
"""What is shorter than so many characters is told whole: a value, and a line of a text in which something changed."""
WORTH = 0.6
"""An edit must be shorter than this share of the whole; otherwise the whole, which nobody can misread, is told.

Of random changes of one to three places in prose, half take less than 0.28 of the whole at 220 characters, 0.16 at 500
and 0.08 at 1000; where less than 0.4 is saved, the text is short, so little is lost by telling it whole.
"""
MAX_PARTS = 8
_MIN_OLD = 12
_BREAK = "\\n"
_ECHO = 60

# Words with the spaces after them; line breaks; letters of scripts that write no spaces. No cut splits an escape.
_UNIT = r"(?:\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\[^nu]|[^\\ \u0e00-\U0010ffff])"
_TOKEN = re.compile(rf"\\n *|{_UNIT}+ *|[\u0e00-\U0010ffff] *| +")
_SCALAR = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s",\[\]{}]+)(?:, |$)')

Hunk = tuple[int, int, int, int]
"""`old[a:b]` became `new[c:d]`."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list: what makes it equal to another, and how it is shown."""

    same: Hashable
    shown: str


def is_worth(edit: str, whole: int) -> bool:
    """Whether an edit is clearly shorter than a whole of so many characters."""
    return whole > MIN_WHOLE and len(edit) < WORTH * whole


def hunks(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Hunk]:
    """Where two sequences differ, by what occurs once in both (patience diff, one level).

    Args:
        old: What was told.
        new: What is true.

    Returns:
        The differing ranges, in order; not always the fewest, and found in n log n steps.
    """
    start, old_end, new_end = _trimmed(old, new, 0, len(old), 0, len(new))
    found: list[Hunk] = []
    at_old, at_new = start, start
    for to_old, to_new in [*_anchors(old, new, start, old_end, new_end), (old_end, new_end)]:
        begin, end_old, end_new = _trimmed(old, new, at_old, to_old, at_new, to_new)
        skipped = begin - at_old
        if begin < end_old or at_new + skipped < end_new:
            found.append((begin, end_old, at_new + skipped, end_new))
        at_old, at_new = to_old, to_new
    return found


def _trimmed(old: Sequence[Hashable], new: Sequence[Hashable], a: int, b: int, c: int, d: int) -> tuple[int, int, int]:
    """Cut the common beginning and end off `old[a:b]` and `new[c:d]`: the new a, b and d."""
    while a < b and c < d and old[a] == new[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d = b - 1, d - 1
    return a, b, d


def _anchors(
    old: Sequence[Hashable], new: Sequence[Hashable], start: int, old_end: int, new_end: int
) -> list[tuple[int, int]]:
    """The longest run, in both orders, of tokens that occur once in each middle."""
    once = {token for token, count in Counter(old[start:old_end]).items() if count == 1}
    once &= {token for token, count in Counter(new[start:new_end]).items() if count == 1}
    where = {old[at]: at for at in range(start, old_end) if old[at] in once}
    pairs = [(where[new[at]], at) for at in range(start, new_end) if new[at] in once]
    tails: list[int] = []
    best: list[int] = []
    before = [-1] * len(pairs)
    for index, (at, _) in enumerate(pairs):
        length = bisect_left(tails, at)
        before[index] = best[length - 1] if length else -1
        if length == len(tails):
            tails.append(at)
            best.append(index)
        else:
            tails[length], best[length] = at, index
    run: list[tuple[int, int]] = []
    index = best[-1] if best else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def text_edit(old: str, new: str) -> str | None:
    """The edit that turns one string into another.

    Args:
        old: The JSON text that was told.
        new: The JSON text that is true.

    Returns:
        The words, or None when the whole should be told.
    """
    if len(new) <= MIN_WHOLE or not (_is_string(old) and _is_string(new)):
        return None
    if new.startswith(old[:-1]):
        edit = f'append "{new[len(old) - 1 : -1]}"'
        return edit if is_worth(edit, len(new)) else None
    parts = _replacements(old[1:-1], new[1:-1])
    if parts is None:
        return None
    text = old[1:-1]
    for was, now in parts:  # what a reader does who takes one part after the other
        if not _occurs_once(text, was):
            return None
        text = text.replace(was, now, 1)
    edit = "; ".join(f'replace "{was}" with "{now}"' for was, now in parts)
    return edit if text == new[1:-1] and is_worth(edit, len(new)) else None


def _is_string(text: str) -> bool:
    return text.startswith('"') and text.endswith('"')


def _occurs_once(text: str, part: str) -> bool:
    at = text.find(part)
    return at >= 0 and text.find(part, at + 1) < 0


def _replacements(old: str, new: str) -> list[tuple[str, str]] | None:
    """Pairs of old and new parts; each old one occurs once in the old text, and none is empty."""
    was, now = _TOKEN.findall(old), _TOKEN.findall(new)
    places = _joined(_in_lines(was, now, hunks(was, now)))
    at = 0
    made: list[tuple[str, str]] = []
    while at < len(places):
        if len(places) > MAX_PARTS:
            return None
        low = places[at - 1][1] if at else 0
        high = places[at + 1][0] if at + 1 < len(places) else len(was)
        pair = _widened(old, was, now, places[at], low, high)
        if pair is not None:
            made.append(pair)
            at += 1
        elif len(places) == 1:
            return None
        else:  # with its neighbour it is unique, perhaps
            at = min(at, len(places) - 2)
            (a, _, c, _), (_, b, _, d) = places[at], places[at + 1]
            places[at : at + 2] = [(a, b, c, d)]
            del made[at:]
    return made


def _in_lines(was: Sequence[str], now: Sequence[str], places: list[Hunk]) -> list[Hunk]:
    """Hunks with the rest of their lines, where those are short: a line is what a reader understands by itself.

    "call `hold_order`" is half a rule; which request it is about stands at the line's other end.
    """
    made: list[Hunk] = []
    for at, (a, b, c, d) in enumerate(places):
        low = places[at - 1][1] if at else 0
        high = places[at + 1][0] if at + 1 < len(places) else len(was)
        left = next((n for n in range(a - low) if was[a - n - 1].startswith(_BREAK)), a - low)
        right = next((n for n in range(high - b) if was[b + n].startswith(_BREAK)), high - b)
        whole = (a - left, b + right, c - left, d + right)
        lines = "".join((*was[whole[0] : whole[1]], _BREAK, *now[whole[2] : whole[3]])).split(_BREAK)
        made.append(whole if max(map(len, lines)) <= MIN_WHOLE else (a, b, c, d))
    return made


def _joined(places: list[Hunk]) -> list[Hunk]:
    """Hunks with a word or two between them read better as one."""
    made: list[Hunk] = []
    for place in places:
        if made and place[0] - made[-1][1] <= 2:
            made[-1] = (made[-1][0], place[1], made[-1][2], place[3])
        else:
            made.append(place)
    return made


def _widened(
    text: str, was: Sequence[str], now: Sequence[str], place: Hunk, low: int, high: int
) -> tuple[str, str] | None:
    """A hunk with as much of what stands around it (between two tokens of the old text) as makes it unique."""
    a, b, c, d = place
    size = 0
    while True:
        left, right = min((size + 1) // 2, a - low), min(size // 2, high - b)
        head, tail = "".join(was[a - left : a]), "".join(was[b : b + right])
        before, after = f"{head}{''.join(was[a:b])}{tail}", f"{head}{''.join(now[c:d])}{tail}"
        if len(before) > WORTH * max(len(text), MIN_WHOLE):
            return None
        while len(before) > 1 and len(after) > 1 and before[-1] == after[-1] == " ":
            before, after = before[:-1], after[:-1]
        if len(before) >= _MIN_OLD and after and _occurs_once(text, before):
            return before, after
        if left == a - low and right == high - b:
            return None
        size = size * 2 if size > 2 else size + 1


def scalars(text: str) -> list[str] | None:
    """The items of a list that is told in one line, or None when the text is no such list."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    found, at = list[str](), 1
    while at < len(text) - 1:
        match = _SCALAR.match(text, at, len(text) - 1)
        if match is None:
            return None
        found.append(match[0].removesuffix(", "))
        at = match.end()
    return found


def list_edit(old: Sequence[Item], new: Sequence[Item], path: str = "") -> str:
    """The edit that turns one list into another: steps from the back to the front.

    Args:
        old: The items that were told.
        new: The items that are true.
        path: The path of a list whose items are named by their index; empty for one that is a single line.

    Returns:
        The words, however long they are (a caller asks `is_worth`); empty for a list with a path in which no item has
        another index than before: lines of their own name best what changed in its items.
    """
    places = hunks([item.same for item in old], [item.same for item in new])
    if path and all(b - a == d - c for a, b, c, d in places):
        return ""
    steps: list[str] = []
    for a, b, c, d in reversed(places):
        both = min(b - a, d - c)
        if more := ", ".join(item.shown for item in new[c + both : d]):
            steps.append(f"append {more}" if a + both == len(old) else f"insert at {a + both} {more}")
        for at in range(b - 1, a + both - 1, -1):
            echo = old[at].shown
            steps.append(f"remove at {at} ({echo})" if len(echo) <= _ECHO else f"remove at {at}")
        steps += [f"set at {a + at} {new[c + at].shown}" for at in range(both - 1, -1, -1)]
    if path:
        steps.append(f"now {path}[0] to {path}[{len(new) - 1}]")
    return "; ".join(steps)
