"""How a model answers, and how its decision is read from the logits.

    names the field     orders[A12].status: "lost"
                        {"name":"refund_order", ...      two choices: the value, then the tool behind it
    calls at once       {"name":"refund_order", ...      one choice: the tool

The shop's adapter reads the deciding field once more when it writes its line, so it needs no conclusion that was drawn
while the prompt was prefilled. One that calls at once has nothing but such conclusions, and what it looks up in a step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from benchmarks._arms import openai_tools

Choose = Callable[[str, str], tuple[torch.Tensor, float]]
"""Of two beginnings of an answer: the logits where they part, and by how much the second is preferred."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a model decides between an old and a new answer.

    Attributes:
        names_new: Whether it names the new value; None of a model that names none.
        takes_new: Whether it (then) takes the new tool.
        margin: Logits between the answers where they first part; a small one is a near-tie.
        logits: Of that token, (vocab,).
    """

    names_new: bool | None
    takes_new: bool
    margin: float
    logits: torch.Tensor

    @property
    def is_new(self) -> bool:
        """Whether all of it is the new answer."""
        return self.names_new is not False and self.takes_new

    @property
    def is_old(self) -> bool:
        """Whether all of it is the old answer."""
        return not self.names_new and not self.takes_new

    def same_as(self, other: Decision) -> bool:
        """Whether value and tool are equal."""
        return (self.names_new, self.takes_new) == (other.names_new, other.takes_new)


class Manner(Protocol):
    """How a model answers."""

    @property
    def name(self) -> str:
        """What rows call the adapter."""
        ...

    @property
    def tools(self) -> Sequence[Mapping[str, object]]:
        """The tools that its head shows."""
        ...

    def answer(self, path: str, value: str, tool: str) -> str:
        """An answer up to the tool's name."""
        ...

    def decide(self, choose: Choose, path: str, values: tuple[str, str], tools: tuple[str, str]) -> Decision:
        """The decision between an old value and tool, and new ones."""
        ...


class _NamesField:
    """A line with the deciding field and its value, then the call."""

    name = "shop"

    @property
    def tools(self) -> Sequence[Mapping[str, object]]:
        return openai_tools()

    def answer(self, path: str, value: str, tool: str) -> str:
        return f'{path}: {json.dumps(value)}\n{{"name":"{tool}"'

    def decide(self, choose: Choose, path: str, values: tuple[str, str], tools: tuple[str, str]) -> Decision:
        (old, new), (tool, other) = values, tools
        logits, gap = choose(self.answer(path, old, tool), self.answer(path, new, tool))
        named = new if gap > 0 else old
        _, preferred = choose(self.answer(path, named, tool), self.answer(path, named, other))
        return Decision(gap > 0, preferred > 0, abs(gap), logits)


class _CallsAtOnce:
    """The call and nothing else; trained without the list of tools."""

    name = "at once"
    tools: Sequence[Mapping[str, object]] = ()

    def answer(self, path: str, value: str, tool: str) -> str:
        return f'{{"name":"{tool}"'

    def decide(self, choose: Choose, path: str, values: tuple[str, str], tools: tuple[str, str]) -> Decision:
        old, new = (self.answer(path, value, tool) for value, tool in zip(values, tools, strict=True))
        logits, gap = choose(old, new)
        return Decision(None, gap > 0, abs(gap), logits)


NAMES_FIELD: Manner = _NamesField()
CALLS_AT_ONCE: Manner = _CallsAtOnce()
