"""Usage: what holds for anything that is given to the normaliser, and for sums."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import Usage, normalise_usage


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileDict(dict[str, object]):
    def get(self, *args: object) -> Any:
        raise RuntimeError

    def values(self) -> Any:
        raise RuntimeError

    def __contains__(self, key: object) -> bool:
        raise RuntimeError


class Endless:
    """Holds itself everywhere."""

    def __getattr__(self, name: str) -> Any:
        return [[self]] if name == "generations" else self


def test_hostile_objects_report_nothing() -> None:
    for value in (Hostile(), HostileDict(a={}), Endless(), {"usage": Hostile(), "raw": HostileDict()}):
        assert normalise_usage(value) == Usage()
    assert normalise_usage({"usage": Hostile(), "raw": {"prompt_tokens": 3}}) == Usage(3)


NAMES = (
    "usage usage_metadata token_usage raw message generations llm_output response_metadata prompt_tokens input_tokens "
    "output_tokens completion_tokens total_tokens prompt_tokens_details input_token_details input_tokens_details "
    "output_token_details cached_tokens cache_read cache_creation ephemeral_1h_input_tokens cache_read_input_tokens "
    "cache_creation_input_tokens cache_write_tokens inputTokens cacheDetails ttl promptTokenCount thoughtsTokenCount "
    "prompt_n cache_n prompt_eval_count iterations type cost fresh cache_write_5m output reasoning estimated_by"
).split()
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["5m", "compaction", "1", "x"]),
    st.integers(0, 99),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=8),
    max_leaves=40,
)


def namespaces(value: object) -> object:
    """The same with attributes in place of keys."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: namespaces(inner) for key, inner in value.items()})
    return [namespaces(inner) for inner in value] if isinstance(value, list) else value


@given(JSON)
def test_anything_is_normalised_once_and_for_all(value: object) -> None:
    for found in (normalise_usage(value), normalise_usage(namespaces(value))):
        counts = [
            found.fresh,
            found.cache_read,
            found.cache_write_5m,
            found.cache_write_1h,
            found.output,
            found.reasoning,
        ]
        assert all(count is None or (type(count) is int and count >= 0) for count in counts)
        assert normalise_usage(json.loads(json.dumps(asdict(found)))) == found == normalise_usage(found)


COUNTS = st.none() | st.integers(0, 10**6)
USAGES = st.builds(
    Usage,
    COUNTS,
    COUNTS,
    COUNTS,
    COUNTS,
    COUNTS,
    COUNTS,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from([None, "0.1", "2"]),
)


@given(USAGES, USAGES, USAGES)
def test_sums_are_by_bucket_in_any_order(one: Usage, two: Usage, three: Usage) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + Usage() == one
    assert (one + two).input == (None if one.input is two.input is None else (one.input or 0) + (two.input or 0))


@given(fresh=st.integers(0, 10**6), read=st.integers(0, 10**6), short=st.integers(0, 10**6), long=st.integers(0, 10**6))
def test_the_same_call_in_every_shape_is_the_same_usage(fresh: int, read: int, short: int, long: int) -> None:
    total, written = fresh + read + short + long, short + long
    tiers = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    kept = {"ttl_30m_tokens": short, "ttl_12h_tokens": long}
    details = {"cached_tokens": read, "cache_write_tokens": written, "cache_write_tokens_details": kept}
    by_ttl = [{"ttl": "1h", "inputTokens": long}, {"ttl": "5m", "inputTokens": short}]
    exclusive = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written, "cache_creation": tiers}
    shapes: list[object] = [
        {"input_tokens": fresh, "output_tokens": 1, **exclusive},
        {"input_tokens": total, "output_tokens": 1, "input_tokens_details": details},
        {"prompt_tokens": total, "completion_tokens": 1, **exclusive},
        {"input_tokens": total, "output_tokens": 1, "input_token_details": {"cache_read": read, **tiers}},
        {"inputTokens": fresh, "outputTokens": 1, "cacheReadInputTokens": read, "cacheDetails": by_ttl},
    ]
    for shape in shapes:
        found = normalise_usage(shape)
        assert found == Usage(fresh, read, short, long, 1) and found.input == total
