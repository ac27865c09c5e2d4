"""A tokenizer as grammars see it: ids, bytes, and which tokens may begin free text."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Protocol, cast

from llguidance import LLMatcher, LLTokenizer

from pkv_agents.errors import GrammarError
from pkv_agents.local.closing import Allowed, Vocabulary, allowed_tokens


class _Bridge(Protocol):
    def from_tokenizer(
        self, hf_tokenizer: object, n_vocab: int | None = None, eos_token: int | list[int] | None = None
    ) -> LLTokenizer: ...


class _Encoder(Protocol):
    def __len__(self) -> int: ...
    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...


class TokenTable:
    """Tables over one tokenizer's vocabulary, each built when it is first needed.

    Args:
        tokenizer: A fast transformers tokenizer.
        vocab_size: Width of the model's logits.
        stop_ids: Ids that end an answer.
    """

    def __init__(self, tokenizer: object, *, vocab_size: int, stop_ids: frozenset[int]) -> None:
        self._tokenizer = cast("_Encoder", tokenizer)
        self._vocab_size = vocab_size
        self.stop_ids = stop_ids

    @cached_property
    def tokens(self) -> LLTokenizer:
        """The tokenizer as llguidance sees it (takes some tenths of a second)."""
        from llguidance import hf

        size = max(self._vocab_size, len(self._tokenizer))
        try:
            return cast("_Bridge", hf).from_tokenizer(self._tokenizer, size, sorted(self.stop_ids) or None)
        except ValueError as error:
            raise GrammarError(f"constrained decoding needs a fast tokenizer: {error}") from error

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The bytes of each token."""
        return Vocabulary([self.tokens.decode_bytes([index]) for index in range(self.tokens.vocab_size)])

    @cached_property
    def text_starts(self) -> Allowed:
        """Tokens that may begin free text: any that does not begin with `{`, and the end of the answer."""
        matcher = LLMatcher(self.tokens, LLMatcher.grammar_from_lark(r"start: /[^{](.|\n)*/"), log_level=0)
        assert not matcher.is_error(), reason(matcher)
        allowed = allowed_tokens(matcher).copy()
        allowed[sorted(self.stop_ids)] = True
        return allowed

    def encode(self, text: str) -> list[int]:
        """The tokenizer's own ids of a text."""
        return self._tokenizer.encode(text, add_special_tokens=False)


def reason(matcher: LLMatcher) -> str:
    """The first line of what llguidance says is wrong."""
    first = matcher.get_error().strip().partition("\n")[0]
    return re.sub(r"^at \d+\(\d+\): (failed to compile JSON schema: )?", "", first)
