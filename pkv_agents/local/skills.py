"""Skills: texts of the head that are compiled once and put in place, not prefilled.

A skill stands in the system text like any other; here its tokens are found there, as a run of ids. Where a tokenizer
makes one token of a skill's edge and what stands beside it, the tokens of that edge are computed with the text around.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from pkv_agents.errors import OptionsError
from pkv_agents.kv import DiskStore, KVSegment, SegmentModel, compile_segment, compiled_digest

PREAMBLE = "You are a helpful assistant. Follow these instructions.\n\n"
"""What stands before a skill while it is compiled, behind the opening of a system turn; then it is dropped."""
SEAM = 4
"""Tokens at the start of each skill that are computed in their place."""
_EDGE = 3
"""Tokens at either edge of a skill that may be merged with the text around."""
_KEPT = 16
"""Compiled skills that are kept in memory where there is no store."""


@dataclass(frozen=True, slots=True)
class Found:
    """A skill in a head.

    Attributes:
        start: Its first token there.
        ids: Its token ids there.
    """

    start: int
    ids: tuple[int, ...]

    @property
    def stop(self) -> int:
        """One behind its last token."""
        return self.start + len(self.ids)


class SkillShelf:
    """Compiled skills of one model, on disk or in memory. Safe for many threads.

    Args:
        store: Where they are kept; None keeps the latest in memory.
        preamble: Token ids that stand before a skill while it is compiled.
    """

    def __init__(self, store: DiskStore | None, *, preamble: Sequence[int]) -> None:
        self.preamble = tuple(preamble)
        self._store = store
        self._kept: OrderedDict[tuple[int, ...], KVSegment] = OrderedDict()
        self._lock = threading.Lock()

    def digest(self, ids: Sequence[int]) -> str:
        """What identifies a compiled skill, known without compiling it."""
        return compiled_digest(ids, self.preamble)

    def get(self, model: SegmentModel, ids: Sequence[int]) -> KVSegment:
        """A compiled skill: kept, from disk, or compiled now."""
        if self._store is not None:
            return self._store.compile(model, ids, preamble=self.preamble)
        with self._lock:
            if (kept := self._kept.get(tuple(ids))) is not None:
                self._kept.move_to_end(tuple(ids))
                return kept
        made = compile_segment(model, ids, preamble=self.preamble)
        with self._lock:
            self._kept[tuple(ids)] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def find_skills(head: Sequence[int], skills: Sequence[Sequence[int]]) -> list[Found]:
    """Where skills stand in a head, in the head's order.

    Args:
        head: Token ids of the head.
        skills: Token ids of each skill, tokenised alone.

    Raises:
        OptionsError: If one does not stand there, or two overlap.
    """
    found: list[Found] = []
    for index, ids in enumerate(skills):
        one = _find(tuple(head), tuple(ids))
        if one is None:
            raise OptionsError(
                f"skills[{index}] ({len(ids)} tokens) does not stand in the system text: put its text there, with a "
                "blank line before and behind it"
            )
        found.append(one)
    found.sort(key=lambda one: one.start)
    for before, after in zip(found, found[1:], strict=False):
        if after.start < before.stop:
            raise OptionsError("two skills overlap in the system text: give each text once")
    return found


def _find(head: tuple[int, ...], ids: tuple[int, ...]) -> Found | None:
    for cut in range(2 * _EDGE + 1):
        for front in range(min(cut, _EDGE) + 1):
            inner = ids[front : len(ids) - (cut - front)]
            if cut - front <= _EDGE and inner and (start := _index(head, inner)) is not None:
                return Found(start, inner)
    return None


def _index(head: tuple[int, ...], ids: tuple[int, ...]) -> int | None:
    first, size = ids[0], len(ids)
    for start in range(len(head) - size + 1):
        if head[start] == first and head[start : start + size] == ids:
            return start
    return None
