"""A token-exact prefix cache over slabs.

A request's ids are matched against every slab of its key by comparing tokens (never by a hash alone). What it gets:

    content of the best slab   [ common ............ | tail ]
    request                    [ common ............ | new  ]

- tail empty: the slab is continued **in place**, nothing is copied.
- tail worth nothing: cut and continued in place. A tail is worth nothing if the same `session` owns the slab and the
  tail is shorter than `SHORT_TAIL` tokens, or is what a failed or abandoned call of that session left behind.
- otherwise the common part is **copied** to a slab of its own, so that forks interleaved A, B, A keep hitting. The
  copy is milliseconds where a prefill is seconds; sessions share heads this way.

A slab that another call is writing is never taken, but its committed tokens may be copied. Slabs count in the byte
budget by capacity; the least recently used go first. A call that is larger than the whole budget still runs; its slab
is dropped afterwards.

What was composed or edited has a key of its own (its origin), so an exact look-up never sees it; a slab whose content
is not of its key's origin answers nobody.

The look-up is a scan over the slabs of one key: each costs microseconds and there are as many as the budget holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeVar

import numpy as np

from pkv_agents.kv.cache_key import CacheKey, CacheStats
from pkv_agents.kv.slab import Slab, SlabShape, TokenIds, common_prefix

T = TypeVar("T")

SHORT_TAIL = 64
"""Tokens that a session may lose of its own slab rather than copy the rest."""


@dataclass(slots=True, eq=False)
class _Entry:
    key: CacheKey
    slab: Slab
    session: str | None
    used: int = 0
    worth: int | None = None
    """Tokens worth keeping if a call failed or was abandoned; None: all."""


@dataclass(slots=True)
class _Counts:
    continued: int = 0
    copied: int = 0
    cold: int = 0
    evicted: int = 0


@dataclass(slots=True)
class Lease:
    """A slab held for writing; a context manager that gives it back.

    Attributes:
        slab: The slab; its content is a prefix of the ids that were asked for.
        cached: Tokens of content at the start.
    """

    slab: Slab
    cached: int
    _cache: PrefixCache
    _entry: _Entry
    _prompt: int
    _open: bool = field(default=True)

    def reserve(self, tokens: int) -> None:
        """Makes room for `tokens` in all, inside the cache's budget as far as it goes."""
        self._cache._grow(self._entry, tokens)  # pyright: ignore[reportPrivateUsage] -- a lease is half of its cache

    def release(self, *, abandoned: bool = False) -> None:
        """Gives the slab back. `abandoned`: what follows the prompt is worth nothing to anybody."""
        if self._open:
            self._open = False
            self._cache._release(  # pyright: ignore[reportPrivateUsage] -- a lease is half of its cache
                self._entry, self._prompt if abandoned else None
            )

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(abandoned=kind is not None)


