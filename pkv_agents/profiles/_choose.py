"""The profile of a model at a provider: the facts of both, merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ..errors import ProfileError
from ..notices import Notice
from ._models import ModelFacts, model_facts
from ._record import Profile
from ._transports import ALIASES, GENERIC, TRANSPORTS


def profile_for(
    provider: str, model: str = "", *, overrides: Mapping[str, object] | None = None
) -> tuple[Profile, tuple[Notice, ...]]:
    """Choose the profile of a model: what its provider's API allows, with what is known of the model's family.

    Args:
        provider: `openai`, `openai_responses`, `azure`, `azure_responses`, `anthropic`, `bedrock` (the Converse API),
            `bedrock_messages`, `vertex`, `gemini`, `gemini_explicit`, `deepseek`, `openrouter`, `vllm`, `sglang`,
            `llama.cpp`, `ollama`, `local`, `openai_compatible`, or anything else.
        model: The model's name as the provider spells it.
        overrides: Fields of the profile that you know better, by name.

    Returns:
        The profile, and a notice when the model is not known and a cautious profile is used instead.

    Raises:
        ProfileError: An override that no profile has, or a value that planning does not know.
    """
    name = provider.lower().replace("-", "_")
    transport = TRANSPORTS.get(ALIASES.get(name, name))
    facts = model_facts(model)
    kinds = facts.kinds if facts is not None else ()
    found = next((transport.by_kind[kind] for kind in kinds if kind in transport.by_kind), None) if transport else None
    if facts is not None and found is not None:
        return _overridden(_merged(found, facts), overrides), ()
    used = transport.other if transport is not None else GENERIC
    notices = () if transport is not None and transport.any_model else (_unknown(provider, model, used),)
    return _overridden(used, overrides), notices


def minimum_notice(tokens: int, profile: Profile) -> Notice | None:
    """Say so where a prompt is too short to be cached: providers then cache nothing and report nothing.

    Args:
        tokens: The length of the prefix that should be cached: of the head, or of a whole request.
        profile: The provider.

    Returns:
        The notice `below_minimum`; None when the prefix is long enough, or when the minimum is not known.
    """
    least = profile.min_cacheable_tokens
    if least is None or tokens >= least:
        return None
    return Notice(
        "below_minimum",
        path=profile.name,
        cost=f"all {tokens:,} tokens are read at full price on every request",
        mend="nothing, if the conversation soon grows past it; else move more of what is stable to the front",
        message=f"nothing is cached below {least:,} tokens",
    )


def _merged(profile: Profile, facts: ModelFacts) -> Profile:
    """A transport's profile with what the family has of its own."""
    changes: dict[str, Any] = {}
    if facts.min_cacheable_tokens is not None:
        changes["min_cacheable_tokens"] = facts.min_cacheable_tokens
    if facts.cold_after_seconds is not None and profile.cold_after_seconds is not None:
        changes["cold_after_seconds"] = facts.cold_after_seconds
    if not facts.late_tools:
        changes["tool_changes"] = None
    return replace(profile, **changes) if changes else profile


def _overridden(profile: Profile, overrides: Mapping[str, object] | None) -> Profile:
    if not overrides:
        return profile
    known = {field.name for field in fields(Profile)}
    if unknown := sorted(set(overrides) - known):
        raise ProfileError(f"a profile has no field {unknown[0]!r}; its fields are {', '.join(sorted(known))}")
    changes: dict[str, Any] = dict(overrides)
    return replace(profile, **changes)


def _unknown(provider: str, model: str, used: Profile) -> Notice:
    return Notice(
        "unknown_model",
        path=f"{provider}/{model}" if model else provider,
        cost="errata ride on user messages; the least cacheable length and cached shares cannot be predicted",
        mend="pass profile=..., for instance profile_for('vllm', MODEL)[0] where vLLM serves it, or "
        "dataclasses.replace(GENERIC, carrier='system')",
        message=f"no profile is known for this model, the cautious profile {used.name!r} is used",
    )
