"""A provider's prompt cache, simulated: what of a request would be read from it, and what written to it.

Two kinds of cache are known. An *automatic* one keeps every prefix in blocks of so many tokens (OpenAI, vLLM, SGLang,
llama.cpp, a local model). A *marked* one keeps prefixes that end at a breakpoint, and looks for them a little way back
from the breakpoints of a later request (Anthropic; OpenAI from GPT-5.6, where a request ends in one by itself).
Which one, and with which numbers, is data of the `Profile`. Nothing here asks a provider: it is arithmetic, for plans,
benchmarks and tests.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .errors import ProfileError
from .messages import Message
from .profiles import Profile

Encode = Callable[[str], Sequence[Hashable]]


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """One request, as a cache sees it.

    Attributes:
        tokens: All input tokens; anything that can be compared and hashed.
        blocks: Where its content blocks end, in tokens, ascending; the last is the number of tokens.
        breakpoints: Which of these ends carry a marker.
        at: When it is sent, in seconds from any beginning.
    """

    tokens: Sequence[Hashable]
    blocks: tuple[int, ...]
    breakpoints: tuple[int, ...] = ()
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class CacheOutcome:
    """What the cache did for one request; the three add up to its tokens.

    Attributes:
        read: Tokens that the cache served.
        written: Tokens that were read in full and written to it at the price of writing.
        fresh: Tokens that were read in full, at full price.
    """

    read: int
    written: int
    fresh: int

    def cost(self, profile: Profile) -> float:
        """The price of the input, in full-priced input tokens; an unknown multiplier counts as 1."""
        read = 1.0 if profile.read_multiplier is None else profile.read_multiplier
        write = 1.0 if profile.write_multiplier is None else profile.write_multiplier
        return self.read * read + self.written * write + self.fresh


def characters(text: str) -> tuple[str, ...]:
    """Stand-ins for tokens where there is no tokenizer: pieces of four characters."""
    return tuple(text[at : at + 4] for at in range(0, len(text), 4))


def cache_request(
    messages: Iterable[Message],
    *,
    breakpoints: Iterable[int] = (),
    at: float = 0.0,
    encode: Encode = characters,
) -> CacheRequest:
    """Write a request down as a cache sees it: each content part of a message is a block.

    Args:
        messages: The wire form, system message first.
        breakpoints: Indexes of the messages whose last block carries a marker.
        at: When it is sent, in seconds.
        encode: The tokenizer.

    Returns:
        The request.
    """
    tokens: list[Hashable] = []
    blocks: list[int] = []
    ends: list[int] = []
    for message in messages:
        tokens.append(("role", message.role))
        for text in _texts(message):
            tokens.extend(encode(text))
            blocks.append(len(tokens))
        ends.append(len(tokens))
    return CacheRequest(tokens, tuple(blocks), tuple(sorted({ends[index] for index in breakpoints})), at)


def _texts(message: Message) -> list[str]:
    content = message.content
    texts = [content] if isinstance(content, str) else [_text(dict(part)) for part in content]
    return texts + [_text([call.name, dict(call.arguments)]) for call in message.tool_calls] or [""]


def _text(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)


class CacheSim:
    """One cache, empty at first.

    Args:
        profile: The provider.
        capacity_tokens: How much it holds before the least recently used is dropped; None: no limit but its TTL.
    """

    def __init__(self, profile: Profile, *, capacity_tokens: int | None = None) -> None:
        self.profile = profile
        self.capacity = capacity_tokens
        # The name of a prefix -> (when it was last used, what it adds to the capacity). The least recently used first.
        self._kept: OrderedDict[int, tuple[float, int]] = OrderedDict()

    def run(self, request: CacheRequest) -> CacheOutcome:
        """Send a request.

        Args:
            request: The request; times never go back.

        Returns:
            What was read and what was written.

        Raises:
            ProfileError: More breakpoints than the provider takes, or one that no block ends at.
        """
        marked = self.profile.max_breakpoints
        outcome = self._marked(request, marked) if marked else self._automatic(request)
        self._evict()
        return outcome

    def _automatic(self, request: CacheRequest) -> CacheOutcome:
        step, total = self.profile.block_tokens or 1, len(request.tokens)
        names = _chain(request.tokens, range(step, total + 1, step))
        hit = 0
        while hit < len(names) and self._alive(names[hit], request.at):
            hit += 1
        read = min(hit, (total - 1) // step) * step  # the last token is always read: it makes the first logits
        least = self.profile.min_cacheable_tokens or 0
        if total >= least:
            self._keep(((name, step) for name in names), request.at)
        read = read if read >= least else 0
        return CacheOutcome(read, 0, total - read)

    def _marked(self, request: CacheRequest, most: int) -> CacheOutcome:
        total, blocks, marks = len(request.tokens), request.blocks, request.breakpoints
        if self.profile.implicit_breakpoint and total not in marks:
            marks = (*marks[-(most - 1) :], total) if most > 1 else (total,)
        if len(marks) > most:
            raise ProfileError(f"{len(marks)} breakpoints; {self.profile.name} takes {most} in a request")
        if not set(marks) <= set(blocks):
            raise ProfileError("a breakpoint stands where no block ends; mark the end of a block")
        names = dict(zip(blocks, _chain(request.tokens, blocks), strict=True))
        found = [end for end in self._within_reach(blocks, marks) if self._alive(names[end], request.at)]
        read: int = max(found, default=0)
        least = self.profile.min_cacheable_tokens or 0
        writes = [end for end in marks if end >= least]
        written = max(0, max(writes, default=0) - read)
        used: list[int] = sorted({*writes, read} - {0})
        sizes = [end - before for before, end in zip([0, *used], used, strict=False)]
        self._keep([(names[end], size) for end, size in zip(used, sizes, strict=True)], request.at)
        return CacheOutcome(read, written, total - read - written)

    def _within_reach(self, blocks: Sequence[int], marks: Sequence[int]) -> set[int]:
        """The block ends that a lookup from these breakpoints considers."""
        reach = self.profile.lookback_blocks
        found: set[int] = set()
        for mark in marks:
            last = bisect_left(blocks, mark) + 1
            found.update(blocks[0 if reach is None else max(0, last - reach) : last])
        return found

    def _alive(self, name: int, at: float) -> bool:
        known = self._kept.get(name)
        ttl = self.profile.ttl_seconds
        return known is not None and (ttl is None or at - known[0] <= ttl)

    def _keep(self, prefixes: Iterable[tuple[int, int]], at: float) -> None:
        """Keep or refresh prefixes; of one request the longest is dropped first: shorter ones serve others too."""
        for name, size in reversed(list(prefixes)):
            self._kept[name] = (at, size)
            self._kept.move_to_end(name)

    def _evict(self) -> None:
        if self.capacity is None:
            return
        held = sum(size for _, size in self._kept.values())
        while held > self.capacity and self._kept:
            _, (_, size) = self._kept.popitem(last=False)
            held -= size


def _chain(tokens: Sequence[Hashable], ends: Iterable[int]) -> list[int]:
    """A name for each prefix that ends there: equal names for equal prefixes, in this process."""
    cuts = [0, *ends]
    pieces = (tuple(tokens[start:end]) for start, end in zip(cuts, cuts[1:], strict=False))
    return list(accumulate(pieces, lambda name, piece: hash((name, piece)), initial=0))[1:]


__all__ = ["CacheOutcome", "CacheRequest", "CacheSim", "Encode", "cache_request", "characters"]
