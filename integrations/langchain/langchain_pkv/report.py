"""The report over an agent's model calls, as `AgentSession.report()` gives it for a session.

calls, notices = [], []
agent = create_agent(model, tools, middleware=[StateMiddleware(Shop, on_call=calls.append, on_notice=notices.append)])
...
print(report_of(calls, notices=notices))
"""

from __future__ import annotations

from collections.abc import Iterable

from langchain_pkv._turn import ModelCall
from pkv_agents import (
    DEFAULT_PRICES,
    Notice,
    PriceTable,
    SessionReport,
    TurnRecord,
    Usage,
    cost_of,
    normalise_usage,
    total_cost,
)


def report_of(
    calls: Iterable[ModelCall],
    *,
    key: str = "thread",
    notices: Iterable[Notice] | None = None,
    prices: PriceTable = DEFAULT_PRICES,
) -> SessionReport:
    """What changed, what was appended, what the cache served, and what that cost and saved.

    Args:
        calls: The calls of one thread, oldest first, as `on_call` of `StateMiddleware` was shown them. An agent that
            calls tools has several in a turn of the user's; here each counts.
        key: What the report calls the thread.
        notices: What `on_notice` heard. None: what the plans of the calls say, each cause once.
        prices: What tokens cost, by model.

    Returns:
        The report; `print` it, or take its `to_dict()`. Its cost is None where no call was made, or where calls were
        paid in several currencies.
    """
    made = list(calls)
    turns = tuple(_turn(number, call, prices) for number, call in enumerate(made, 1))
    heard = tuple(notices) if notices is not None else _planned(made)
    cost = total_cost(turn.cost for turn in turns if turn.cost is not None)
    return SessionReport(key, turns, len(turns), sum((turn.usage for turn in turns), Usage()), heard, cost)


def _planned(calls: Iterable[ModelCall]) -> tuple[Notice, ...]:
    """What the plans say, each cause once."""
    found = {(one.code, one.path, call.plan.epoch.number): one for call in calls for one in call.plan.notices}
    return tuple(found.values())


def _turn(number: int, call: ModelCall, prices: PriceTable) -> TurnRecord:
    plan, usage = call.plan, normalise_usage(call.usage)
    changed = tuple(change.path for change in plan.changes) if plan.erratum is not None else ()
    cost = cost_of(usage, prices.find(plan.sent.model, provider=plan.profile.name))
    return TurnRecord(number, changed, plan.appended_tokens, plan.rebased, usage, cost, plan.sent.model)
