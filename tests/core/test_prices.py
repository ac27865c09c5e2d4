"""The price table: names in every spelling, prices of one's own, and data that is refused."""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import (
    DEFAULT_PRICES,
    AgentSession,
    Message,
    PkvError,
    Price,
    PriceError,
    PriceTable,
    TrackedState,
    Usage,
    model_family,
    profile_for,
)

OPUS = DEFAULT_PRICES.find("claude-opus-5")


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-opus-5", "claude-opus-5"),
        ("Claude-Opus-5-20260724", "claude-opus-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-sonnet-5@default", "claude-sonnet-5"),
        ("claude-opus-5[1m]", "claude-opus-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("global.anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("projects/p/locations/eu/publishers/anthropic/models/claude-opus-5", "claude-opus-5"),
        ("anthropic/claude-opus-4.8", "claude-opus-4-8"),
        ("anthropic:claude-haiku-4-5-latest", "claude-haiku-4-5"),
        ("bedrock_converse:us.anthropic.claude-opus-5", "claude-opus-5"),
        ("openai/gpt-5.6-sol", "gpt-5-6-sol"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-4o-2024-05-13", "gpt-4o"),
        ("google_genai:gemini-2.5-pro", "gemini-2-5-pro"),
        ("models/gemini-2.5-flash-001", "gemini-2-5-flash"),
        ("google/gemini-3.1-pro-preview", "gemini-3-1-pro"),
        # what costs something else keeps its name
        ("openai/gpt-5:free", "gpt-5:free"),
        ("gpt-5-pro", "gpt-5-pro"),
        ("claude-opus-5-fast", "claude-opus-5-fast"),
        ("ft:gpt-4o-2024-08-06:org::1", "ft:gpt-4o-2024-08-06:org::1"),
    ],
)
def test_a_family_is_found_in_every_spelling(model: str, family: str) -> None:
    assert model_family(model) == model_family(family) == family


def test_what_only_begins_like_a_known_name_is_not_known() -> None:
    assert OPUS is not None
    for model in ("", "claude", "claude-opus-5-fast", "claude-opus-50", "gpt-5:free", "gpt-5:batch", "ft:gpt-4o::x"):
        assert DEFAULT_PRICES.find(model) is None
    dated, newer = DEFAULT_PRICES.find("gpt-4o-2024-05-13"), DEFAULT_PRICES.find("gpt-4o-2024-08-06")
    assert dated is not None and newer is not None and dated.input == Decimal(5) and newer.input == Decimal("2.5")


class Empty(TrackedState):
    a: int = 0


def test_a_server_of_ones_own_has_no_price_unless_a_row_names_it() -> None:
    assert DEFAULT_PRICES.find("claude-opus-5", provider="bedrock") == OPUS
    assert DEFAULT_PRICES.find("claude-opus-5", provider="vLLM") is None
    mine = DEFAULT_PRICES.with_price("claude-opus-5", Price.of("0.01", "0.02"), provider="vllm")
    found = mine.find("claude-opus-5", provider="vllm")
    assert found is not None and found.output == Decimal("0.02")
    assert mine.find("claude-opus-5") == mine.find("claude-opus-5", provider="anthropic") == OPUS


def test_ones_own_price_comes_first_and_the_table_stays_as_it_was() -> None:
    mine = DEFAULT_PRICES.with_price("anthropic/claude-opus-5", Price.of("4.50", "22.50", cache_read="0.45"))
    found = mine.find("us.anthropic.claude-opus-5-v1:0")
    assert found is not None and found.cache_read == Decimal("0.45") and found.cache_write_5m is None
    assert DEFAULT_PRICES.find("claude-opus-5") == OPUS
    azure = DEFAULT_PRICES.with_price("gpt-5", Price.of("9", "9"), provider="azure")
    there, elsewhere = azure.find("gpt-5", provider="azure"), azure.find("gpt-5", provider="openai")
    assert there is not None and there.input == 9 and elsewhere == DEFAULT_PRICES.find("gpt-5")


def test_each_built_in_price_is_dated_and_sourced() -> None:
    names = [row.model for row in DEFAULT_PRICES.rows]
    assert len(names) == len(set(names)) and all(name == model_family(name, dated=True) for name in names)
    for row in DEFAULT_PRICES.rows:
        price = row.price
        month = price.as_of if len(price.as_of) == 10 else f"{price.as_of}-01"
        assert date(2026, 1, 1) < date.fromisoformat(month) < date(2026, 12, 1), row.model
        assert re.match(r"https://\S+", price.source) and price.currency == "USD", row.model
        assert price.cache_read is None or price.cache_read < price.input, row.model
        assert price.cache_write_5m is None or price.input < price.cache_write_5m, row.model
        assert price.cache_write_1h is None or (price.cache_write_5m or 0) < price.cache_write_1h, row.model
        assert price.long is None or price.long.input > price.input, row.model


