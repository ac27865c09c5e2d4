"""Prices: what providers charge for a million tokens, as dated data that users replace by their own.

    table = DEFAULT_PRICES.with_price("claude-opus-5", Price.of("4.50", "22.50", cache_read="0.45"))
    table = PriceTable.from_json(Path("prices.json").read_text())
    price = table.find("us.anthropic.claude-opus-5-20260724-v1:0")

Prices are those of the standard tier. Batch, flex and priority tiers, regional premiums, fees of tools and of cache
storage are not in them, so a cost that comes from them is an estimate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from ._model_names import MAKERS, OWN_SERVERS, model_family
from ._money import read_amount
from ._price_list import PRICE_LIST
from .errors import PriceError

_RATES = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_TEXTS = ("currency", "as_of", "until", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs for a million tokens. `Price.of` builds one from text.

    Attributes:
        input: An input token that is not served from a cache.
        output: A generated token.
        cache_read: An input token that a cache serves. None: not known, here and below.
        cache_write_5m: An input token written to a cache for minutes.
        cache_write_1h: An input token written for longer.
        currency: Three capital letters.
        as_of: When the price was true, as an ISO date or month.
        until: The last day for which it was announced; empty where none was.
        source: Where it was read.
        long_above: Requests with more input tokens than this cost `long`, for all of their tokens.
        long: The price of those.

    Raises:
        PriceError: A field does not fit.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    currency: str = "USD"
    as_of: str = ""
    until: str = ""
    source: str = ""
    long_above: int | None = None
    long: Price | None = None

    def __post_init__(self) -> None:
        """Refuse what is no price, above all floats."""
        for name in _RATES:
            value: object = getattr(self, name)
            if value is None and name not in ("input", "output"):
                continue
            if not isinstance(value, Decimal):
                kind = type(value).__name__
                raise PriceError(f"price, {name}: a Decimal from text, Decimal('2.50'), or Price.of(...), not {kind}")
            if read_amount(value) is None:
                raise PriceError(f"price, {name}: a finite amount of 0 or more, with at most 100 digits")
        if not re.fullmatch("[A-Z]{3}", self.currency):
            raise PriceError("price, currency: three capital letters, for instance 'USD'")
        if (self.long is None) != (self.long_above is None):
            raise PriceError("price, long: give both long and long_above, or none of them")
        if self.long is not None and (self.long.long is not None or self.long.currency != self.currency):
            raise PriceError("price, long: one step, in the same currency")

    @classmethod
    def of(
        cls,
        input: str,  # noqa: A002  # the bucket's name, as in the field
        output: str,
        *,
        cache_read: str | None = None,
        cache_write_5m: str | None = None,
        cache_write_1h: str | None = None,
        currency: str = "USD",
        as_of: str = "",
        source: str = "",
    ) -> Price:
        """A price from text.

        Args:
            input: For a million input tokens, for instance "2.50".
            output: For a million generated tokens.
            cache_read: For a million that a cache serves.
            cache_write_5m: For a million written for minutes.
            cache_write_1h: For a million written for longer.
            currency: Three capital letters.
            as_of: When this was true.
            source: Where it was read.

        Returns:
            The price.

        Raises:
            PriceError: A text is no amount.
        """
        return cls(
            input=_rate("input", input),
            output=_rate("output", output),
            cache_read=None if cache_read is None else _rate("cache_read", cache_read),
            cache_write_5m=None if cache_write_5m is None else _rate("cache_write_5m", cache_write_5m),
            cache_write_1h=None if cache_write_1h is None else _rate("cache_write_1h", cache_write_1h),
            currency=currency,
            as_of=as_of,
            source=source,
        )

    def at(self, input_tokens: int | None) -> Price:
        """The price of a request with so many input tokens."""
        if self.long is None or self.long_above is None or input_tokens is None:
            return self
        return self.long if input_tokens > self.long_above else self


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row of a table.

    Attributes:
        provider: Who charges it; empty for anyone.
        model: The family's name as `model_family` gives it.
        price: The price.
    """

    provider: str
    model: str
    price: Price


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by model family; the first row that fits counts.

    Attributes:
        rows: The rows.
    """

    def __repr__(self) -> str:
        """Short: a table is a default value in signatures."""
        return f"<PriceTable of {len(self.rows)} rows>"

    rows: tuple[PriceRow, ...] = ()

    def find(self, model: str, *, provider: str = "") -> Price | None:
        """The price of a model.

        Args:
            model: Its name in any spelling: dated, or as Bedrock, Vertex, OpenRouter or LangChain write it.
            provider: Who serves it; the name of a profile will do, also one of a variant (`openrouter-anthropic`). A
                server of one's own (`vllm`, `ollama`, `local` and the like) has no price here, unless a row names it.

        Returns:
            The price, or None where none is known. A name that merely begins like a known one is not known.
        """
        asked = provider.lower()
        family = asked.partition("-")[0]
        others = frozenset[str]() if not OWN_SERVERS.isdisjoint((asked, family)) else MAKERS
        for name in (model_family(model, dated=True), model_family(model)):
            for providers in (frozenset((asked,)), frozenset((family,)), others):
                for row in self.rows:
                    if row.model == name and row.provider in providers:
                        return row.price
        return None

    def with_price(self, model: str, price: Price, *, provider: str = "") -> PriceTable:
        """A table in which a model has another price; this one stays as it is.

        Args:
            model: The model, in any spelling that `find` reads. With a date, only that version.
            price: Its price.
            provider: Who charges it, where it is not the same everywhere.

        Returns:
            The new table.
        """
        return PriceTable((PriceRow(provider.lower(), model_family(model, dated=True), price), *self.rows))

    @classmethod
    def from_json(cls, text: str) -> PriceTable:
        """A table from JSON text.

        Args:
            text: `{"prices": [{"models": ["my-model"], "input": "2.50", "output": "10", ...}]}`, with the fields of
                `Price` (amounts as text), `models` and `provider`; `long` has the five amounts.

        Returns:
            The table. `PriceTable(mine.rows + DEFAULT_PRICES.rows)` puts it before the built-in one.

        Raises:
            PriceError: The text is no such table; the message names row and field.
        """
        try:
            data: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PriceError(f"prices: no JSON ({type(error).__name__})") from None
        rows = cast("Mapping[str, object]", data).get("prices") if isinstance(data, Mapping) else None
        if not isinstance(rows, list):
            raise PriceError('prices: an object with a list "prices"')
        return cls.from_rows(cast("list[object]", rows))

    @classmethod
    def from_rows(cls, rows: list[object]) -> PriceTable:
        """A table from the list that `from_json` reads, as plain data.

        Args:
            rows: The rows.

        Returns:
            The table.

        Raises:
            PriceError: A row does not fit.
        """
        return cls(tuple(row for number, data in enumerate(rows) for row in _rows(number, data)))


def _rate(where: str, text: object) -> Decimal:
    amount = read_amount(text) if isinstance(text, str) else None
    if amount is None:
        raise PriceError(f'price, {where}: an amount as text, for instance "2.50", not {type(text).__name__}')
    return amount


def _rows(number: int, data: object) -> list[PriceRow]:
    """The rows of one entry: one for each of its models."""
    where = f"prices[{number}]"
    if not isinstance(data, Mapping):
        raise PriceError(f"{where}: an object, not {type(data).__name__}")
    entry = cast("Mapping[str, object]", data)
    provider, models = entry.get("provider", ""), entry.get("models")
    names = cast("list[object]", models) if isinstance(models, list) and models else [None]
    if not all(isinstance(name, str) and name for name in names):
        raise PriceError(f"{where}.models: a list of names")
    if not isinstance(provider, str):
        raise PriceError(f"{where}.provider: text, not {type(provider).__name__}")
    rest = {name: value for name, value in entry.items() if name not in ("models", "provider")}
    price = _price(where, rest)
    return [PriceRow(provider.lower(), model_family(model, dated=True), price) for model in cast("list[str]", names)]


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _price(where: str, entry: Mapping[str, object]) -> Price:
    fields: dict[str, object] = {}
    for name, value in entry.items():
        if name in _RATES:
            fields[name] = _rate(f"{where}.{name}", value)
        elif (name in _TEXTS and isinstance(value, str)) or (name == "long_above" and _is_size(value)):
            fields[name] = value
        elif name == "long" and isinstance(value, Mapping):
            inner = dict(cast("Mapping[str, object]", value))
            fields[name] = _price(f"{where}.long", {"currency": entry.get("currency", "USD"), **inner})
        else:
            raise PriceError(f"{where}.{name}: unknown, or not of a fitting type ({type(value).__name__})")
    if not {"input", "output"} <= fields.keys():
        raise PriceError(f"{where}: needs input and output")
    return Price(**fields)  # pyright: ignore[reportArgumentType]  # each was checked above


DEFAULT_PRICES = PriceTable.from_rows(list(PRICE_LIST))
