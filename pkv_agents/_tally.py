"""What a session's turns cost, and what its report remembers of them."""

from __future__ import annotations

from collections import deque

from ._report import SessionReport, TurnRecord
from ._saved import Saved
from .cost import Cost, cost_of
from .notices import Notice
from .prices import PriceTable
from .turnplan import TurnPlan
from .usage import Usage

MAX_KEPT = 1000
"""How many turns a report remembers."""


class Tally:
    """The turns of one process.

    Args:
        prices: What tokens cost.
    """

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self._turns: deque[TurnRecord] = deque(maxlen=MAX_KEPT)

    def cost(self, plan: TurnPlan, usage: Usage) -> Cost:
        """What a call cost, by the model that it was planned for, at whom its profile is of.

        A `generic` profile says nothing of who serves the model: it is charged as its maker does.
        """
        return cost_of(usage, self._prices.find(plan.sent.model, provider=plan.profile.name))

    def add(self, plan: TurnPlan, usage: Usage, cost: Cost, number: int) -> None:
        """Remember a recorded turn."""
        changed = tuple(change.path for change in plan.changes) if plan.erratum is not None else ()
        record = TurnRecord(number, changed, plan.appended_tokens, plan.rebased, usage, cost, plan.sent.model)
        self._turns.append(record)

    def report(self, saved: Saved, notices: tuple[Notice, ...]) -> SessionReport:
        """The report over everything that was saved."""
        return SessionReport(saved.key, tuple(self._turns), saved.turns, saved.usage, notices, saved.cost)
