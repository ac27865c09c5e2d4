"""What is remembered of the contexts that ran lately, so that a server's memory does not grow with its users."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pkv_agents import Notice, SessionReport, TurnRecord

ValueT = TypeVar("ValueT")

MAX_CONTEXTS = 1000
"""How many are remembered."""
MAX_TURNS = 100
"""How many turns of each."""


class Lately(Generic[ValueT]):
    """A value for each of the contexts that ran lately.

    Args:
        make: Makes the value of a context that has none (any more).
    """

    def __init__(self, make: Callable[[], ValueT]) -> None:
        self._make = make
        self._values: dict[str, ValueT] = {}

    def of(self, name: str) -> ValueT:
        """The value of a context, which is now the latest one."""
        found = self._values.pop(name, None)
        value = found if found is not None else self._make()
        self._values[name] = value
        while len(self._values) > MAX_CONTEXTS:
            self._values.pop(next(iter(self._values)), None)
        return value


@dataclass(frozen=True, slots=True)
class Turns:
    """The latest turns of one agent in a context, and the notices that they led to.

    Attributes:
        turns: As their sessions reported them.
        notices: Each once, in their order.
    """

    turns: deque[TurnRecord] = field(default_factory=lambda: deque[TurnRecord](maxlen=MAX_TURNS))
    notices: dict[Notice, None] = field(default_factory=dict[Notice, None])

    def note(self, report: SessionReport) -> None:
        """A call's session reports."""
        self.turns.extend(report.turns)
        self.notices.update(dict.fromkeys(report.notices))

    def on(self, report: SessionReport) -> SessionReport:
        """The report of the totals, with the turns."""
        return replace(report, turns=tuple(self.turns), notices=tuple(self.notices))


__all__ = ["MAX_CONTEXTS", "Lately", "Turns"]
