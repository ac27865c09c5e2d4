"""What a request finds in the cache when it may rest on an approximation: skills put in place, fields edited in place.

Everything exact stays as it was: a request without skills and with an exact edit mode is looked up under the exact key
and sees nothing that was made here. What is made here is written to slabs of its own, under a key that holds how it
came about; later tokens inherit it, and each answer says so.

    held   [ head: tier: gold | q a q a ]        what this session's last request left
    asked  [ head: tier: new  | q a q a | q ]    its next request
             ^ edited           kept      forwarded in the same forward, but for the last token

Nothing is guessed: if what the session left is gone, or too much of the head changed, the request is prefilled and
exact. A session that goes on in another process is such a case.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pkv_agents.errors import OptionsError
from pkv_agents.kv import (
    EXACT,
    DiskStore,
    Edited,
    KVSegment,
    Origin,
    PrefixCache,
    SegmentModel,
    TokenRun,
    rewrite,
)
from pkv_agents.local.edit_way import EditWay, edit_way
from pkv_agents.local.head_lines import changed_runs, skeleton_of
from pkv_agents.local.options import GenerationOptions
from pkv_agents.local.placing import KeyOf, SkillPlacer
from pkv_agents.local.skills import SkillShelf
from pkv_agents.local.template import ChatTemplate, Rendered

MOST_EDITS = 64
"""Edits of one sequence after which it is prefilled: approximations add up."""
MOST_CHANGED = 0.5
"""Share of a head that may change by an edit; beyond it a prefill is as cheap."""
_SESSIONS = 1024
"""Sessions whose last request is remembered."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What to look up.

    Attributes:
        ids: The token ids to answer; those of the request, but for `stale`.
        origin: How the cached part of them came about.
        edited: Fields that were edited for this request.
        computed: Tokens that went through the model for that.
    """

    ids: tuple[int, ...]
    origin: Origin = EXACT
    edited: tuple[str, ...] = ()
    computed: int = 0


@dataclass(frozen=True, slots=True)
class _Held:
    ids: tuple[int, ...]
    origin: Origin


class Approximations:
    """Prepares the cache of one model for requests with skills or edits. Safe for many threads.

    Args:
        segments: Makes the segment model; called once, when it is needed first.
        cache: The prefix cache.
        template: Finds the head, and tokenises skills.
        store: Where compiled skills are kept; None keeps the latest in memory, in the cache's budget.
        preamble: The text that stands before a skill while it is compiled.
        allows: Whether a verdict allows a field to be edited in place: skeleton of the head, path.
    """

    def __init__(
        self,
        segments: Callable[[], SegmentModel],
        cache: PrefixCache,
        template: ChatTemplate,
        *,
        store: DiskStore | None,
        preamble: str,
        allows: Callable[[str, str], bool],
    ) -> None:
        self._make = segments
        self._cache = cache
        self._template = template
        self._store = store
        self._preamble = preamble
        self.placer = SkillPlacer(lambda: self.segments, cache, template, lambda: self._shelf)
        self._allows = allows
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._lock = threading.Lock()

    @cached_property
    def segments(self) -> SegmentModel:
        """The model as one whose segments can be cut, moved and edited."""
        return self._make()

    @cached_property
    def _shelf(self) -> SkillShelf:
        half = self._cache.budget // 2
        preamble = self._template.preamble(self._preamble)
        return SkillShelf(self._store, preamble=preamble, max_bytes=half, tell=self._cache.set_aside)

    def prepare(self, asked: Rendered, wanted: GenerationOptions, key_of: KeyOf) -> Prepared:
        """Says under which origin a request is looked up, having put into the cache what it may rest on.

        Args:
            asked: The prompt.
            wanted: Its options.
            key_of: The cache's key for an origin.

        Raises:
            OptionsError: The edit mode is unknown or needs a session, or a skill does not stand in the head.
            UnsupportedModelError: The model's segments cannot be handled.
        """
        way = edit_way(wanted.edit_mode)
        if way.edits and wanted.session is None:
            raise OptionsError(f"edit_mode {way.mode!r} edits what a session has in the cache: give session=")
        skills = wanted.skills if way.mode != "full" else ()
        if not way.edits and not skills:
            return Prepared(asked.ids)
        head = asked.ids[: self._template.head_size(asked.ids)]
        if (
            way.edits
            and (held := self._recall(wanted))
            and (done := self._edited(asked, head, held, way, wanted, key_of))
        ):
            return done
        if not skills:
            return Prepared(asked.ids)
        origin, computed = self.placer.place(asked.ids, skills, wanted, key_of)
        return Prepared(asked.ids, origin, computed=computed)

    def remember(self, wanted: GenerationOptions, ids: Sequence[int], origin: Origin) -> None:
        """Keeps what a session's request left in the cache, for its next one."""
        if wanted.session is None or not edit_way(wanted.edit_mode).edits:
            return
        with self._lock:
            self._held[wanted.salt, wanted.session] = _Held(tuple(ids), origin)
            self._held.move_to_end((wanted.salt, wanted.session))
            while len(self._held) > _SESSIONS:
                self._held.popitem(last=False)

    def forget(self) -> None:
        """Forgets what sessions left; their next requests are exact."""
        with self._lock:
            self._held.clear()

    def _recall(self, wanted: GenerationOptions) -> _Held | None:
        with self._lock:
            return self._held.get((wanted.salt, wanted.session or ""))

    # -- edits

    def _edited(
        self,
        asked: Rendered,
        head: tuple[int, ...],
        held: _Held,
        way: EditWay,
        wanted: GenerationOptions,
        key_of: KeyOf,
    ) -> Prepared | None:
        """The request on what the session left; None if it must be prefilled."""
        size = self._template.head_size(held.ids)
        before, behind = held.ids[:size], asked.ids[len(head) :]
        if before == head and size:
            return Prepared(asked.ids, held.origin)
        if way.mode == "stale":
            return Prepared((*before, *behind), held.origin)
        runs = changed_runs(before, head, decode=self._template.text_of)
        if not size or not self._may(runs, head, way, held):
            return None
        kept = size + _common(held.ids[size:], behind[:-1])
        source = self._source(held, kept, wanted, key_of)
        if source is None:
            return None
        rest = behind[kept - size : -1]
        done = rewrite(
            self.segments, source, runs, rest, query=behind[kept - size :], keep=min(way.keep, kept - runs[0].stop)
        )
        self.placer.put(done, wanted, key_of)
        return Prepared(asked.ids, done.segment.origin, tuple(run.path for run in runs), done.computed)

    def _may(self, runs: Sequence[TokenRun], head: tuple[int, ...], way: EditWay, held: _Held) -> bool:
        edits = len(held.origin.edits) if isinstance(held.origin, Edited) else 0
        if not runs or edits + len(runs) > MOST_EDITS:
            return False
        if sum(len(run.ids) for run in runs) > MOST_CHANGED * len(head):
            return False
        if way.mode != "auto":
            return True
        skeleton = skeleton_of(self._template.text_of(head))
        return all(self._allows(skeleton, run.path) for run in runs)

    def _source(self, held: _Held, kept: int, wanted: GenerationOptions, key_of: KeyOf) -> KVSegment | None:
        """A copy of what the session left, if it is still there; the slab stays as it is."""
        with self._cache.lease(key_of(held.origin), (*held.ids, 0), session=wanted.session) as lease:
            if lease.cached < len(held.ids) or lease.slab.origin != held.origin:
                return None
            return KVSegment.from_slab(lease.slab, fingerprint=self.segments.fingerprint, stop=kept)


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
