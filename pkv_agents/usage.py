"""Usage: any provider's account of a call, in disjoint buckets.

    normalise_usage(response)         # a dict, an SDK's object, a framework's message; never raises
    merge_stream_usage(chunks)        # the same for a stream, where usage comes in parts or several times

Providers disagree on whether input tokens include cached ones. Here they never do: `fresh`, `cache_read` and the two
`cache_write` buckets add up to the input. None means "not reported", which is not 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import cast

from ._usage_record import Usage, UsageStatus
from ._usage_shapes import get, is_part, items, opened, read_shape

__all__ = ["Usage", "UsageStatus", "merge_stream_usage", "normalise_usage"]

_INSIDE = (
    "usage_metadata",
    "usageMetadata",
    "usage",
    "token_usage",
    "message",
    "raw",
    "response_metadata",
    "llm_output",
    "response",
    "metadata",
    "meta_info",
    "timings",
    "additional_kwargs",
)
"""Where responses, chunks, messages and events keep their usage; the first in which it is found counts."""

_PLAIN = (str, int, float)
_MAX_NODES = 32


def normalise_usage(reported: object) -> Usage:
    """Read any provider's usage.

    Args:
        reported: A dict or an object of OpenAI (chat or Responses) and what speaks its protocol (Azure, DeepSeek,
            OpenRouter, vLLM, SGLang, llama.cpp), Anthropic, Bedrock, Gemini, Ollama; LangChain's message, chunk,
            result, `usage_metadata` or usage by model; LlamaIndex's response; a local `Reply`; a whole response that
            has one of these inside; a `Usage`, or its fields as a dict.

    Returns:
        Disjoint buckets; the same again for what is normalised already. What is no whole number of 0 or more, and a
        breakdown that contradicts its total, counts as not reported. Unknown shapes give an empty Usage.
    """
    return _find(reported)[0]


def merge_stream_usage(chunks: Iterable[object], *, so_far: Usage | None = None) -> Usage:
    """Read the usage of a stream.

    Providers report all so far, in the first chunk, the last, or each. LangChain's chunks are parts to be added, but
    for some that restate the whole. Neither is counted twice.

    Args:
        chunks: The stream's chunks or events, in order.
        so_far: What came of earlier chunks, to read a stream one chunk at a time.

    Returns:
        The usage of the whole call; empty where no chunk reports any.
    """
    merged = so_far if so_far is not None else Usage()
    for chunk in chunks:
        told, part = _find(chunk)
        if told.status == "not reported":
            continue
        # A part has its input only once, and never tells less output than the parts before it did together.
        restated = bool(merged.input and told.input) or bool(merged.output and (told.output or 0) >= merged.output)
        merged = merged + told if part and not (restated and told.input) else _restated(merged, told)
    return merged


def _restated(old: Usage, new: Usage) -> Usage:
    """Replace what was told by a later report of all so far; fields that it leaves out, or as 0, stay."""
    same = new.input == old.input or (new.cache_read is None and new.fresh == old.fresh)
    if not new.input or (same and _detail(old) >= _detail(new)):
        bucketed = old if old.input is not None else new
    else:
        bucketed = new
    return replace(
        bucketed,
        output=new.output or (old.output if old.output is not None else new.output),
        reasoning=new.reasoning or (old.reasoning if old.reasoning is not None else new.reasoning),
        reported_cost=new.reported_cost or old.reported_cost,
    )


def _detail(usage: Usage) -> int:
    """How many input buckets are known."""
    buckets = (usage.fresh, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h)
    return sum(bucket is not None for bucket in buckets)


def _find(value: object, *, results: bool = True) -> tuple[Usage, bool]:
    """The usage in a value, and whether it is a part to be added. `results`: whether it may hold LangChain results.

    Where the first that is found tells nothing of a cache, another of the same input that does is taken: LlamaIndex and
    llama.cpp report twice, once with less.
    """
    best: tuple[Usage, bool] | None = None
    for usage, part in _candidates(value, results):
        if best is None:
            best = usage, part
        elif usage.cache_read is not None and usage.input == best[0].input:
            output = usage.output if usage.output is not None else best[0].output
            best = replace(usage, output=output, reported_cost=best[0].reported_cost or usage.reported_cost), best[1]
        if best[0].cache_read is not None:
            break
    return best or (Usage(), False)


def _candidates(value: object, results: bool) -> Iterator[tuple[Usage, bool]]:
    """Each usage in a value, nearest first. Bounded: a mock has every attribute, and values may hold themselves."""
    queue: deque[object] = deque([value])
    for _ in range(_MAX_NODES):
        if not queue:
            return
        node = opened(queue.popleft())
        if type(node) is Usage:  # not isinstance, here and below: that asks the object, which may raise
            yield node, False
        elif (usage := read_shape(node)) is not None:
            yield usage, is_part(node)
        else:
            if results and (total := _several(node)).status != "not reported":
                yield total, False
            inside = (get(node, name) for name in _INSIDE)
            queue.extend(inner for inner in inside if inner is not None and not issubclass(type(inner), _PLAIN))


def _several(node: object) -> Usage:
    """The usage of a LangChain result (its first alternative for each prompt), or of a dict of usage by model."""
    found: list[Usage] = []
    if generations := items(get(node, "generations")):
        prompts = [items(prompt)[:1] for prompt in generations]
        heads = [head for prompt in prompts for head in prompt] if any(prompts) else generations[:1]
        found = [_find(head, results=False)[0] for head in heads]
    else:
        with suppress(Exception):  # a mapping of somebody's may raise anything
            if isinstance(node, Mapping) and not any(name in node for name in _INSIDE):
                entries = list(cast("Mapping[object, object]", node).values())
                if all(isinstance(entry, Mapping) for entry in entries):
                    found = [usage for entry in entries if (usage := read_shape(entry)) is not None]
    return sum(found, Usage())
