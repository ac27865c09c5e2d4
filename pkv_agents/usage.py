"""Usage: any provider's account of a call, in disjoint buckets.

Providers disagree on whether input tokens include cached ones. Here they never do: `fresh`, `cache_read` and the two
`cache_write` buckets add up to the input. None means "not reported", which is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or the sum of several.

    Attributes:
        fresh: Input tokens that were read at full price; all of the input where a cache was not reported.
        cache_read: Input tokens that a cache served.
        cache_write_5m: Input tokens written to a cache for minutes.
        cache_write_1h: Input tokens written for an hour.
        output: Generated tokens.
    """

    fresh: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None

    @property
    def input(self) -> int | None:
        """All input tokens that were reported, or None."""
        parts = [self.fresh, self.cache_read, self.cache_write_5m, self.cache_write_1h]
        known = [part for part in parts if part is not None]
        return sum(known) if known else None

    @property
    def cached_share(self) -> float | None:
        """The part of the input that a cache served, or None when that was not reported."""
        total = self.input
        return None if self.cache_read is None or not total else self.cache_read / total

    def __add__(self, other: Usage) -> Usage:
        """Sum by bucket; what one side did not report does not turn into 0."""
        return Usage(
            _sum(self.fresh, other.fresh),
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write_5m, other.cache_write_5m),
            _sum(self.cache_write_1h, other.cache_write_1h),
            _sum(self.output, other.output),
        )


def _sum(one: int | None, two: int | None) -> int | None:
    if one is None:
        return two
    return one if two is None else one + two


def normalise_usage(reported: object) -> Usage:
    """Read any provider's usage.

    Args:
        reported: A dict or an object of OpenAI (chat or Responses), Anthropic, Bedrock, Gemini, DeepSeek, LangChain's
            `usage_metadata`, a local `Reply`, a whole response that has one of these inside, or a `Usage`.

    Returns:
        Disjoint buckets; the same again for what is normalised already. Unknown shapes give an empty Usage.
    """
    if isinstance(reported, Usage):
        return reported
    data = _as_dict(reported)
    for inner in ("usage_metadata", "usage", "token_usage", "usageMetadata"):
        if data.get(inner) is not None:
            return normalise_usage(data[inner])
    if "response_metadata" in data or "raw" in data:
        return normalise_usage(data.get("raw") or data.get("response_metadata"))
    for read in (_langchain, _anthropic, _bedrock, _openai_responses, _openai_chat, _gemini, _local):
        usage = read(data)
        if usage is not None:
            return usage
    return Usage()


def _as_dict(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("dict[str, Any]", dump())
    slots = getattr(type(value), "__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    fields = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return fields | cast("dict[str, Any]", getattr(value, "__dict__", {}))


def _int(data: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _without(total: int | None, *parts: int | None) -> int | None:
    """The rest of a total that includes the other buckets; never negative."""
    return None if total is None else max(0, total - sum(part or 0 for part in parts))


def _tiered(details: dict[str, Any], name: str) -> int | None:
    """A detail, also where a service tier is prefixed to its name (`priority_cache_read`)."""
    return _int(details, name, f"priority_{name}", f"flex_{name}")


def _langchain(data: dict[str, Any]) -> Usage | None:
    """Input includes everything; `cache_creation` is 0 or absent where the two tiers are given."""
    if "input_token_details" not in data and not {"input_tokens", "total_tokens"} <= data.keys():
        return None
    if "input_tokens_details" in data:
        return None
    details = _as_dict(data.get("input_token_details") or {})
    read = _tiered(details, "cache_read")
    five, hour = _int(details, "ephemeral_5m_input_tokens"), _int(details, "ephemeral_1h_input_tokens")
    created = _tiered(details, "cache_creation")
    five = _sum(five, created) if created or five is None else five
    total = _int(data, "input_tokens")
    return Usage(_without(total, read, five, hour), read, five, hour, _int(data, "output_tokens"))


def _anthropic(data: dict[str, Any]) -> Usage | None:
    """Input excludes what was read from or written to the cache."""
    if "cache_read_input_tokens" not in data and "cache_creation_input_tokens" not in data:
        return None
    tiers = _as_dict(data.get("cache_creation") or {})
    hour = _int(tiers, "ephemeral_1h_input_tokens")
    five = _int(tiers, "ephemeral_5m_input_tokens")
    if five is None and hour is None:
        five = _int(data, "cache_creation_input_tokens")
    read = _int(data, "cache_read_input_tokens")
    return Usage(_int(data, "input_tokens"), read, five, hour, _int(data, "output_tokens"))


def _bedrock(data: dict[str, Any]) -> Usage | None:
    if "inputTokens" not in data:
        return None
    read = _int(data, "cacheReadInputTokens", "cacheReadInputTokenCount")
    written = _int(data, "cacheWriteInputTokens", "cacheWriteInputTokenCount")
    return Usage(_int(data, "inputTokens"), read, written, None, _int(data, "outputTokens"))


def _openai_responses(data: dict[str, Any]) -> Usage | None:
    if "input_tokens" not in data:
        return None
    details = _as_dict(data.get("input_tokens_details") or {})
    read, written = _int(details, "cached_tokens"), _int(details, "cache_write_tokens")
    total = _int(data, "input_tokens")
    return Usage(_without(total, read, written), read, written, None, _int(data, "output_tokens"))


def _openai_chat(data: dict[str, Any]) -> Usage | None:
    if "prompt_tokens" not in data or "cached_tokens" in data:
        return None
    details = _as_dict(data.get("prompt_tokens_details") or {})
    read = _int(details, "cached_tokens")
    read = _int(data, "prompt_cache_hit_tokens") if read is None else read
    written = _int(details, "cache_write_tokens")
    total = _int(data, "prompt_tokens")
    return Usage(_without(total, read, written), read, written, None, _int(data, "completion_tokens"))


def _gemini(data: dict[str, Any]) -> Usage | None:
    total = _int(data, "prompt_token_count", "promptTokenCount")
    if total is None:
        return None
    read = _int(data, "cached_content_token_count", "cachedContentTokenCount")
    output = _int(data, "candidates_token_count", "candidatesTokenCount")
    thoughts = _int(data, "thoughts_token_count", "thoughtsTokenCount")
    return Usage(_without(total, read), read, None, None, _sum(output, thoughts))


def _local(data: dict[str, Any]) -> Usage | None:
    """Our own engine: `cached_tokens` are those that were not passed to the model."""
    if "prompt_tokens" not in data:
        return None
    read, total = _int(data, "cached_tokens"), _int(data, "prompt_tokens")
    return Usage(_without(total, read), read, None, None, _int(data, "output_tokens", "completion_tokens"))
