"""A provider's prompt cache, simulated: what of a request would be read from it, and what written to it.

Three kinds of cache are known; which one is data of the `Profile`. Where none is known, nothing is read.

- *Automatic*: every prefix is kept, in blocks of so many tokens (OpenAI before GPT-5.6, vLLM, SGLang, a local model).
  Gemini's implicit cache is taken for one, too: it gives no guarantee, so what is read here is the most it may read.
- *Slots*: each slot holds the last prompt it served, and nothing else (llama.cpp).
- *Marked*: prefixes are kept that end at a breakpoint. Anthropic looks a few content blocks back from each breakpoint
  of a request. OpenAI from GPT-5.6 puts a breakpoint at the end of the newest message by itself, writes the latest
  four, and finds an earlier one exactly, however many blocks back, among the latest 80. That implicit ones of earlier
  requests count among those is how its documentation reads; it was not tried.

What a model generates is not kept before it comes back as input. Nothing here asks a provider: it is arithmetic, for
plans, benchmarks and tests.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from ._prefixes import PrefixTree, prefix_names, shared_units
from .breakpoints import Breakpoint
from .errors import ProfileError
from .messages import Message, Part
from .profiles import Profile

Encode = Callable[[str], Sequence[Hashable]]

_WIDTH = array("I").itemsize
_LIKE_ENOUGH = 0.1  # llama.cpp takes the slot that holds more than this share of a prompt, else the oldest
_CONSIDERED = 80  # so many of the latest breakpoints, by GPT-5.6
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """One request, as a cache sees it.

    Attributes:
        tokens: All input tokens; anything that can be compared and hashed.
        blocks: Where its content blocks end, in tokens, ascending; the last is the number of tokens.
        breakpoints: Which of these ends carry a marker.
        at: When it is sent, in seconds from any beginning.
        ttls: The seconds that a breakpoint asks for, by its end; the profile's where it asks for nothing.
        implicit: False asks a provider that places a breakpoint by itself for the request's own only.
    """

    tokens: Sequence[Hashable]
    blocks: tuple[int, ...]
    breakpoints: tuple[int, ...] = ()
    at: float = 0.0
    ttls: Mapping[int, int] = field(default_factory=dict[int, int])
    implicit: bool = True


@dataclass(frozen=True, slots=True)
class CacheOutcome:
    """What the cache did for one request; the first three add up to its tokens.

    Attributes:
        read: Tokens that the cache served.
        written: Tokens that were read in full and written to it at the price of writing.
        fresh: Tokens that were read in full, at full price.
        written_1h: How many of `written` were written for longer than the profile's own TTL, at its price for that.
    """

    read: int
    written: int
    fresh: int
    written_1h: int = 0

    def cost(self, profile: Profile) -> float:
        """The price of the input, in full-priced input tokens; an unknown multiplier counts as 1."""
        read = 1.0 if profile.read_multiplier is None else profile.read_multiplier
        write = 1.0 if profile.write_multiplier is None else profile.write_multiplier
        long = write if profile.write_multiplier_1h is None else profile.write_multiplier_1h
        return self.read * read + (self.written - self.written_1h) * write + self.written_1h * long + self.fresh


def characters(text: str) -> tuple[str, ...]:
    """Stand-ins for tokens where there is no tokenizer: pieces of four characters."""
    return tuple(text[at : at + 4] for at in range(0, len(text), 4))


def cache_request(
    messages: Iterable[Message],
    *,
    breakpoints: Iterable[int | Breakpoint] = (),
    at: float = 0.0,
    encode: Encode = characters,
    implicit: bool = True,
) -> CacheRequest:
    """Write a request down as a cache sees it: each content part of a message is a block.

    Args:
        messages: The wire form, system message first.
        breakpoints: Those of `plan_breakpoints`, or indexes of the messages whose last block carries a marker.
        at: When it is sent, in seconds.
        encode: The tokenizer.
        implicit: Whether a provider that places a breakpoint by itself should.

    Returns:
        The request.
    """
    tokens: list[Hashable] = []
    ends: list[list[int]] = []
    for message in messages:
        tokens.append(("role", message.role))
        ends.append([])
        for text in _texts(message):
            tokens.extend(encode(text))
            ends[-1].append(len(tokens))
    marks: set[int] = set()
    ttls: dict[int, int] = {}
    for mark in breakpoints:
        if isinstance(mark, int):
            marks.add(ends[mark][-1])
        else:
            marks.add(end := ends[mark.message][mark.part])
            if mark.ttl == "1h":
                ttls[end] = _HOUR
    blocks = tuple(end for parts in ends for end in parts)
    return CacheRequest(tokens, blocks, tuple(sorted(marks)), at, ttls, implicit)


def _texts(message: Message) -> list[str]:
    content = message.content
    texts = [content] if isinstance(content, str) else [_part(part) for part in content]
    return texts + [_json([call.name, dict(call.arguments)]) for call in message.tool_calls] or [""]


def _part(part: Part) -> str:
    """A text part is its text: a provider reads it as it reads plain content, and a marker on it is no token."""
    text = part.get("text") if part.get("type") == "text" else None
    return text if isinstance(text, str) else _json(dict(part))


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)


@dataclass(slots=True)
class _Entry:
    """A prefix that ends at a breakpoint: when it was last used, how long it stays, what it adds to the capacity."""

    at: float
    ttl: float | None
    size: int


class CacheSim:
    """One cache, empty at first.

    Args:
        profile: The provider.
        capacity_tokens: How much it holds before the least recently used is dropped; None: no limit but its TTL.
        slots: So many slots that hold one prompt each, as llama.cpp has; None: the cache that the profile describes.
    """

    def __init__(self, profile: Profile, *, capacity_tokens: int | None = None, slots: int | None = None) -> None:
        self.profile = profile
        self.capacity = capacity_tokens
        self._ids: defaultdict[Hashable, int] = defaultdict(count().__next__)
        self._step = profile.block_tokens or 1
        self._tree = PrefixTree(self._step * _WIDTH)
        self._slots: list[bytes] = [b""] * (slots or 0)  # the one used least recently first
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()  # in this order, too

    def run(self, request: CacheRequest) -> CacheOutcome:
        """Send a request.

        Args:
            request: The request; times never go back.

        Returns:
            What was read and what was written.

        Raises:
            ProfileError: More breakpoints than the provider takes, one that no block ends at, or one that asks for a
                longer TTL than one before it.
        """
        packed = array("I", map(self._ids.__getitem__, request.tokens)).tobytes()
        if self._slots:
            return self._in_a_slot(packed)
        if self.profile.max_breakpoints:
            return self._marked(request, packed, self.profile.max_breakpoints)
        if self.profile.automatic or self.profile.block_tokens:
            return self._automatic(packed, request.at)
        return CacheOutcome(0, 0, len(request.tokens))

    def check_integrity(self) -> None:
        """Count the stock, for tests.

        Raises:
            AssertionError: What is held is not what is counted, or more than the capacity.
        """
        self._tree.check_integrity()
        held = self._tree.held * self._step + sum(entry.size for entry in self._entries.values())
        assert self.capacity is None or held <= self.capacity

    def _automatic(self, packed: bytes, at: float) -> CacheOutcome:
        step, total, ttl = self._step, len(packed) // _WIDTH, self.profile.ttl_seconds
        hit = self._tree.match(packed, since=None if ttl is None else at - ttl)
        read = min(hit, (total - 1) // step) * step  # the last token is always read: it makes the first logits
        least = self.profile.min_cacheable_tokens or 0
        if total >= least:
            self._tree.keep(packed, at)
            if self.capacity is not None:
                self._tree.drop(self.capacity // step)
        read = read if read >= least else 0
        return CacheOutcome(read, 0, total - read)

    def _in_a_slot(self, packed: bytes) -> CacheOutcome:
        total = len(packed) // _WIDTH
        shared = [shared_units(slot, packed, _WIDTH) for slot in self._slots]
        best = max(range(len(shared)), key=shared.__getitem__)
        chosen = best if shared[best] > _LIKE_ENOUGH * total else 0
        del self._slots[chosen]
        self._slots.append(packed)
        read = max(0, min(shared[chosen], total - 1))
        return CacheOutcome(read, 0, total - read)

    def _marked(self, request: CacheRequest, packed: bytes, most: int) -> CacheOutcome:
        total, least = len(request.tokens), self.profile.min_cacheable_tokens or 0
        ends = (end * _WIDTH for end in request.blocks)
        names = dict(zip(request.blocks, prefix_names(packed, ends), strict=True))
        written = self._to_write(request, most)
        found = self._candidates(request, names)
        read = max((end for end in found if self._alive(names[end], request.at)), default=0)
        kept = [end for end in written if end >= least]
        last = max(kept, default=0)
        usual = self.profile.ttl_seconds or 0
        longest = max((end for end in kept if request.ttls.get(end, usual) > usual), default=0)
        # The longest is refreshed first and so dropped first: shorter ones serve other requests, too.
        known = [end for end in request.blocks if names[end] in self._entries]
        for end in sorted({*kept, read} - {0}, reverse=True):
            below = max((other for other in (*known, *kept) if other < end), default=0)
            self._keep(names[end], request.at, request.ttls.get(end, self.profile.ttl_seconds), end - below)
        self._evict()
        return CacheOutcome(read, max(0, last - read), total - max(read, last), written_1h=max(0, longest - read))

    def _to_write(self, request: CacheRequest, most: int) -> tuple[int, ...]:
        """The ends that this request may leave in the cache, ascending."""
        marks, implicit = request.breakpoints, self.profile.implicit_breakpoint
        if not set(marks) <= set(request.blocks):
            raise ProfileError("a breakpoint stands where no block ends; mark the end of a block")
        usual = self.profile.ttl_seconds or 0
        spans = [request.ttls.get(end, usual) for end in marks]
        if any(later > earlier for earlier, later in zip(spans, spans[1:], strict=False)):
            raise ProfileError("a breakpoint asks for a longer TTL than one before it; the longer stands first")
        if not implicit and len(marks) > most:
            raise ProfileError(f"{len(marks)} breakpoints; {self.profile.name} takes {most} in a request")
        if implicit and request.implicit:
            marks = (*(end for end in marks if end != len(request.tokens)), len(request.tokens))
        return marks[-most:]

    def _candidates(self, request: CacheRequest, names: Mapping[int, bytes]) -> Iterable[int]:
        """The block ends that the look-up considers."""
        blocks, reach = request.blocks, self.profile.lookback_blocks
        if self.profile.implicit_breakpoint:
            if not request.implicit and not request.breakpoints:
                return ()  # such a request does not use the cache
            known = (end for end in reversed(blocks) if end in request.breakpoints or names[end] in self._entries)
            return islice(known, reach or _CONSIDERED)
        found: set[int] = set()
        for mark in request.breakpoints:
            last = bisect_left(blocks, mark) + 1
            found.update(blocks[0 if reach is None else max(0, last - reach) : last])
        return found

    def _alive(self, name: bytes, at: float) -> bool:
        known = self._entries.get(name)
        return known is not None and (known.ttl is None or at - known.at <= known.ttl)

    def _keep(self, name: bytes, at: float, ttl: float | None, size: int) -> None:
        """Keep or refresh a prefix. A shorter TTL does not shorten the life of what was written for longer."""
        known = self._entries.get(name)
        if known is not None:
            size = known.size
            if self._alive(name, at) and ttl is not None:
                ttl = None if known.ttl is None else max(ttl, known.ttl)
        self._entries[name] = _Entry(at, ttl, size)
        self._entries.move_to_end(name)

    def _evict(self) -> None:
        if self.capacity is None:
            return
        held = sum(entry.size for entry in self._entries.values())
        while held > self.capacity:
            held -= self._entries.popitem(last=False)[1].size


__all__ = ["CacheOutcome", "CacheRequest", "CacheSim", "Encode", "cache_request", "characters"]