def test_long_requests_have_another_price_for_all_of_their_tokens() -> None:
    luna = DEFAULT_PRICES.find("gpt-6-luna")
    assert luna is not None and luna.long is not None
    assert luna.at(272_000) is luna and luna.at(None) is luna
    assert luna.at(272_001) is luna.long and luna.long.input == Decimal("0.2")


FILE: dict[str, Any] = {
    "provider": "acme",
    "models": ["acme-1", "acme-1.5"],
    "input": "2.50",
    "output": "10",
    "cache_read": "0.25",
    "currency": "EUR",
    "as_of": "2026-11-30",
    "source": "the contract",
    "long_above": 1000,
    "long": {"input": "5", "output": "20"},
}


def test_a_table_from_a_file() -> None:
    table = PriceTable.from_json(json.dumps({"prices": [FILE]}))
    price = table.find("acme/acme-1.5-20260101", provider="acme")
    assert price == table.find("acme-1", provider="acme") and table.find("acme-1") is None
    assert price is not None and price.long is not None and price.long.currency == "EUR"
    both = PriceTable(table.rows + DEFAULT_PRICES.rows)
    assert both.find("claude-opus-5") == OPUS and both.find("acme-1", provider="acme") == price


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": 2.5}, r'prices\[0\]\.input: an amount as text, for instance "2.50", not float'),
        ({"input": "-1"}, r"prices\[0\]\.input"),
        ({"cache_read": "NaN"}, r"prices\[0\]\.cache_read"),
        ({"output": "1e999999"}, r"prices\[0\]\.output"),
        ({"output": None}, r"prices\[0\]\.output: .* not NoneType"),
        ({"models": "acme-1"}, r"prices\[0\]\.models: a list of names"),
        ({"models": []}, r"prices\[0\]\.models"),
        ({"models": [1]}, r"prices\[0\]\.models"),
        ({"provider": 1}, r"prices\[0\]\.provider: text, not int"),
        ({"cached": "1"}, r"prices\[0\]\.cached: unknown"),
        ({"long_above": True}, r"prices\[0\]\.long_above"),
        ({"long": {"input": "1"}}, r"prices\[0\]\.long: needs input and output"),
        ({"currency": "euro"}, "currency: three capital letters"),
        ({"long_above": None}, r"prices\[0\]\.long_above"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PriceError, match=message):
        PriceTable.from_json(json.dumps({"prices": [FILE | change]}))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"prices": {}}', '{"prices": [1]}', "[" * 100_000])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match=r"^prices"):
        PriceTable.from_json(text)


def test_floats_are_refused_where_prices_are_built() -> None:
    with pytest.raises(PriceError, match="price, input: a Decimal from text"):
        Price(input=2.5, output=Decimal(1))  # pyright: ignore[reportArgumentType]
    with pytest.raises(PriceError, match=r"price, output: an amount as text"):
        Price.of("1", 0.1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(PriceError, match="long_above"):
        Price(input=Decimal(1), output=Decimal(1), long_above=5)
    with pytest.raises(PriceError, match="finite"):
        Price(input=Decimal("Infinity"), output=Decimal(1))
    assert issubclass(PriceError, PkvError) and issubclass(PriceError, ValueError)


@given(st.text(max_size=40))
def test_any_name_has_a_family_and_it_is_its_own(model: str) -> None:
    assert DEFAULT_PRICES.find(model) is None or model_family(model) in {row.model for row in DEFAULT_PRICES.rows}


@pytest.mark.parametrize(
    ("provider", "found"),
    [
        *[(name, False) for name in ("vllm", "sglang", "llama.cpp", "ollama", "local", "vllm-prod", "tensorrt-llm")],
        *[(name, True) for name in ("openai-5.6", "generic", "openrouter-openai", "bedrock", "gemini", "my-gateway")],
    ],
)
def test_the_name_of_a_profile_says_who_is_paid(provider: str, found: bool) -> None:
    assert (DEFAULT_PRICES.find("gpt-5.2", provider=provider) is not None) is found
    mine = DEFAULT_PRICES.with_price("gpt-5.2", Price.of("1", "1"), provider=provider)
    assert mine.find("gpt-5.2", provider=provider) == Price.of("1", "1")
    routed = DEFAULT_PRICES.with_price("gpt-5.2", Price.of("7", "7"), provider="openrouter")
    assert routed.find("gpt-5.2", provider="openrouter-openai") == Price.of("7", "7")


def test_a_server_of_ones_own_is_not_charged() -> None:
    for name, status in (("vllm", "no price known"), ("openai", "estimated")):
        session = AgentSession(Empty(), key="k", profile=profile_for(name, "gpt-5.2")[0])
        session.commit(session.plan([Message("user", "hi")], model="gpt-5.2"), Usage(10**6, output=1))
        cost = session.report().cost
        assert cost is not None and cost.status == status
