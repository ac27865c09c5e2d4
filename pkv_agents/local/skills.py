"""Skills: texts of a prompt that are compiled once and put in place, not prefilled.

A skill stands in the system text, or in a later message, like any other text; here its tokens are found there, as a run
of ids. Where a tokenizer makes one token of a skill's edge and what stands beside it, the tokens of that edge are
computed with the text around.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pkv_agents.errors import OptionsError
from pkv_agents.kv import DiskStore, KVSegment, SegmentModel, compile_segment
from pkv_agents.kv.slab import TokenIds
from pkv_agents.kv.splice import compiled_origin

PREAMBLE = "You are a helpful assistant. Follow these instructions.\n\n"
"""What stands before a skill while it is compiled, behind the opening of a system turn; then it is dropped."""
SEAM = 4
"""Tokens at the start of each skill that are computed in their place."""
_EDGE = 3
"""Tokens at either edge of a skill that may be merged with the text around."""


@dataclass(frozen=True, slots=True)
class Found:
    """A skill in a prompt.

    Attributes:
        start: Its first token there.
        whole: The token ids of its text alone.
        front: How many of them at its start are other tokens there.
        back: How many at its end.
    """

    start: int
    whole: tuple[int, ...]
    front: int = 0
    back: int = 0

    @property
    def ids(self) -> tuple[int, ...]:
        """Its token ids there."""
        return self.whole[self.front : len(self.whole) - self.back]

    @property
    def stop(self) -> int:
        """One behind its last token."""
        return self.start + len(self.whole) - self.front - self.back

    def cut(self, segment: KVSegment) -> KVSegment:
        """What stands in the prompt, of its compiled whole."""
        return segment.slice(self.front, len(self.whole) - self.back)


class SkillShelf:
    """Compiled skills of one model, on disk or in memory. Safe for many threads.

    Args:
        store: Where they are kept; None keeps the latest in memory.
        preamble: Token ids that stand before a skill while it is compiled.
        max_bytes: What may be kept in memory.
        tell: Told how many bytes are.
    """

    def __init__(
        self,
        store: DiskStore | None,
        *,
        preamble: Sequence[int],
        max_bytes: int = 1 << 30,
        tell: Callable[[int], None] = lambda held: None,
    ) -> None:
        self.preamble = tuple(preamble)
        self._store = store
        self._max_bytes = max_bytes
        self._tell = tell
        self._kept: OrderedDict[tuple[tuple[int, ...], tuple[int, ...]], KVSegment] = OrderedDict()
        self._lock = threading.Lock()

    def digest(self, found: Found) -> str:
        """What identifies a compiled skill in its place, known without compiling it."""
        first = len(self.preamble)
        ids = np.asarray(found.whole, dtype=np.int32)
        written = np.arange(first, first + len(ids), dtype=np.int32)
        origin = compiled_origin(found.whole, self.preamble)
        return found.cut(KVSegment(ids, written, first, (), (), "", origin)).digest

    def get(self, model: SegmentModel, found: Found) -> KVSegment:
        """A compiled skill as it stands in a prompt: kept, from disk, or compiled now."""
        segment = self._load(model, found.whole, self.preamble)
        if segment is None:
            segment = compile_segment(model, found.whole, preamble=self.preamble)
            self.put(model, segment, self.preamble)
        return found.cut(segment)

    def exact(self, model: SegmentModel, ids: Sequence[int], before: Sequence[int]) -> KVSegment | None:
        """Tokens that were compiled behind just those that stand before them; None if they were not."""
        return self._load(model, tuple(ids), tuple(before))

    def put(self, model: SegmentModel, segment: KVSegment, preamble: Sequence[int]) -> None:
        """Keeps a compiled skill."""
        if self._store is not None:
            self._store.save(model, segment, preamble=preamble)
            return
        with self._lock:
            self._kept[tuple(segment.ids.tolist()), tuple(preamble)] = segment
            held = sum(one.nbytes for one in self._kept.values())
            while held > self._max_bytes:
                held -= self._kept.popitem(last=False)[1].nbytes
        self._tell(held)

    def _load(self, model: SegmentModel, ids: tuple[int, ...], preamble: tuple[int, ...]) -> KVSegment | None:
        if self._store is not None:
            return self._store.load(model, ids, preamble=preamble)
        with self._lock:
            if (kept := self._kept.get((ids, preamble))) is not None:
                self._kept.move_to_end((ids, preamble))
            return kept


def find_skills(ids: Sequence[int], skills: Sequence[Sequence[int]], *, head: int | None = None) -> list[Found]:
    """Where skills stand in a prompt, in its order.

    Args:
        ids: Token ids of the prompt.
        skills: Token ids of each skill, tokenised alone.
        head: How many of the ids are its head, where a skill is looked for first; None: all.

    Raises:
        OptionsError: If one does not stand there, or two overlap.
    """
    data = np.asarray(ids, dtype=np.int32)
    parts = [(0, data)] if head is None else [(0, data[:head]), (head, data[head:])]
    found: list[Found] = []
    for index, wanted in enumerate(skills):
        ones = (_find(part, tuple(wanted), at) for at, part in parts)
        one = next((one for one in ones if one is not None), None)
        if one is None:
            raise OptionsError(
                f"skills[{index}] ({len(wanted)} tokens) does not stand in the prompt: put its text into the system "
                "text or a message, with a line end before and behind it"
            )
        found.append(one)
    found.sort(key=lambda one: one.start)
    for before, after in zip(found, found[1:], strict=False):
        if after.start < before.stop:
            raise OptionsError("two skills overlap in the prompt: give each text once")
    return found


def _find(ids: TokenIds, whole: tuple[int, ...], at: int) -> Found | None:
    data = ids.tobytes()
    for cut in range(2 * _EDGE + 1):
        for front in range(min(cut, _EDGE) + 1):
            back = cut - front
            inner = whole[front : len(whole) - back]
            if back <= _EDGE and inner and (start := _index(data, inner)) is not None:
                return Found(at + start, whole, front, back)
    return None


def _index(data: bytes, ids: tuple[int, ...]) -> int | None:
    wanted = np.asarray(ids, dtype=np.int32)
    start = data.find(wanted.tobytes())
    while start >= 0 and start % wanted.itemsize:  # across two ids
        start = data.find(wanted.tobytes(), start + 1)
    return start // wanted.itemsize if start >= 0 else None
