"""Where each provider keeps its counts: one reader for each shape.

Providers disagree on two things. Is the input's total *inclusive* (OpenAI, Gemini, LangChain: cached tokens are part
of it) or *exclusive* (Anthropic, Bedrock: they come on top)? And is reasoning part of the output (everyone, but for
Gemini's thoughts and xAI)? A reader answers both for its shape; nothing here raises, whatever it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import cast

from ._money import add_amounts, amount_text, read_amount
from ._usage_record import Usage, add_counts

MAX_TOKENS = 10**15
"""More than this is a mistake and no count."""

_TIERS = ("", "priority_", "flex_")
"""LangChain prefixes its details with the service tier; calls of several tiers may be summed in one dict."""


def get(node: object, name: str) -> object:
    """A key of a mapping or an attribute of an object; None where it is missing or cannot be read."""
    if node is None:
        return None
    if type(node) is dict:  # the usual case first: each chunk of a stream is read
        return cast("dict[object, object]", node).get(name)
    with suppress(Exception):  # properties of foreign objects may raise anything
        if isinstance(node, Mapping):
            return cast("Mapping[object, object]", node).get(name)
        return getattr(node, name, None)
    return None


def opened(node: object) -> object:
    """A pydantic model's fields as a mapping (asking a model for what it lacks is slow); anything else as it is."""
    with suppress(Exception):
        if getattr(type(node), "__pydantic_complete__", False):
            extra = cast("dict[str, object] | None", get(node, "__pydantic_extra__"))
            return {**vars(node), **(extra or {})}
    return node


def has_key(node: object, name: str) -> bool:
    """Whether a mapping has a key, whatever stands there."""
    with suppress(Exception):
        return isinstance(node, Mapping) and name in node
    return False


def items(value: object, limit: int = 1000) -> list[object]:
    """The items of a list or tuple; none where it is something else."""
    with suppress(Exception):
        if isinstance(value, list | tuple):
            return list(islice(cast("Iterable[object]", value), limit))
    return []


def count(node: object, *names: str) -> int | None:
    """The first of these fields that is a whole number, 0 or more; texts and booleans are none."""
    for name in names:
        if (value := get(node, name)) is None:
            continue
        with suppress(Exception):  # NaN and infinity have no int
            if isinstance(value, int | float) and not isinstance(value, bool):
                whole = int(value)
                if whole == value and 0 <= whole <= MAX_TOKENS:
                    return whole
    return None


def read_shape(node: object) -> Usage | None:
    """The usage that a node holds itself; None where it holds none, or only zeros: a report that was never filled."""
    if (own := _own(node)) is not None:
        return own
    for read in _READERS:
        found = read(node)
        if found is not None and (found.input or found.output):
            return found
    return None


def is_part(node: object) -> bool:
    """Whether this is LangChain's shape, whose chunks are parts to be added and not reports of all so far."""
    return count(node, "total_tokens") is not None and get(node, "input_tokens_details") is None and _has_input(node)


def _has_input(node: object) -> bool:
    return count(node, "input_tokens") is not None


def _inclusive(total: int | None, read: int | None, short: int | None, long: int | None) -> Usage:
    """The input of a report whose total includes the other buckets."""
    if total is not None and total < (add_counts(read, short, long) or 0):
        return Usage(total)  # The parts contradict their total: only the total is believed.
    return Usage(None if total is None else total - (add_counts(read, short, long) or 0), read, short, long)


def _writes(total: int | None, short: int | None, long: int | None) -> tuple[int | None, int | None]:
    """Written tokens by how long they are kept; what a total has beyond both was kept for the usual, shorter time."""
    if total is None or (short is None and long is None):
        return (total if short is None and long is None else short), long
    return max(short or 0, total - (long or 0)), long


def _priced(usage: Usage, node: object) -> Usage:
    """Add what the provider says that the call cost (OpenRouter, Perplexity)."""
    cost = get(node, "cost")
    cost = cost if isinstance(cost, int | float) else get(cost, "total_cost")
    amount = None if isinstance(cost, str) else read_amount(cost)
    if amount is not None and get(node, "is_byok") is True:  # the key's owner pays the model's provider as well
        upstream = get(get(node, "cost_details"), "upstream_inference_cost")
        amount = add_amounts(amount, None if isinstance(upstream, str) else read_amount(upstream))
    return usage if amount is None else replace(usage, reported_cost=amount_text(amount))


