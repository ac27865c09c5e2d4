"""Turns generated ids into text while they come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from pkv_agents.local.template import ChatTokenizer

_PENDING = 4
"""Tokens of an unfinished character that are held back; a character has at most four bytes."""


class TextStream:
    """Collects the text of one answer.

    Args:
        tokenizer: Decodes ids.
        stop: Texts that end the answer and are not part of it.
    """

    def __init__(self, tokenizer: ChatTokenizer, stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = [text for text in stop if text]
        self._ids: list[int] = []
        self._ends: list[int] = []
        """Characters decoded after each token."""
        self._start = self._read = 0
        self._text = ""
        self._sent = 0
        self._cut: int | None = None

    @property
    def stopped(self) -> bool:
        """A stop string was met."""
        return self._cut is not None

    @property
    def text(self) -> str:
        """Everything handed out so far."""
        return self._text[: self._sent]

    def push(self, ids: Sequence[int]) -> str:
        """Takes new ids; returns the text that is certain by now."""
        for token in ids:
            self._ids.append(token)
            self._decode(final=False)
            self._ends.append(len(self._text))
        return self._release(final=False)

    def finish(self) -> str:
        """Ends the answer; returns what was held back, without the bytes of an unfinished character."""
        if self._cut is None:
            self._decode(final=True)
        return self._release(final=True)

    def kept_ids(self) -> list[int]:
        """The ids that stand for `text`: the generated ones, and where a stop string cut one, its rest tokenised."""
        if self._sent == len(self._text):
            return list(self._ids)
        # Up to the first token that reaches the last whole end: behind it stand only bytes of the next character.
        done = max((end for end in self._ends if end <= self._sent), default=0)
        count = self._ends.index(done) + 1 if done else 0
        rest = self._text[done : self._sent]
        return self._ids[:count] + (self._tokenizer.encode(rest, add_special_tokens=False) if rest else [])

    def _decode(self, *, final: bool) -> None:
        """Decodes in a moving window, since a token's text depends on the one before it."""
        before = self._decoded(self._start, self._read)
        after = self._decoded(self._start, len(self._ids))
        new = after[len(before) :]
        if final:
            new = new.rstrip("\ufffd")
        elif new.endswith("\ufffd") and len(self._ids) - self._read < _PENDING:
            return
        if new or not final:
            self._text += new
            self._start, self._read = self._read, len(self._ids)

    def _decoded(self, start: int, end: int) -> str:
        return self._tokenizer.decode(
            self._ids[start:end], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def _release(self, *, final: bool) -> str:
        if self._cut is None:
            found = [at for stop in self._stop if (at := self._text.find(stop, self._search_from(stop))) >= 0]
            if found:
                self._cut = min(found)
        certain = len(self._text) - (0 if final else self._held())
        end = certain if self._cut is None else self._cut
        piece = self._text[self._sent : end]
        self._sent = max(self._sent, end)
        return piece

    def _search_from(self, stop: str) -> int:
        return max(0, self._sent - len(stop) + 1)

    def _held(self) -> int:
        """Characters at the end that may be the beginning of a stop string."""
        longest = 0
        for stop in self._stop:
            for size in range(min(len(stop) - 1, len(self._text)), longest, -1):
                if self._text.endswith(stop[:size]):
                    longest = size
                    break
        return longest
