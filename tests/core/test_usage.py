"""Usage of every shape, and profiles by family."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest

import pkv_agents
from pkv_agents import (
    ANTHROPIC,
    GENERIC,
    OPENAI_5_6,
    ProfileError,
    SessionReport,
    StoredSession,
    Usage,
    normalise_usage,
    profile_for,
)
from pkv_agents._stored import SessionRecord, decode_record, encode_record


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param(
            {"prompt_tokens": 2006, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1920}},
            Usage(86, 1920, None, None, 9),
            id="openai chat",
        ),
        pytest.param(
            {"input_tokens": 3, "cache_read_input_tokens": 20000, "cache_creation_input_tokens": 1500},
            Usage(3, 20000, 1500, None, None),
            id="anthropic",
        ),
        pytest.param(
            {
                "input_tokens": 21503,
                "output_tokens": 1,
                "total_tokens": 21504,
                "input_token_details": {"cache_read": 20000, "cache_creation": 1500},
            },
            Usage(3, 20000, 1500, None, 1),
            id="langchain",
        ),
        pytest.param(
            {"input_tokens": 100, "input_token_details": {"cache_read": 90, "cache_creation": 5}},
            Usage(5, 90, 5, None, None),
            id="langchain small",
        ),
        pytest.param(
            {
                "input_tokens": 100,
                "input_token_details": {
                    "cache_read": 50,
                    "cache_creation": 0,
                    "ephemeral_5m_input_tokens": 10,
                    "ephemeral_1h_input_tokens": 20,
                },
            },
            Usage(20, 50, 10, 20, None),
            id="langchain anthropic tiers",
        ),
        pytest.param(
            {"input_tokens": 30, "input_token_details": {"priority_cache_read": 10}, "output_tokens": 2},
            Usage(20, 10, None, None, 2),
            id="langchain service tier",
        ),
        pytest.param(
            {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 10}, "output_tokens": 2, "total_tokens": 32},
            Usage(20, 10, None, None, 2),
            id="openai responses",
        ),
        pytest.param({"prompt_tokens": 30, "completion_tokens": 2}, Usage(30, None, None, None, 2), id="no details"),
        pytest.param(
            {"prompt_tokens": 30, "prompt_cache_hit_tokens": 20, "prompt_cache_miss_tokens": 10},
            Usage(10, 20),
            id="deepseek",
        ),
        pytest.param(
            {"promptTokenCount": 30, "cachedContentTokenCount": 20, "candidatesTokenCount": 4, "thoughtsTokenCount": 1},
            Usage(10, 20, None, None, 5, reasoning=1),
            id="gemini",
        ),
        pytest.param(
            {"inputTokens": 30, "cacheReadInputTokens": 20, "outputTokens": 4},
            Usage(30, 20, None, None, 4),
            id="bedrock",
        ),
        pytest.param(
            SimpleNamespace(prompt_tokens=30, cached_tokens=20, output_tokens=4, text="x"),
            Usage(10, 20, None, None, 4),
            id="our engine",
        ),
        pytest.param(
            SimpleNamespace(usage=SimpleNamespace(prompt_tokens=3, completion_tokens=1)),
            Usage(3, None, None, None, 1),
            id="whole response",
        ),
        pytest.param(None, Usage(), id="nothing"),
        pytest.param({"x": 1}, Usage(), id="unknown"),
    ],
)  # fmt: skip
def test_r28_usage_of_every_shape(reported: object, expected: Usage) -> None:
    found = normalise_usage(reported)
    assert found == expected and normalise_usage(found) == found


def test_usage_sums_and_shares() -> None:
    assert Usage(3, 20000, 1500).input == 21503
    assert Usage(fresh=1) + Usage(cache_read=2) == Usage(1, 2, cache_reported_input=2)
    assert (Usage() + Usage()).cached_share is None and Usage(fresh=5).cached_share is None
    assert Usage(1, 3).cached_share == 0.75


@pytest.mark.parametrize(
    ("provider", "model", "name", "carrier", "minimum"),
    [
        ("openai", "gpt-5.2", "openai", "system", 1024),
        ("openai", "gpt-5.6-mini", "openai-5.6", "system", 1024),
        ("anthropic", "claude-opus-4-8", "anthropic-mid-system", "system", 1024),
        ("anthropic", "claude-opus-5-20261001", "anthropic-mid-system", "system", 512),
        ("anthropic", "claude-sonnet-5", "anthropic", "user_suffix", 1024),
        ("anthropic", "claude-sonnet-5-5", "anthropic-mid-system", "system", 1024),
        ("anthropic", "claude-haiku-4-5-20251001", "anthropic", "user_suffix", 4096),
        ("vllm", "any", "vllm", "user_suffix", None),
    ],
)
def test_profiles_by_family(provider: str, model: str, name: str, carrier: str, minimum: int | None) -> None:
    profile, notices = profile_for(provider, model)
    assert (profile.name, profile.carrier, profile.min_cacheable_tokens, notices) == (name, carrier, minimum, ())


def test_an_unknown_model_gets_a_cautious_profile_and_a_notice() -> None:
    for provider, expected in (("acme", GENERIC), ("anthropic", ANTHROPIC), ("openai", GENERIC)):
        profile, notices = profile_for(provider, "new-model")
        assert profile == expected and [notice.code for notice in notices] == ["unknown_model"]
    assert OPENAI_5_6.write_multiplier == 1.25
    with pytest.raises(ProfileError, match="system_slot"):
        pkv_agents.Profile("x", system_slot="never")  # pyright: ignore[reportArgumentType]


def test_the_share_of_a_sum_is_of_the_calls_that_reported_a_cache() -> None:
    unknown, half = Usage(fresh=1000), Usage(fresh=100, cache_read=100)
    both = unknown + half
    assert both.cached_share == (half + unknown).cached_share == 0.5 and both.input == 1200
    assert (both + Usage(0, 200) + unknown).cached_share == 0.75
    assert (half + half) == Usage(200, 200) and (unknown + unknown).cached_share is None
    assert normalise_usage(json.loads(json.dumps(asdict(both)))) == both
    stored = encode_record(SessionRecord(None, both, 2))
    assert decode_record("k", StoredSession(json.loads(json.dumps(stored)), 1)).usage == both
    line = str(SessionReport("k", (), 2, both, ())).split("\n")[1]
    assert line == "Cached share: 50.0% of 200 input tokens; not reported of 1,000 more."