class PrefixCache:
    """Slabs by key and token ids, under a byte budget. Safe for many threads.

    Args:
        shape: What one token costs in the model.
        budget: Bytes that slabs may hold while nobody uses them.
        limit: The model's context limit in tokens.
    """

    def __init__(self, shape: SlabShape, *, budget: int, limit: int) -> None:
        self.shape = shape
        self.budget = budget
        self.limit = limit
        self._entries: list[_Entry] = []
        self._mutex = threading.RLock()
        self._clock = 0
        self._aside = 0
        self._counts = _Counts()

    def match(self, key: CacheKey, ids: Sequence[int]) -> int:
        """Length of the longest cached prefix of `ids`. Reads only."""
        with self._mutex:
            return max((common for _, common in self._matches(key, np.asarray(ids, dtype=np.int32))), default=0)

    def read(self, key: CacheKey, ids: Sequence[int], use: Callable[[Slab, int], T], *, least: int = 1) -> T | None:
        """What `use` makes of the slab that holds the longest cached prefix of `ids`; None if that is too short.

        Args:
            key: Model, adapter, dtype, tenant and origin.
            ids: Token ids.
            use: Called with the slab and the prefix's length, under the cache's lock; it reads and is quick.
            least: How long the prefix must be.
        """
        wanted = np.asarray(ids, dtype=np.int32)
        with self._mutex:
            entry, common = max(self._matches(key, wanted), key=lambda match: match[1], default=(None, 0))
            if entry is None or common < least:
                return None
            entry.used = self._tick()
            return use(entry.slab, common)

    def set_aside(self, held: int) -> None:
        """Counts bytes against the budget that are held beside the slabs, for what is put into them."""
        with self._mutex:
            self._aside = held
            self._evict(self._room)

    def lease(self, key: CacheKey, ids: Sequence[int], *, reserve: int = 0, session: str | None = None) -> Lease:
        """Takes a slab for writing whose content is the longest usable cached prefix of `ids`.

        At least the last id is left to forward, since its logits are wanted.

        Args:
            key: Model, adapter, dtype and tenant.
            ids: The prompt's token ids, not empty.
            reserve: Tokens to make room for behind the prompt.
            session: Who asks; it owns the slab afterwards.
        """
        wanted = np.asarray(ids, dtype=np.int32)
        size = min(len(wanted) + reserve, self.limit)
        with self._mutex:
            entry, kept = self._choose(key, wanted[:-1], size, session)
            entry.session, entry.worth = session, None
            entry.used = self._tick()
            self._grow(entry, size)
            return Lease(entry.slab, kept, self, entry, len(wanted))

    def clear(self) -> None:
        """Drops every slab that nobody is writing."""
        with self._mutex:
            self._entries = [entry for entry in self._entries if entry.slab.writer.locked()]

    def stats(self) -> CacheStats:
        """Counts since the start."""
        with self._mutex:
            c = self._counts
            return CacheStats(len(self._entries), self._bytes(), self.budget, c.continued, c.copied, c.cold, c.evicted)

    def check_integrity(self) -> None:
        """Asserts that the stock adds up; raises AssertionError if the cache has broken its own rules."""
        with self._mutex:
            idle = [entry for entry in self._entries if not entry.slab.writer.locked()]
            assert len({id(entry.slab) for entry in self._entries}) == len(self._entries), "a slab is listed twice"
            assert sum(entry.slab.nbytes for entry in idle) <= self._room, "idle slabs exceed the budget"
            for entry in self._entries:
                assert entry.slab.length <= entry.slab.capacity <= self.limit, "a slab is longer than its room"
                assert entry.slab.shape == self.shape, "a slab of another model"
                assert entry.used <= self._clock, "a slab was used in the future"

    # -- below: all under the mutex

    @property
    def _room(self) -> int:
        """Bytes that slabs may hold."""
        return max(0, self.budget - self._aside)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _bytes(self) -> int:
        return sum(entry.slab.nbytes for entry in self._entries)

    def _matches(self, key: CacheKey, ids: TokenIds) -> list[tuple[_Entry, int]]:
        return [
            (entry, common_prefix(entry.slab.ids, ids))
            for entry in self._entries
            if entry.key == key and entry.slab.origin == key.origin
        ]

    def _choose(self, key: CacheKey, ids: TokenIds, size: int, session: str | None) -> tuple[_Entry, int]:
        matches = [(entry, common) for entry, common in self._matches(key, ids) if common]
        # Of equally long matches the session's own slab comes first, then the one with the shortest tail.
        matches.sort(key=lambda m: (m[1], m[0].session == session, -m[0].slab.length), reverse=True)
        longest = matches[0][1] if matches else 0
        for entry, common in matches:
            if common < longest:
                break
            if self._expendable(entry, common, session) and entry.slab.writer.acquire(blocking=False):
                entry.slab.crop(common)
                self._counts.continued += 1
                return entry, common
        source = matches[0][0] if matches else None
        needed = self.shape.token_bytes * size
        self._evict(self._room - needed, keep=source)
        if source is not None and self._bytes() + needed > self._room and source.slab.writer.acquire(blocking=False):
            # No room for both: what the source has beyond the common part would be evicted anyway.
            source.slab.crop(longest)
            self._counts.continued += 1
            return source, longest
        return self._fresh(key, source, longest, size), longest

    @staticmethod
    def _expendable(entry: _Entry, common: int, session: str | None) -> bool:
        tail = entry.slab.length - common
        if not tail:
            return True
        if session is None or entry.session != session:
            return False
        return tail < SHORT_TAIL or (entry.worth is not None and common >= entry.worth - 1)

    def _fresh(self, key: CacheKey, source: _Entry | None, common: int, size: int) -> _Entry:
        slab = Slab(self.shape, capacity=size, limit=self.limit)
        slab.writer.acquire()
        if source is None:
            self._counts.cold += 1
        else:
            slab.copy_prefix(source.slab, common)
            source.used = self._tick()
            self._counts.copied += 1
        entry = _Entry(key, slab, None)
        self._entries.append(entry)
        return entry

    def _grow(self, entry: _Entry, tokens: int) -> None:
        with self._mutex:
            if tokens > entry.slab.capacity:
                entry.slab.reserve(tokens)
                self._evict(self._room, keep=entry)

    def _release(self, entry: _Entry, worth: int | None) -> None:
        with self._mutex:
            entry.worth = worth
            entry.used = self._tick()
            entry.slab.writer.release()
            if not entry.slab.length:
                self._entries.remove(entry)
            self._drop_contained(entry)
            self._evict(self._room)

    def _drop_contained(self, new: _Entry) -> None:
        """Drops idle slabs whose whole content this one begins with: they can answer nothing that it cannot."""
        self._entries = [
            entry
            for entry in self._entries
            if entry is new
            or entry.slab.writer.locked()
            or (entry.key, entry.slab.origin) != (new.key, new.slab.origin)
            or common_prefix(entry.slab.ids, new.slab.ids) < entry.slab.length
        ]

    def _evict(self, budget: int, *, keep: _Entry | None = None) -> None:
        """Drops idle slabs, least recently used first, until at most `budget` bytes are held."""
        held = self._bytes()
        for entry in sorted(self._entries, key=lambda e: e.used):
            if held <= budget:
                return
            if entry is not keep and not entry.slab.writer.locked():
                self._entries.remove(entry)
                self._counts.evicted += 1
                held -= entry.slab.nbytes
