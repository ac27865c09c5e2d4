"""How the tokens of a row are collected: turns that are read, answers that are scored, questions that branch off."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

_CALL = '{"name":"'
_FIRST, _REST = 1.0, 0.1  # the first token of the value and of the tool's name decide; the rest is copied


Reason = tuple[str, str] | None
"""The line before a call: the field that decides and its value; None: the call comes at once."""


class Tokenizer(Protocol):
    """What the rows need of a tokenizer."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored answer: the index of its deciding token (the logits before it predict it), and its kind."""

    index: int
    kind: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A question off the trunk: tokens `[start, stop)` of the row, seeing the trunk's first `point` tokens."""

    point: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation in tokens.

    Attributes:
        ids: The trunk's token ids, then the branches'.
        weights: The loss weight of each token (0 for everything that is not an answer).
        answers: The deciding tokens.
        branches: The branches, in order.
        trunk: How many tokens the trunk has.
        head: How many tokens stand before the first message.
    """

    ids: tuple[int, ...]
    weights: tuple[float, ...]
    answers: tuple[Answer, ...]
    branches: tuple[Branch, ...]
    trunk: int
    head: int


def call_text(tool: str, arguments: dict[str, str]) -> str:
    """A tool call as the model writes it."""
    return json.dumps({"name": tool, "arguments": arguments}, separators=(",", ":"), ensure_ascii=False)


class Writer:
    """Collects the tokens of a row."""

    def __init__(self, tokenizer: Tokenizer, start: int, end: int) -> None:
        self._tokenizer, self._start, self._end = tokenizer, start, end
        self._newline = self._encode("\n")
        self._lead = [start, *self._encode("assistant\n")]
        self._ids: list[int] = []
        self._weights: list[float] = []
        self._answers: list[Answer] = []
        self._branches: list[tuple[int, list[int], list[float], list[Answer]]] = []

    @property
    def length(self) -> int:
        return len(self._ids)

    def turn(self, role: str, text: str) -> None:
        """A turn that is read and not scored."""
        ids = self._turn(role, text)
        self._ids += ids
        self._weights += [0.0] * len(ids)

    def answer(self, reason: Reason, tool: str, arguments: dict[str, str], kind: str | None) -> None:
        """The agent's turn; scored if it has a kind."""
        ids, weights, answers = self._scored(reason, tool, arguments, kind or "")
        ids += [self._end, *self._newline]
        weights += [_REST] + [0.0] * len(self._newline)
        if kind is not None:
            self._answers += [Answer(len(self._ids) + answer.index, answer.kind) for answer in answers]
        self._ids += ids
        self._weights += weights if kind is not None else [0.0] * len(ids)

    def branch(self, text: str, reason: Reason, tool: str, arguments: dict[str, str], kind: str) -> None:
        """One more request here, up to and with the last token that decides."""
        turn = self._turn("user", text)
        ids, weights, answers = self._scored(reason, tool, arguments, kind)
        stop = max(index for index, weight in enumerate(weights) if weight > _REST) + 1
        shifted = [Answer(len(turn) + answer.index, answer.kind) for answer in answers]
        self._branches.append((len(self._ids), turn + ids[:stop], [0.0] * len(turn) + weights[:stop], shifted))

    def _scored(
        self, reason: Reason, tool: str, arguments: dict[str, str], kind: str
    ) -> tuple[list[int], list[float], list[Answer]]:
        """The tokens of an answer from the turn's start on, their weights, and the tokens that decide."""
        if reason is None:
            return self._scored_call(tool, arguments, kind)
        path, value = reason
        line = f"{path}{value}\n"
        text = line + call_text(tool, arguments)
        ids = self._encode(text)
        at_value, at_tool, after_tool = (
            len(self._encode(part)) for part in (path + '"', line + _CALL, f"{line}{_CALL}{tool}")
        )
        weights = [_REST] * len(ids)
        weights[0] = weights[at_value] = weights[at_tool] = _FIRST
        weights[len(self._encode(path.removesuffix(": "))) - 1] = _FIRST / 2
        for forced in (*range(len(self._encode(path + value)) + 1, at_tool), *range(at_tool + 1, after_tool)):
            weights[forced] = 0.0
        lead = len(self._lead)
        answers = [Answer(lead + at_value, f"{kind} value"), Answer(lead + at_tool, f"{kind} tool")]
        if town := arguments.get("town"):
            start = len(self._encode(text[: text.index('"town":"') + len('"town":"')]))
            weights[start : start + len(self._encode(town))] = [_FIRST / 2] * len(self._encode(town))
            answers.append(Answer(lead + start, f"{kind} town"))
        return [*self._lead, *ids], [0.0] * lead + weights, answers

    def _scored_call(
        self, tool: str, arguments: dict[str, str], kind: str
    ) -> tuple[list[int], list[float], list[Answer]]:
        """The same of an answer that is a call and nothing before it: only the tool's name decides."""
        ids, lead = self._encode(call_text(tool, arguments)), len(self._lead)
        at_tool, after_tool = len(self._encode(_CALL)), len(self._encode(_CALL + tool))
        weights = [_REST] * len(ids)
        weights[at_tool] = _FIRST
        weights[at_tool + 1 : after_tool] = [0.0] * (after_tool - at_tool - 1)
        return [*self._lead, *ids], [0.0] * lead + weights, [Answer(lead + at_tool, f"{kind} tool")]

    def row(self, head: int) -> Row:
        """Everything that was collected."""
        ids, weights, answers = list(self._ids), list(self._weights), list(self._answers)
        branches: list[Branch] = []
        for point, tokens, scored, deciding in self._branches:
            start = len(ids)
            branches.append(Branch(point, start, start + len(tokens)))
            ids += tokens
            weights += scored
            answers += [Answer(start + answer.index, answer.kind) for answer in deciding]
        return Row(tuple(ids), tuple(weights), tuple(answers), tuple(branches), len(self._ids), head)

    def _turn(self, role: str, text: str) -> list[int]:
        return [self._start, *self._encode(f"{role}\n{text}"), self._end, *self._newline]

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)


__all__ = ["Answer", "Branch", "Reason", "Row", "Tokenizer", "Writer", "call_text"]
