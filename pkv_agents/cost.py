"""Cost: what a call cost, by bucket, and what its cache saved.

Exact decimals; nothing is rounded before it is shown. What is not known is None and never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import reduce
from typing import Literal, cast

from ._money import EXACT, add_amounts, amount_text, read_amount
from .errors import PriceError
from .prices import Price
from .usage import Usage

CostStatus = Literal["reported", "estimated", "no price known", "not reported", "several currencies"]

_STATUSES: tuple[CostStatus, ...] = ("reported", "estimated", "no price known", "not reported", "several currencies")
_BUCKETS = ("fresh", "cache_read", "cache_write_5m", "cache_write_1h", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call cost, or the sum of several. `cost_of` makes it.

    Attributes:
        fresh: The price of this bucket's tokens; None where they or their price are not known. So are the next four.
        cache_read: The same of what a cache served.
        cache_write_5m: The same of what was written for minutes.
        cache_write_1h: The same of what was written for longer.
        output: The same of what was generated.
        total: What the provider says, or else the sum of the parts that are known.
        saving: What the same input would have cost more without a cache, by the prices; below 0 where writing it cost
            more than reading it saved. None where the cache was not reported or a price is missing.
        currency: Three capital letters; empty in a running sum over several.
        status: `reported` by the provider, `estimated` from prices (also a sum of both), or why there is no total:
            `no price known`, `not reported`, or `several currencies` in a running sum (`add_cost`).
        as_of: The date of the prices, of the oldest in a sum; empty where none were used.
        complete: Whether nothing is missing from `total`.
    """

    fresh: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    output: Decimal | None = None
    total: Decimal | None = None
    saving: Decimal | None = None
    currency: str = "USD"
    status: CostStatus = "not reported"
    as_of: str = ""
    complete: bool = False

    @property
    def estimated(self) -> Decimal | None:
        """The sum of the parts that are known, by the prices."""
        return add_amounts(self.fresh, self.cache_read, self.cache_write_5m, self.cache_write_1h, self.output)

    @property
    def without_cache(self) -> Decimal | None:
        """What the same tokens would have cost, had all input been read afresh; None where that is not known."""
        return None if self.saving is None else add_amounts(self.estimated, self.saving)

    def __add__(self, other: Cost) -> Cost:
        """Sum by part.

        Raises:
            PriceError: The currencies differ.
        """
        if self.currency != other.currency:
            raise PriceError(f"cost: {self.currency} and {other.currency} cannot be added")
        amounts = {name: add_amounts(getattr(self, name), getattr(other, name)) for name in _AMOUNTS}
        one, two = sorted((self.status, other.status), key=_STATUSES.index)
        return _cost(
            amounts,
            currency=self.currency,
            status="estimated" if (one, two) == ("reported", "estimated") else one,
            as_of=min(filter(None, (self.as_of, other.as_of)), default=""),
            complete=self.complete and other.complete,
        )

    def to_dict(self) -> dict[str, object]:
        """Plain JSON data; amounts as text. `Cost.from_dict` reads it."""
        data: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        data["without_cache"] = self.without_cache
        return {name: amount_text(value) if isinstance(value, Decimal) else value for name, value in data.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Cost:
        """The cost in what `to_dict` gave.

        Args:
            data: The data.

        Returns:
            The cost.

        Raises:
            PriceError: The data is not of that form.
        """
        amounts = {name: _amount(name, data.get(name)) for name in _AMOUNTS}
        currency, status, as_of = (data.get(name) for name in ("currency", "status", "as_of"))
        if not isinstance(currency, str) or not isinstance(as_of, str) or status not in _STATUSES:
            raise PriceError("cost: currency, status and as_of are the texts that to_dict writes")
        complete = data.get("complete") is True
        return _cost(amounts, currency=currency, status=status, as_of=as_of, complete=complete)


_AMOUNTS = (*_BUCKETS, "total", "saving")


def cost_of(usage: Usage, price: Price | None) -> Cost:
    """What a call cost.

    Args:
        usage: The tokens of one call. (Of a sum, only where the model has no other price for long requests.)
        price: The model's price, or None where none is known.

    Returns:
        The cost: the provider's own where it reported one, else by the price.
    """
    reported = read_amount(usage.reported_cost)
    if usage.status == "not reported" or price is None or (reported is not None and price.currency != "USD"):
        if reported is not None:
            return Cost(total=reported, status="reported", complete=True)
        return Cost(status="not reported" if usage.status == "not reported" else "no price known")
    rates = price.at(usage.input)
    amounts = {name: _part(getattr(usage, name), _rate(rates, name)) for name in _BUCKETS}
    priced = all(amounts[name] is not None or getattr(usage, name) is None for name in _BUCKETS)
    written = usage.cache_write_5m is not None or usage.cache_write_1h is not None or rates.cache_write_5m is None
    told = None not in (usage.fresh, usage.cache_read, usage.output) and written
    amounts["total"] = add_amounts(*amounts.values()) if reported is None else reported
    amounts["saving"] = _saving(usage, rates) if usage.cache_read is not None and priced else None
    return _cost(
        amounts,
        currency=price.currency,
        status="estimated" if reported is None else "reported",
        as_of=price.as_of,
        complete=reported is not None or (told and priced),
    )


def total_cost(costs: Iterable[Cost]) -> Cost | None:
    """The sum of costs.

    Args:
        costs: The costs.

    Returns:
        The sum; None where there is none, or where currencies differ.
    """
    known = list(costs)
    return reduce(Cost.__add__, known) if len({cost.currency for cost in known}) == 1 else None


def add_cost(total: Cost | None, cost: Cost) -> Cost:
    """A running sum, one cost further. It never starts anew.

    Args:
        total: The sum so far; None before the first cost.
        cost: The next one.

    Returns:
        The sum. Once two amounts of different currencies met, it has no amounts and the status `several currencies`,
        for good. A cost without any amount is of no currency.
    """
    if total is None or cost.status == "several currencies":
        return cost
    if total.status == "several currencies":
        return total
    if total.currency == cost.currency:
        return total + cost
    if not _has_amount(cost):
        return total + replace(cost, currency=total.currency)
    if not _has_amount(total):
        return replace(total, currency=cost.currency) + cost
    return Cost(currency="", status="several currencies")


def _has_amount(cost: Cost) -> bool:
    return any(getattr(cost, name) is not None for name in _AMOUNTS)


def _cost(
    amounts: Mapping[str, Decimal | None], *, currency: str, status: CostStatus, as_of: str, complete: bool
) -> Cost:
    return Cost(
        fresh=amounts["fresh"],
        cache_read=amounts["cache_read"],
        cache_write_5m=amounts["cache_write_5m"],
        cache_write_1h=amounts["cache_write_1h"],
        output=amounts["output"],
        total=amounts["total"],
        saving=amounts["saving"],
        currency=currency,
        status=status,
        as_of=as_of,
        complete=complete,
    )


def _rate(price: Price, bucket: str) -> Decimal | None:
    return price.input if bucket == "fresh" else getattr(price, bucket)


def _part(tokens: int | None, rate: Decimal | None) -> Decimal | None:
    """The price of a bucket's tokens. None of them cost nothing, whatever the rate."""
    if tokens is None or (tokens and rate is None):
        return None
    return EXACT.multiply(Decimal(tokens), rate or Decimal(0)).scaleb(-6, EXACT)


def _saving(usage: Usage, rates: Price) -> Decimal:
    """All input at the full rate, less what it cost."""
    saved = Decimal(0)
    for name in ("cache_read", "cache_write_5m", "cache_write_1h"):
        tokens, rate = getattr(usage, name), _rate(rates, name)
        if tokens and rate is not None:
            difference = EXACT.subtract(rates.input, rate)
            saved = EXACT.add(saved, EXACT.multiply(Decimal(tokens), difference).scaleb(-6, EXACT))
    return saved


def _amount(name: str, value: object) -> Decimal | None:
    """An amount from text; a saving may be below 0."""
    if value is None:
        return None
    negative = isinstance(value, str) and value.startswith("-")
    amount = read_amount(cast(str, value)[1:] if negative else value)
    if amount is None or not isinstance(value, str) or (negative and name != "saving"):
        raise PriceError(f"cost, {name}: an amount as text, not {type(value).__name__}")
    return -amount if negative else amount
