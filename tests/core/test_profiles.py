"""Profiles: the facts of a model's family and of its API, merged; what is not known stays unknown."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pkv_agents import ANTHROPIC, GENERIC, LOCAL, OPENAI, OPENAI_5_6, Profile, ProfileError, minimum_notice, profile_for
from pkv_agents.profiles._models import _FAMILIES
from pkv_agents.profiles._transports import ALIASES, TRANSPORTS

EVERY = [
    (name, profile)
    for name, transport in sorted(TRANSPORTS.items())
    for profile in [*transport.by_kind.values(), transport.other]
]


@pytest.mark.parametrize(
    ("provider", "model", "carrier", "slot", "minimum"),
    [
        ("anthropic", "claude-opus-4-8", "system", "before_assistant", 1024),
        ("anthropic", "claude-opus-4-8-20260101", "system", "before_assistant", 1024),
        ("anthropic", "claude-opus-5-5", "system", "before_assistant", 512),
        ("anthropic", "claude-fable-5-1-latest", "system", "before_assistant", 512),
        ("anthropic", "claude-mythos-5", "system", "before_assistant", 512),
        ("anthropic", "claude-haiku-5-5", "system", "before_assistant", 1024),
        ("anthropic", "claude-sonnet-5-5", "system", "before_assistant", 1024),
        ("anthropic", "claude-sonnet-5", "user_suffix", "anywhere", 1024),
        ("anthropic", "claude-opus-4-6", "user_suffix", "anywhere", 4096),
        ("anthropic", "claude-opus-4-20250514", "user_suffix", "anywhere", 1024),
        ("vertex", "claude-opus-4-8@20260101", "system", "before_assistant", 1024),
        ("bedrock_messages", "us.anthropic.claude-opus-4-8-20260101-v1:0", "system", "before_assistant", 1024),
        ("bedrock", "us.anthropic.claude-opus-4-8-20260101-v1:0", "user_suffix", "anywhere", 1024),
        ("bedrock", "arn:aws:x/eu.anthropic.claude-haiku-4-5-20251001-v1:0", "user_suffix", "anywhere", 4096),
        ("bedrock", "amazon.nova-pro-v1:0", "user_suffix", "anywhere", 1000),
        ("openrouter", "anthropic/claude-opus-4.8", "user_suffix", "anywhere", 1024),
        ("openrouter", "anthropic/claude-opus-4.5", "user_suffix", "anywhere", 4096),
        ("openrouter", "openai/gpt-5.6", "user_suffix", "anywhere", 1024),
        ("gemini", "models/gemini-2.5-flash", "user_suffix", "anywhere", 2048),
        ("google_genai", "gemini-3.1-pro", "user_suffix", "anywhere", 4096),
        ("azure", "gpt-4o", "system", "anywhere", 1024),
        ("deepseek", "deepseek-chat", "user_suffix", "anywhere", None),
    ],
)  # fmt: skip
def test_r02_r27_where_a_system_message_may_stand_and_what_is_the_least(
    provider: str, model: str, carrier: str, slot: str, minimum: int | None
) -> None:
    profile, notices = profile_for(provider, model)
    assert (profile.carrier, profile.system_slot, profile.min_cacheable_tokens) == (carrier, slot, minimum)
    assert notices == ()


@pytest.mark.parametrize(
    ("provider", "model", "kept"),
    [
        ("openai", "gpt-4o-mini", 3600),
        ("azure", "gpt-35-turbo", 3600),
        ("openai", "gpt-5.2", 86400),
        ("openai", "gpt-5.6-mini", None),
        ("openai_responses", "gpt-6", None),
        ("anthropic", "claude-sonnet-5", 300),
        ("bedrock", "amazon.nova-lite-v1:0", 300),
        ("vllm", "any", None),
        ("sglang", "any", None),
        ("llama.cpp", "any", None),
        ("local", "", None),
        ("deepseek", "deepseek-chat", None),
    ],
)
def test_when_a_cache_is_certainly_cold(provider: str, model: str, kept: int | None) -> None:
    assert profile_for(provider, model)[0].cold_after_seconds == kept


def test_arguments_are_sorted_unless_the_cache_holds_what_was_generated() -> None:
    unsorted = {name for name, profile in EVERY if not profile.sorts_arguments}
    assert unsorted == {"vllm", "sglang", "llama.cpp", "ollama", "local"}


def test_markers_keys_and_late_tools() -> None:
    opus = profile_for("anthropic", "claude-opus-4-8")[0]
    assert (opus.marker, opus.ttls, opus.tool_changes) == ("cache_control", ("5m", "1h"), "tool_addition")
    assert (opus.write_multiplier, opus.write_multiplier_1h) == (1.25, 2.0)
    assert profile_for("bedrock", "anthropic.claude-opus-4-8-v1:0")[0].marker == "cache_point"
    assert profile_for("openrouter", "anthropic/claude-sonnet-5")[0].marker == "cache_control"
    responses = profile_for("openai_responses", "gpt-5.6")[0]
    assert (responses.marker, responses.tool_changes) == ("prompt_cache_breakpoint", "additional_tools")
    late = [profile_for("openai_responses", model)[0].tool_changes for model in ("o3", "gpt-4.1", "o4-mini", "gpt-4o")]
    assert late == ["additional_tools", "additional_tools", None, None]
    assert (OPENAI.cache_key, OPENAI.cache_key_rpm, OPENAI.allowed_tools) == ("prompt_cache_key", 15, True)
    assert replace(OPENAI, tool_changes="additional_tools") == profile_for("openai_responses", "gpt-5.2")[0]


@pytest.mark.parametrize("provider", ["acme", "", "openai", "azure", "anthropic", "bedrock", "gemini", "openrouter"])
def test_an_unknown_model_gets_a_cautious_profile_and_a_notice(provider: str) -> None:
    profile, notices = profile_for(provider, "no-such-model")
    assert (profile.carrier, profile.min_cacheable_tokens) == ("user_suffix", None)
    assert [notice.code for notice in notices] == ["unknown_model"]


@pytest.mark.parametrize("model", ["claude-opus-5-6", "claude-sonnet-5-6", "claude-opus-4-9", "claude-opus-50"])
def test_the_next_model_of_a_family_is_not_taken_for_the_last(model: str) -> None:
    assert profile_for("anthropic", model)[0] == ANTHROPIC


@pytest.mark.parametrize("minimum", [512, 1024, 4096])
def test_r27_a_head_below_the_minimum_is_reported(minimum: int) -> None:
    profile = replace(ANTHROPIC, min_cacheable_tokens=minimum)
    notice = minimum_notice(1500, profile)
    if minimum <= 1500:
        assert notice is None
    else:
        assert notice is not None and notice.code == "below_minimum" and "1,500" in notice.cost


def test_r27_by_the_models_themselves_and_at_the_bound() -> None:
    found = {
        model: minimum_notice(1500, profile_for("anthropic", model)[0]) is not None
        for model in ("claude-opus-5", "claude-sonnet-5", "claude-haiku-4-5", "no-such-model")
    }
    assert found == dict.fromkeys(found, False) | {"claude-haiku-4-5": True}
    assert [minimum_notice(tokens, OPENAI) is None for tokens in (0, 1023, 1024)] == [False, False, True]
    (unknown,) = profile_for("anthropic", "no-such-model")[1]
    assert "least cacheable length" in unknown.cost, "whether anything is cached cannot be said: the notice says that"


def test_a_user_knows_better() -> None:
    profile, notices = profile_for("acme", "m", overrides={"carrier": "system", "min_cacheable_tokens": 64})
    assert profile == replace(GENERIC, carrier="system", min_cacheable_tokens=64) and len(notices) == 1
    held, _ = profile_for("openai_responses", "gpt-5.6", overrides={"holds_history": True})
    assert held.holds_history and not OPENAI_5_6.holds_history
    with pytest.raises(ProfileError, match="no field 'minimum'"):
        profile_for("openai", "gpt-5.2", overrides={"minimum": 1})
    with pytest.raises(ProfileError, match="carrier"):
        profile_for("openai", "gpt-5.2", overrides={"carrier": "pigeon"})


def test_a_profile_that_contradicts_itself_is_refused() -> None:
    wrongs: list[dict[str, Any]] = [{"marker": "x"}, {"ttls": ("2h",)}, {"tool_changes": "x"}, {"max_breakpoints": 4}]
    for wrong in wrongs:
        with pytest.raises(ProfileError, match="profile 'x'"):
            Profile("x", **wrong)


@pytest.mark.parametrize(("name", "profile"), EVERY)
def test_every_record_is_dated_and_says_where_it_is_from(name: str, profile: Profile) -> None:
    assert re.fullmatch(r"20\d\d-\d\d", profile.as_of)
    assert profile.source.startswith("https://") or profile in (GENERIC, LOCAL)
    assert (profile.marker is None) == (not profile.max_breakpoints), name
    assert profile.carrier != "system" or profile.system_slot == "anywhere" or profile.marker == "cache_control"


def test_every_family_is_dated_and_every_alias_leads_somewhere() -> None:
    for _, facts in _FAMILIES:
        assert re.fullmatch(r"20\d\d-\d\d", facts.as_of) and facts.source.startswith("https://")
    assert set(ALIASES.values()) <= set(TRANSPORTS) and not set(ALIASES) & set(TRANSPORTS)
