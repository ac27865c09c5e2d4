"""The short way out of an unfinished constrained answer.

Greedy, by what a JSON text needs next: end the string, then the objects, and begin nothing that can be avoided. It
asks the grammar at each step, so what it finds is valid; it is short, not provably the shortest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from llguidance import LLMatcher

Allowed = np.ndarray[tuple[int], np.dtype[np.bool_]]
"""One boolean for each token of the vocabulary."""

_OUTSIDE = (b"}", b"]", b"n", b"null", b"t", b"true", b"f", b"false", b'"', *(b"%d" % d for d in range(10)))
"""Outside a string, in order of preference; what is not listed (a comma, an opening bracket) comes last."""
_LONGEST = 2048
"""Steps after which the search gives up."""


@dataclass(slots=True)
class JsonPosition:
    """Whether a JSON text so far stands inside a string.

    Attributes:
        in_string: Inside a string.
        escaped: Right behind a backslash.
        in_preface: Still in the line of text before the JSON text.
    """

    in_string: bool = False
    escaped: bool = False
    in_preface: bool = False

    def feed(self, data: bytes) -> None:
        """Reads on."""
        for byte in data:
            if self.in_preface:
                self.in_preface = byte != 0x0A
            elif self.escaped:
                self.escaped = False
            elif byte == 0x22:
                self.in_string = not self.in_string
            elif self.in_string and byte == 0x5C:
                self.escaped = True


class Vocabulary:
    """Token bytes, both ways.

    Args:
        token_bytes: The bytes of each token.
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self.bytes = token_bytes
        self._ids: dict[bytes, int] = {}
        for index, data in enumerate(token_bytes):
            self._ids.setdefault(data, index)
        self._sizes = np.array([len(data) for data in token_bytes], dtype=np.int32)

    def preferred(self, allowed: Allowed, position: JsonPosition) -> int | None:
        """The allowed token that ends the text soonest, by rule; None if nothing is allowed."""
        wanted = (b"\n",) if position.in_preface else (b'"',) if position.in_string else _OUTSIDE
        if not position.escaped:
            for data in wanted:
                index = self._ids.get(data)
                if index is not None and allowed[index]:
                    return index
        candidates = np.flatnonzero(allowed[: len(self._sizes)])
        if not len(candidates):
            return None
        sizes = self._sizes[candidates]
        # Inside a string that may not end yet, long tokens reach its minimum soonest; outside, short ones do less.
        best = sizes.argmax() if position.in_string and not position.escaped else sizes.argmin()
        return int(candidates[best])


def way_out(matcher: LLMatcher, position: JsonPosition, vocabulary: Vocabulary, *, most: int) -> list[int] | None:
    """Tokens that complete the answer from here; None if more than `most` are needed or none is found.

    Args:
        matcher: Where the answer stands; not changed.
        position: The same for the JSON text; not changed.
        vocabulary: Token bytes.
        most: Tokens after which to give up.
    """
    trial, place = matcher.deep_copy(), replace(position)
    path: list[int] = []
    limit = min(most, _LONGEST)
    while not trial.is_accepting():
        tokens = trial.compute_ff_tokens()
        if not tokens:
            token = vocabulary.preferred(allowed_tokens(trial), place)
            tokens = [] if token is None else [token]
        if not tokens or len(path) + len(tokens) > limit or not trial.consume_tokens(tokens):
            return None
        path += tokens
        for token in tokens:
            place.feed(vocabulary.bytes[token])
    return path


def allowed_tokens(matcher: LLMatcher) -> Allowed:
    """Which tokens may come next, one boolean for each."""
    bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
    return np.unpackbits(bits, bitorder="little").view(np.bool_)
