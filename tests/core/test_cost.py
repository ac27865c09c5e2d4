"""Cost: exact, by bucket, and honest about what is not known."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import (
    DEFAULT_PRICES,
    Cost,
    Price,
    PriceError,
    SessionReport,
    Usage,
    cost_of,
    normalise_usage,
    total_cost,
)
from pkv_agents.cost import add_cost

PRICE = Price.of("3", "15", cache_read="0.30", cache_write_5m="3.75", cache_write_1h="6", as_of="2026-11")
FULL = Usage(3, 20000, 1500, 200, 40)


def test_each_bucket_has_its_price_and_the_saving_is_against_all_fresh() -> None:
    cost = cost_of(FULL, PRICE)
    assert cost == Cost(
        fresh=Decimal("0.000009"),
        cache_read=Decimal("0.006"),
        cache_write_5m=Decimal("0.005625"),
        cache_write_1h=Decimal("0.0012"),
        output=Decimal("0.0006"),
        total=Decimal("0.013434"),
        saving=Decimal("0.052275"),
        status="estimated",
        as_of="2026-11",
        complete=True,
    )
    assert cost.without_cache == Decimal("0.065709") == cost_of(Usage(21703, 0, 0, 0, 40), PRICE).total


def test_the_first_request_pays_for_the_write() -> None:
    cost = cost_of(Usage(0, 0, 1000, None, 1), PRICE)
    assert cost.saving == Decimal("-0.00075") and cost.without_cache == Decimal("0.003015")


def test_what_was_not_reported_is_not_priced_and_is_missed() -> None:
    cost = cost_of(Usage(1000, output=1), PRICE)
    assert (cost.cache_read, cost.cache_write_5m, cost.saving, cost.without_cache) == (None,) * 4
    assert cost.total == Decimal("0.003015") and not cost.complete
    assert cost_of(Usage(), PRICE).status == "not reported" and cost_of(Usage(), PRICE).total is None
    assert cost_of(Usage(), None).status == "not reported"
    assert cost_of(Usage(1), None) == Cost(status="no price known")


def test_a_missing_rate_matters_only_where_there_are_tokens() -> None:
    bare = Price.of("3", "15", cache_read="0.3")
    assert cost_of(Usage(5, 5, 0, None, 1), bare).complete and cost_of(Usage(5, 5, None, None, 1), bare).complete
    cost = cost_of(Usage(5, 5, 7, None, 1), bare)
    assert cost.cache_write_5m is None and cost.saving is None and not cost.complete
    assert cost.total == Decimal("0.0000315")


def test_a_providers_own_account_comes_first() -> None:
    usage = normalise_usage({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 5}, "cost": 0.95})
    alone = cost_of(usage, None)
    assert (alone.total, alone.status, alone.complete, alone.saving) == (Decimal("0.95"), "reported", True, None)
    priced = cost_of(usage, PRICE)
    assert (priced.total, priced.status, priced.estimated) == (Decimal("0.95"), "reported", Decimal("0.0000165"))
    assert priced.saving == Decimal("0.0000135")
    abroad = Price.of("3", "15", currency="EUR")
    assert cost_of(usage, abroad) == alone


def test_long_requests() -> None:
    sol = DEFAULT_PRICES.find("gpt-6-sol")
    assert sol is not None
    short, long = cost_of(Usage(272_000, 0, 0, None, 0), sol), cost_of(Usage(272_000, 1, 0, None, 0), sol)
    assert short.total == Decimal("0.544") and long.total == Decimal("1.0880004")


def test_sums() -> None:
    one, two = cost_of(FULL, PRICE), cost_of(Usage(1, output=1), PRICE)
    three = cost_of(normalise_usage({"prompt_tokens": 10, "cost": 1}), None)
    both = one + two
    assert both.total == Decimal("0.013452") and both.saving == one.saving and not both.complete
    mixed = one + three
    assert mixed.status == "estimated" and mixed.total == Decimal("1.013434") and mixed.complete
    assert (one + Cost(status="no price known")).status == "estimated"
    assert (three + three).status == "reported" and (three + three).as_of == ""
    older = cost_of(FULL, Price.of("1", "1", as_of="2026-05-01"))
    assert (one + older).as_of == "2026-05-01"
    with pytest.raises(PriceError, match="USD and EUR"):
        _ = one + Cost(currency="EUR")
    assert total_cost([]) is None and total_cost([one, Cost(currency="EUR")]) is None
    assert total_cost([one, two]) == both and total_cost([one]) == one


TOKENS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS)
TEXTS = st.decimals(0, 1000, places=6).map(str)
OPTIONAL = st.none() | TEXTS
PRICES = st.builds(Price.of, TEXTS, TEXTS, cache_read=OPTIONAL, cache_write_5m=OPTIONAL, cache_write_1h=OPTIONAL)


@given(USAGES, PRICES)
def test_costs_are_exact(usage: Usage, price: Price) -> None:
    cost = cost_of(usage, price)
    rates = (price.input, price.cache_read, price.cache_write_5m, price.cache_write_1h, price.output)
    buckets = (usage.fresh, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h, usage.output)
    parts = (cost.fresh, cost.cache_read, cost.cache_write_5m, cost.cache_write_1h, cost.output)
    for tokens, rate, part in zip(buckets, rates, parts, strict=True):
        if part is None:
            assert tokens is None or (tokens > 0 and rate is None)
        else:
            assert Fraction(part) == Fraction(tokens or 0) * Fraction(rate or 0) / 1_000_000
    known = [Fraction(part) for part in parts if part is not None]
    assert (cost.total is None and not known) or (cost.total is not None and Fraction(cost.total) == sum(known))
    if cost.complete and cost.without_cache is not None:
        fresh = Usage(usage.input, 0, 0, 0, usage.output)
        assert cost.without_cache == cost_of(fresh, price).total
    assert Cost.from_dict(json.loads(json.dumps(cost.to_dict()))) == cost


@given(USAGES, USAGES, PRICES)
def test_costs_add_up(one: Usage, two: Usage, price: Price) -> None:
    both = cost_of(one, price) + cost_of(two, price)
    whole = cost_of(one + two, price)
    if both.complete:
        assert (both.total, both.saving) == (whole.total, whole.saving)
    assert both == cost_of(two, price) + cost_of(one, price)


@pytest.mark.parametrize(
    "change", [{"total": 1.5}, {"total": "-1"}, {"fresh": "x"}, {"status": "free"}, {"currency": None}]
)
def test_data_that_is_no_cost_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(PriceError, match="cost"):
        Cost.from_dict(cost_of(FULL, PRICE).to_dict() | change)


def test_a_running_sum_never_starts_anew() -> None:
    one, euros = cost_of(FULL, PRICE), cost_of(FULL, Price.of("3", "15", currency="EUR"))
    unknown = Cost(status="no price known")
    assert add_cost(None, one) == one and add_cost(one, one) == one + one
    assert add_cost(unknown, euros).currency == add_cost(euros, unknown).currency == "EUR"
    assert add_cost(unknown, euros).total == euros.total and not add_cost(euros, unknown).complete
    several = add_cost(one, euros)
    assert several.status == "several currencies" and several.total is None and several.currency == ""
    for later in (one, euros, unknown, several):
        assert add_cost(several, later) == add_cost(later, several) == several
    assert Cost.from_dict(json.loads(json.dumps(several.to_dict()))) == several
    assert "Cost: several currencies." in str(SessionReport("k", (), 3, Usage(), (), several))
