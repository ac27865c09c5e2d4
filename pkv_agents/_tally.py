"""What a session's turns cost, and what its report remembers of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from ._report import SessionReport, TurnRecord
from ._saved import Saved
from .cost import Cost, add_cost, cost_of
from .notices import Notice
from .prices import DEFAULT_PRICES, PriceTable
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
        return SessionReport(saved.key, self.turns, saved.turns, saved.usage, notices, saved.cost)

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """The turns that are remembered, oldest first."""
        return tuple(self._turns)


class ReportedCall(Protocol):
    """A model call that an adapter shows: what was planned, and the usage, or None where nothing was reported."""

    @property
    def plan(self) -> TurnPlan: ...
    @property
    def usage(self) -> Usage | None: ...


def report_of(
    calls: Iterable[ReportedCall],
    *,
    key: str = "thread",
    notices: Iterable[Notice] | None = None,
    prices: PriceTable = DEFAULT_PRICES,
) -> SessionReport:
    """The report over model calls that no session keeps, such as an agent's thread in LangGraph.

    Args:
        calls: The calls of one conversation, oldest first, as the adapters show them to `on_call`. An agent that calls
            tools has several in a turn of the user's; here each counts.
        key: What the report calls the conversation.
        notices: What `on_notice` heard. None: what the plans of the calls say, each cause once an epoch.
        prices: What tokens cost, by model.

    Returns:
        What `AgentSession.report()` gives of the same calls: `print` it, or take its `to_dict()`.
    """
    tally, usage, total, planned, number = Tally(prices), Usage(), None, dict[object, Notice](), 0
    for number, call in enumerate(calls, 1):
        used = call.usage or Usage()
        cost = tally.cost(call.plan, used)
        tally.add(call.plan, used, cost, number)
        usage, total = usage + used, add_cost(total, cost)
        planned |= {(one.code, one.path, call.plan.epoch.number): one for one in call.plan.notices}
    heard = tuple(planned.values() if notices is None else notices)
    return SessionReport(key, tally.turns, number, usage, heard, total)
