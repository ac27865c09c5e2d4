"""The state of one constrained answer: what may come next, what must, and whether it can still be completed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from llguidance import LLMatcher

from pkv_agents.errors import GrammarError
from pkv_agents.local.closing import Allowed, JsonPosition, allowed_tokens, way_out
from pkv_agents.local.token_table import TokenTable, reason

_WATCH = 192
"""Tokens before the end of the budget from which each token is checked for a way out behind it."""
_FEW = 64
"""Allowed tokens up to which it is worth looking at their bytes."""


Trie = dict[int, "Trie"]
"""Token sequences that share their beginnings."""


class Constraint:
    """The state of one constrained answer.

    Args:
        table: The tokenizer as grammars see it.
        matcher: A matcher of its own.
        free: Text that does not begin with `{` is allowed too; the constraint is released when such text begins.
        usual: The tokenizer's own ids of the texts that may stand at the beginning (choices, tools' names): a decision
            among them is made between whole names and not between their first letters.
        preface: A line of text comes first; the beginning is then what follows it.
    """

    def __init__(
        self, table: TokenTable, matcher: LLMatcher, *, free: bool, usual: Trie | None = None, preface: bool = False
    ) -> None:
        self._table = table
        self._matcher = matcher
        self._undecided = free
        self._beginning: Trie = usual or {}
        self._usual: Trie = {} if preface else self._beginning
        self._position = JsonPosition(in_preface=preface)
        self._known: Allowed | None = None
        self._ended = False
        self.released = False

    @property
    def finished(self) -> bool:
        """The answer is complete and nothing may follow."""
        return self._ended or (not self.released and self._matcher.is_stopped())

    @property
    def in_preface(self) -> bool:
        """The line of text before the call is not ended yet."""
        return self._position.in_preface

    @property
    def complete(self) -> bool:
        """The answer so far is a whole one."""
        return not self.released and not self._undecided and self._matcher.is_accepting()

    def forced(self, budget: int) -> list[int]:
        """Takes the tokens that need no decision, at most `budget` of them."""
        taken: list[int] = []
        while len(taken) < budget and not (self.released or self._undecided or self.finished):
            tokens = [] if self._usual else self._matcher.compute_ff_tokens()
            tokens = tokens or self._single()
            if not tokens:
                break
            taken += self._take(tokens[: budget - len(taken)])
        return taken

    def allowed(self) -> Allowed | None:
        """Which tokens may come next, one boolean for each; None if any may."""
        if self.released:
            return None
        allowed = self._narrowed()
        return allowed | self._table.text_starts if self._undecided else allowed

    def accept(self, token: int, budget: int) -> list[int]:
        """Takes a token that was chosen among the allowed ones.

        Args:
            token: The choice.
            budget: Tokens left, this one included.

        Returns:
            The tokens really taken: the choice, or those that complete the answer if it would not fit any more.
        """
        if self._undecided:
            self._undecided = False
            self.released = not self._table.tokens.decode_bytes([token]).startswith(b"{")
        if self.released:
            return [token]
        if token in self._table.stop_ids:
            self._ended = True
            return []
        if budget <= _WATCH and not self._fits(token, budget - 1):
            path = way_out(self._matcher, self._position, self._table.vocabulary, most=budget)
            if path is not None:
                self._ended = True
                return self._take(path)
        return self._take([token])

    def _fits(self, token: int, budget: int) -> bool:
        trial = self._matcher.deep_copy()
        trial.consume_token(token)
        position = replace(self._position)
        position.feed(self._table.vocabulary.bytes[token])
        return way_out(trial, position, self._table.vocabulary, most=budget) is not None

    def _single(self) -> list[int]:
        indices = np.flatnonzero(self._narrowed())
        return [int(indices[0])] if len(indices) == 1 and int(indices[0]) not in self._table.stop_ids else []

    def _narrowed(self) -> Allowed:
        """The grammar's tokens; where bytes are forced only those that the tokenizer would choose for them."""
        if self._known is None:
            allowed = allowed_tokens(self._matcher)
            if self._matcher.is_error() or not allowed.any():
                raise GrammarError(f"constrained decoding failed: {reason(self._matcher)}")
            usual = [token for token in self._usual if allowed[token]]
            if usual and self._matcher.is_accepting():
                usual += self._table.stop_ids
            forced = usual or self._matcher.compute_ff_tokens()[:1] or self._longest(np.flatnonzero(allowed).tolist())
            if forced:
                allowed = np.zeros_like(allowed)
                allowed[forced] = True
            self._known = allowed
        return self._known

    def _longest(self, tokens: list[int]) -> list[int]:
        """Of tokens inside forced bytes the longest, beside those that reach beyond; empty if that says nothing."""
        forced = self._matcher.compute_ff_bytes() if 1 < len(tokens) <= _FEW else b""
        if not forced:
            return []
        data = {token: self._table.tokens.decode_bytes([token]) for token in tokens}
        inside = [token for token in tokens if forced.startswith(data[token])]
        beyond = [token for token in tokens if len(data[token]) > len(forced)]
        return [*([max(inside, key=lambda token: len(data[token]))] if inside else []), *beyond]

    def _take(self, tokens: list[int]) -> list[int]:
        self._known = None
        if not self._matcher.consume_tokens(tokens):
            raise GrammarError(f"constrained decoding failed: {reason(self._matcher)}")
        for token in tokens:
            data = self._table.tokens.decode_bytes([token])
            ends_preface = self._position.in_preface and data.endswith(b"\n")
            self._position.feed(data)
            self._usual = self._beginning if ends_preface else self._usual.get(token, {})
        return tokens


def trie(sequences: Iterable[Sequence[int]]) -> Trie:
    """The sequences as one tree."""
    root: Trie = {}
    for sequence in sequences:
        node = root
        for token in sequence:
            node = node.setdefault(token, {})
    return root
