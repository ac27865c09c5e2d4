"""Putting compiled skills into the cache, where they stand in a prompt.

    head  [ instructions | skill | state ]        the same for all users up to the last skill in it: shared
    later [ ... | user | <state-update> skill ... ]      a skill that was loaded in mid-session: this session's own

What stands before a skill is taken from the cache if it is there, else computed. A skill that was compiled for just
this head (`compile(..., behind=...)`) is kept together with what stands before it, and leaves the answer exact. Any
other makes it `Composed`, and everything behind it; its key in the cache and each answer say so. Which skill is of
which kind is settled once in a process, so that a conversation does not change its kind.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pkv_agents.kv import (
    EXACT,
    CacheKey,
    Forwarded,
    KVSegment,
    Origin,
    Placed,
    PrefixCache,
    SegmentModel,
    Slab,
    compose,
    placed_origin,
)
from pkv_agents.local.options import GenerationOptions
from pkv_agents.local.skills import SEAM, Found, SkillShelf, find_skills
from pkv_agents.local.template import ChatTemplate
from pkv_agents.messages import Message

KeyOf = Callable[[Origin], CacheKey]
"""The cache's key for an origin."""
_SETTLED = 1024
"""Skills of which it is remembered whether they are exact in their place."""


class SkillPlacer:
    """Puts the skills of a request into the cache. Safe for many threads.

    Args:
        segments: Gives the segment model; called when it is needed.
        cache: The prefix cache.
        template: Finds the head, and tokenises skills.
        shelf: Gives the compiled skills' shelf; called when it is needed.
    """

    def __init__(
        self,
        segments: Callable[[], SegmentModel],
        cache: PrefixCache,
        template: ChatTemplate,
        shelf: Callable[[], SkillShelf],
    ) -> None:
        self._segments = segments
        self._cache = cache
        self._template = template
        self._shelf = shelf
        self._settled: OrderedDict[bytes, bool] = OrderedDict()
        self._lock = threading.Lock()

    def place(
        self, ids: Sequence[int], texts: Sequence[str], wanted: GenerationOptions, key_of: KeyOf
    ) -> tuple[Origin, int]:
        """Puts skills into the cache where they stand in a prompt.

        Args:
            ids: The prompt.
            texts: The skills.
            wanted: The request's options.
            key_of: The cache's key for an origin.

        Returns:
            The origin under which the prompt is looked up, and how many tokens were computed.

        Raises:
            OptionsError: A skill does not stand in the prompt.
        """
        head = self._template.head_size(ids) or len(ids)  # where no token ends a turn, the head may be anywhere
        found = find_skills(ids, self._encoded(texts), head=head)
        shared = sum(one.stop <= head for one in found)
        computed = 0
        if shared:
            computed += self._build(ids, found[:shared], head, None, key_of)
        if shared < len(found):
            computed += self._build(ids, found, head, wanted, key_of)
        return self._origin(ids, found, head), computed

    def compile(
        self,
        texts: Sequence[str],
        *,
        behind: Sequence[Message] = (),
        tools: Sequence[Mapping[str, object]] = (),
    ) -> tuple[KVSegment, ...]:
        """Compiles skills ahead, into the store or into memory.

        Args:
            texts: The skills, as they stand in a system text or in an erratum.
            behind: A request in whose head all of them stand. They are compiled for just that place: where the same
                tokens stand before them, they are put in place exactly. Empty: for any place, approximately; what is
                there already is not compiled again.
            tools: The tools of that request.

        Returns:
            The segments, in the order of the texts; or in that of the head, each with what stands between it and the
            skill before it.

        Raises:
            OptionsError: A skill does not stand in that head.
        """
        model, shelf, wanted = self._segments(), self._shelf(), self._encoded(texts)
        if not behind:
            return tuple(shelf.get(model, Found(0, tuple(one))) for one in wanted)
        ids = self._template.render(behind, tools).ids
        found = find_skills(ids[: self._template.head_size(ids) or len(ids)], wanted)
        whole = model.prefill(ids[: max((one.stop for one in found), default=1)]).segment
        starts = [0, *(one.stop for one in found)]
        made = tuple(whole.slice(start, one.stop) for start, one in zip(starts, found, strict=False))
        for segment in made:
            shelf.put(model, segment, ids[: segment.start])
        with self._lock:
            self._settled.clear()
        return made

    def put(self, done: Forwarded, wanted: GenerationOptions | None, key_of: KeyOf, *, behind: int = 1) -> None:
        """Writes a segment into a slab of its own: of the request's session, with room for the answer, or of nobody's.

        Args:
            done: What was computed.
            wanted: The request's options; None if the slab is nobody's.
            key_of: The cache's key for an origin.
            behind: How many tokens of the prompt follow.
        """
        ids = done.segment.ids.tolist()
        session = wanted.session if wanted else None
        room = wanted.max_tokens + behind if wanted else 0
        with self._cache.lease(key_of(done.segment.origin), (*ids, 0), reserve=room, session=session) as lease:
            if lease.cached < len(ids):
                lease.slab.crop(0)
                self._segments().fill(lease.slab, done.segment)

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._template.encode(self._template.neutralise(text)) for text in texts]

    def _build(
        self, ids: Sequence[int], found: Sequence[Found], head: int, wanted: GenerationOptions | None, key_of: KeyOf
    ) -> int:
        """Sees that a prompt up to its last skill is in the cache; returns how many tokens were computed for it."""
        whole = ids[: found[-1].stop]
        if self._cache.match(key_of(self._origin(ids, found, head)), whole) == len(whole):
            return 0
        base, known = self._base(ids, found, head, key_of)
        placed = [self._placed(ids, found, index, head) for index in range(known, len(found))]
        done = compose(self._segments(), whole, placed, seam=SEAM, base=base)
        self.put(done, wanted, key_of, behind=len(ids) - len(whole))
        return done.computed

    def _base(
        self, ids: Sequence[int], found: Sequence[Found], head: int, key_of: KeyOf
    ) -> tuple[KVSegment | None, int]:
        """What the cache holds of a prompt, and how many of its skills are in that."""
        fingerprint = self._segments().fingerprint

        def copied(slab: Slab, common: int) -> KVSegment:
            return KVSegment.from_slab(slab, fingerprint=fingerprint, stop=common)

        for known in reversed(range(len(found))):
            before = found[known - 1].stop if known else 0
            # What was compiled for this head holds what stands between it and the skill before it.
            most = before if known < self._exact(ids, found, head) else found[known].start
            key = key_of(self._origin(ids, found[:known], head))
            if (base := self._cache.read(key, ids[:most], copied, least=max(1, before))) is not None:
                return base, known
        return None, 0

    def _origin(self, ids: Sequence[int], found: Sequence[Found], head: int) -> Origin:
        """The origin of a prompt with these skills in place."""
        loose = found[self._exact(ids, found, head) :]
        if not loose:
            return EXACT
        digest = self._shelf().digest
        return placed_origin([one.start for one in loose], [digest(one) for one in loose], seam=SEAM)

    def _exact(self, ids: Sequence[int], found: Sequence[Found], head: int) -> int:
        """How many skills, from the first on, are there as they were computed in just this place."""
        before = 0
        for count, one in enumerate(found):
            key = _digest(ids, before, one)
            with self._lock:
                known = self._settled.get(key) if one.stop <= head else False
            if known is None:
                known = self._shelf().exact(self._segments(), ids[before : one.stop], ids[:before]) is not None
                self._settle(key, known)
            if not known:
                return count
            before = one.stop
        return len(found)

    def _placed(self, ids: Sequence[int], found: Sequence[Found], index: int, head: int) -> Placed:
        one, before = found[index], found[index - 1].stop if index else 0
        if index < self._exact(ids, found, head):
            if (exact := self._shelf().exact(self._segments(), ids[before : one.stop], ids[:before])) is not None:
                return Placed(before, exact)
            self._settle(_digest(ids, before, one), False)  # its file is gone
        return Placed(one.start, self._shelf().get(self._segments(), one))

    def _settle(self, key: bytes, exact: bool) -> None:
        with self._lock:
            self._settled[key] = exact
            while len(self._settled) > _SETTLED:
                self._settled.popitem(last=False)


def _digest(ids: Sequence[int], before: int, one: Found) -> bytes:
    """Identifies a skill, what stands before it, and where the skill before it ends."""
    data = np.asarray([before, *ids[: one.stop]], dtype=np.int32).tobytes()
    return hashlib.blake2b(data, digest_size=16).digest()


__all__ = ["KeyOf", "SkillPlacer"]
