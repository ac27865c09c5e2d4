"""Where two heads differ, in tokens, line by line.

A baseline has one line for each field. So what differs are the lines of the fields that changed, each replaced as a
whole from its first differing token on: nothing is found by searching for a value's text, and after the replacement the
ids are those of the new prompt, exactly.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from pkv_agents.kv import TokenRun

Line = tuple[int, ...]

_TAG = re.compile(r"((?:<state(?:-update)? id=\"|\[\[state(?:-update)? ))[a-z2-7]{4}")
_NOTE = re.compile(r" \([^()]*\)$")


def changed_runs(old: Sequence[int], new: Sequence[int], *, decode: Callable[[Sequence[int]], str]) -> list[TokenRun]:
    """What to replace in `old` so that it becomes `new`; nothing if they are equal.

    Args:
        old: Token ids of a head.
        new: Token ids of another.
        decode: The text of token ids.
    """
    ends: dict[int, bool] = {}
    before, after = _lines(old, decode, ends), _lines(new, decode, ends)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    runs: list[TokenRun] = []
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        # As many lines as before are the same fields with other values; else lines have come or gone.
        pairs = [(at, at + 1, c + at - a, c + at - a + 1) for at in range(a, b)] if b - a == d - c else [(a, b, c, d)]
        for first, last, there_first, there_last in pairs:
            here = [token for line in before[first:last] for token in line]
            there = [token for line in after[there_first:there_last] for token in line]
            same = _common(here, there)
            name = _name(decode(after[there_first] if there else before[first]))
            runs.append(TokenRun(name, starts[first] + same, starts[last], tuple(there[same:])))
    return runs


def skeleton_of(text: str) -> str:
    """A digest of a head without the values of its fields and a session's tag.

    It is equal as long as the same fields stand in the same text, for all sessions.
    """
    text = _TAG.sub(r"\1", text)
    names = "\n".join(line.partition(": ")[0] for line in text.split("\n"))
    return hashlib.blake2b(names.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _name(line: str) -> str:
    """The field of a line, without the note in parentheses that may stand behind it."""
    return _NOTE.sub("", line.partition(": ")[0].strip())


def _lines(ids: Sequence[int], decode: Callable[[Sequence[int]], str], ends: dict[int, bool]) -> list[Line]:
    lines: list[Line] = []
    start = 0
    for index, token in enumerate(ids):
        if token not in ends:
            ends[token] = "\n" in decode([token])
        if ends[token] or index + 1 == len(ids):
            lines.append(tuple(ids[start : index + 1]))
            start = index + 1
    return lines


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
