"""The report: readable in 100 columns, the same numbers as data, and "not reported" where nothing was."""

from __future__ import annotations

import json
from decimal import Decimal

from pkv_agents import Cost, Notice, Price, SessionReport, TurnRecord, Usage, cost_of

PRICE = Price.of("3", "15", cache_read="0.30", cache_write_5m="3.75", as_of="2026-11")
FIRST, SECOND = Usage(10, 0, 20000, None, 40), Usage(90, 20010, 0, None, 30)


def report(*usages: Usage, price: Price | None = PRICE, notices: tuple[Notice, ...] = ()) -> SessionReport:
    costs = [cost_of(usage, price) for usage in usages]
    turns = tuple(
        TurnRecord(number, ("orders[4471].status",), 12, None, usage, cost, "claude-sonnet-4-6")
        for number, (usage, cost) in enumerate(zip(usages, costs, strict=True), 1)
    )
    total = costs[0]
    for cost in costs[1:]:
        total += cost
    return SessionReport("user-42", turns, len(turns), sum(usages, Usage()), notices, total)


def test_the_printed_report() -> None:
    notice = Notice("rebase", path="orders[4471].status", cost="about 5,000 tokens " * 6, message="a new epoch began")
    assert str(report(FIRST, SECOND, notices=(notice,))).splitlines() == [
        "Session user-42: 2 turns, about 24 tokens of errata.",
        "Cached share: 49.9% of 40,110 input tokens.",
        "Cost: $0.082353, estimated from prices of 2026-11.",
        "Saving: $0.039027, 32.2% of $0.121380 without a cache, by the prices.",
        "turn  appended     cached        new   share        cost  changed",
        "   1        12          0     20,010    0.0%   $0.075630  orders[4471].status",
        "   2        12     20,010         90   99.6%   $0.006723  orders[4471].status",
        "notice rebase (orders[4471].status): a new epoch began; cost: about 5,000 tokens about 5,000 tokens",
        "  about 5,000 tokens about 5,000 tokens about 5,000 tokens about 5,000 tokens",
    ]


def test_what_is_not_known_is_said() -> None:
    text = str(report(Usage(), Usage()))
    assert "Cached share: not reported.\nCost: not reported.\n" in text
    assert "Cost: no price known." in str(report(FIRST, price=None))
    incomplete = str(report(Usage(1000, output=1)))
    assert (
        "Cost: $0.003015, estimated from prices of 2026-11; a part of it was not reported or has no known" in incomplete
    )
    assert "Saving: not known." in incomplete
    assert "Saving: -$0.015000, -24.7% of $0.060630 without a cache" in str(report(FIRST))
    told = str(report(Usage(5, 5, output=1, reported_cost="0.95"), price=None))
    assert "Cost: $0.950000, as the provider reported it.\nSaving: not known.\n" in told
    counted = SessionReport("k", (), 0, Usage(5, 5, estimated_by="o200k_base"), ())
    assert "Cached share: 50.0% of 10 input tokens, counted by o200k_base." in str(counted)
    assert "Cost" not in str(counted)


def test_a_session_without_costs_is_as_before() -> None:
    turn = TurnRecord(1, (), 0, "ttl", Usage(5, 5))
    text = str(SessionReport("k", (turn,), 1, Usage(5, 5), ()))
    assert "cost" not in text.lower() and text.splitlines()[-1].endswith("- [new epoch: ttl]".removeprefix("- "))


def test_long_names_do_not_widen_the_table() -> None:
    paths = tuple(f"orders[{number}].delivery.address.street" for number in range(9))
    turn = TurnRecord(7, paths, 123456, "the history was rewritten", Usage(10**6, 10**7), None)
    text = str(SessionReport("key" * 100, (turn,) * 20, 20, Usage(10**9, 10**9), (), Cost(currency="EUR")))
    assert max(map(len, text.splitlines())) <= 100 and text.count("...") == 12


def test_the_report_as_data() -> None:
    data = report(FIRST, SECOND, notices=(Notice("rebase"),)).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["cost"] == {
        "fresh": "0.0003",
        "cache_read": "0.006003",
        "cache_write_5m": "0.075",
        "cache_write_1h": None,
        "output": "0.00105",
        "total": "0.082353",
        "saving": "0.039027",
        "without_cache": "0.12138",
        "currency": "USD",
        "status": "estimated",
        "as_of": "2026-11",
        "complete": True,
    }
    assert data["key"] == "user-42" and data["total_turns"] == 2 and data["appended_tokens"] == 24
    turns, usage = data["turns"], data["usage"]
    assert isinstance(turns, list) and isinstance(usage, dict)
    assert turns[1]["cached_share"] == 20010 / 20100 and turns[1]["model"] == "claude-sonnet-4-6"
    assert usage["input"] == 40110 and usage["status"] == "reported" and usage["cache_write_1h"] is None
    bare = SessionReport("k", (TurnRecord(1, (), 0, None, Usage()),), 1, Usage(), ()).to_dict()
    assert bare["cost"] is None and bare["cached_share"] is None
    assert Decimal("0.082353") == report(FIRST, SECOND).cost.total  # pyright: ignore[reportOptionalMemberAccess]
