"""Answers that were generated here, and where in a rendered text each of them stands."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some rendered text, known by its length and digest."""

    size: int
    digest: bytes

    @classmethod
    def of(cls, text: str) -> Stretch:
        """The stretch that a text is."""
        return cls(len(text), _digest(text))

    def end_in(self, text: str, start: int) -> int | None:
        """Where it ends in a text in which it begins at `start`; None if it is not there."""
        end = start + self.size
        return end if _digest(text[start:end]) == self.digest else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A generated answer.

    Attributes:
        whole: Everything that was rendered before it.
        behind: The same from the end of the head on; None where no mark ends the head.
        text: The answer, neutralised.
        ids: What was generated.
    """

    whole: Stretch
    behind: Stretch | None
    text: str
    ids: tuple[int, ...]

    def start_in(self, text: str, head: int) -> int | None:
        """Where it begins in a rendered text whose head ends at `head`; None if something else was asked there."""
        start = self.whole.end_in(text, 0)
        if start is None and self.behind is not None and head:
            return self.behind.end_in(text, head)
        return start


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