def _own(node: object) -> Usage | None:
    """`dataclasses.asdict(usage)`, also through JSON."""
    if not has_key(node, "fresh"):
        return None
    method, cost = get(node, "estimated_by"), get(node, "reported_cost")
    amount = read_amount(cost) if isinstance(cost, str) else None
    names = ("fresh", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
    return Usage(
        *(count(node, name) for name in names),
        estimated_by=method if isinstance(method, str) else "",
        reported_cost=None if amount is None else amount_text(amount),
        cache_reported_input=count(node, "cache_reported_input"),
    )


def _bedrock(node: object) -> Usage | None:
    """Converse: the input excludes what was read from or written to the cache; writes may be given by ttl."""
    details = items(get(node, "cacheDetails"))
    by_ttl = {
        ttl: add_counts(*(count(detail, "inputTokens") for detail in details if get(detail, "ttl") == ttl))
        for ttl in ("5m", "1h")
    }
    written = count(node, "cacheWriteInputTokens", "cacheWriteInputTokenCount")
    short, long = _writes(written, by_ttl["5m"], by_ttl["1h"])
    read = count(node, "cacheReadInputTokens", "cacheReadInputTokenCount")
    return Usage(count(node, "inputTokens"), read, short, long, count(node, "outputTokens"))


def _gemini(node: object) -> Usage | None:
    """The prompt includes cached tokens; tool results and thoughts come on top of prompt and answer."""
    prompt = count(node, "prompt_token_count", "promptTokenCount")
    tools = count(node, "tool_use_prompt_token_count", "toolUsePromptTokenCount")
    read = count(node, "cached_content_token_count", "cachedContentTokenCount")
    answer = count(node, "candidates_token_count", "candidatesTokenCount", "response_token_count", "responseTokenCount")
    thoughts = count(node, "thoughts_token_count", "thoughtsTokenCount")
    usage = _inclusive(add_counts(prompt, tools), read, None, None)
    return replace(usage, output=add_counts(answer, thoughts), reasoning=thoughts)


def _llama_cpp(node: object) -> Usage | None:
    """llama.cpp's `timings`: `prompt_n` are the tokens that had to be computed."""
    return Usage(count(node, "prompt_n"), count(node, "cache_n"), output=count(node, "predicted_n"))


def _ollama(node: object) -> Usage | None:
    usage = _inclusive(count(node, "prompt_eval_count"), count(node, "prompt_eval_cached_count"), None, None)
    return replace(usage, output=count(node, "eval_count"))


def _chat(node: object) -> Usage | None:
    """Chat completions (OpenAI, Azure, OpenRouter, DeepSeek, vLLM, SGLang, LiteLLM) and our own engine's `Reply`."""
    total, output = count(node, "prompt_tokens"), count(node, "completion_tokens")
    missed = count(node, "prompt_cache_miss_tokens")
    if total is None and output is None and missed is None:
        return None
    details, tiers = get(node, "prompt_tokens_details"), get(node, "cache_creation")
    read = count(details, "cached_tokens")
    if read is None:
        read = count(node, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    written = count(details, "cache_write_tokens", "cache_creation_tokens")
    if written is None:
        written = count(node, "cache_creation_input_tokens")
    short, long = _writes(written, *_anthropic_tiers(tiers))
    total = add_counts(missed, read) if total is None and missed is not None else total
    reasoning = count(get(node, "completion_tokens_details"), "reasoning_tokens")
    everything = count(node, "total_tokens")
    if None not in (total, output, reasoning) and everything == add_counts(total, output, reasoning):
        output = add_counts(output, reasoning)  # xAI counts reasoning beside the completion
    output = count(node, "output_tokens") if output is None else output
    return _priced(replace(_inclusive(total, read, short, long), output=output, reasoning=reasoning), node)


def _langchain(node: object) -> Usage | None:
    """LangChain's `usage_metadata`: the input includes everything."""
    details, out = get(node, "input_token_details"), get(node, "output_token_details")
    if details is None and out is None:
        return None
    read = add_counts(*(count(details, tier + "cache_read") for tier in _TIERS))
    written = add_counts(*(count(details, tier + "cache_creation") for tier in _TIERS))
    short, long = _anthropic_tiers(details)
    if written and written != add_counts(short, long):  # beside the two ttls it is 0, or (in old versions) their sum
        short = add_counts(short, written)
    short = written if short is None and long is None else short
    usage = _inclusive(count(node, "input_tokens"), read, short, long)
    reasoning = add_counts(*(count(out, tier + "reasoning") for tier in _TIERS))
    return replace(usage, output=count(node, "output_tokens"), reasoning=reasoning)


def _anthropic_tiers(tiers: object) -> tuple[int | None, int | None]:
    return count(tiers, "ephemeral_5m_input_tokens"), count(tiers, "ephemeral_1h_input_tokens")


def _anthropic(node: object) -> Usage | None:
    """Messages. What a compaction took is not in the totals, and stands among the iterations."""
    usage = _anthropic_counts(node)
    compactions = [step for step in items(get(node, "iterations")) if get(step, "type") == "compaction"]
    if usage.cache_read is None and usage.input == usage.fresh and not compactions:
        return None  # not to be told from other shapes without cached tokens
    return sum((_anthropic_counts(step) for step in compactions), usage)


def _anthropic_counts(node: object) -> Usage:
    """The input excludes what was read from or written to the cache."""
    read, written = count(node, "cache_read_input_tokens"), count(node, "cache_creation_input_tokens")
    short, long = _writes(written, *_anthropic_tiers(get(node, "cache_creation")))
    thinking = count(get(node, "output_tokens_details"), "thinking_tokens")
    return Usage(count(node, "input_tokens"), read, short, long, count(node, "output_tokens"), thinking)


def _responses(node: object) -> Usage | None:
    """OpenAI's Responses (inclusive), and whatever else names only input and output."""
    details, out = get(node, "input_tokens_details"), get(node, "output_tokens_details")
    read = count(details, "cached_tokens", "cache_read_input_tokens")
    kept = get(details, "cache_write_tokens_details")
    written = count(details, "cache_write_tokens", "cache_creation_input_tokens")
    short, long = _writes(written, count(kept, "ttl_30m_tokens"), count(kept, "ttl_12h_tokens"))
    usage = _inclusive(count(node, "input_tokens"), read, short, long)
    reasoning = count(out, "reasoning_tokens", "thinking_tokens")
    return _priced(replace(usage, output=count(node, "output_tokens"), reasoning=reasoning), node)


_READERS: tuple[Callable[[object], Usage | None], ...] = (
    _bedrock,
    _gemini,
    _llama_cpp,
    _ollama,
    _chat,
    _langchain,
    _anthropic,
    _responses,
)
