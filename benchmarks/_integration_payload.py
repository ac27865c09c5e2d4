"""A provider's payload as its prefix cache sees it: everything but markers, in the order in which it is read."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import Any, cast

from benchmarks._placements import Encoder
from pkv_agents import CacheRequest

MARKERS = ("cache_control", "prompt_cache_breakpoint", "cachePoint")
_MESSAGES = ("messages", "input", "contents")
_TOOLS = ("tools", "toolConfig")
_SYSTEM = ("system", "systemInstruction", "instructions")
# They say how a request is cached or answered, and are no part of what is read.
_BESIDE = ("prompt_cache_key", "prompt_cache_options", "stream", *MARKERS)


def bare(data: Any) -> Any:
    """A payload as a prefix cache sees it: without markers, and a lone block of text as that text."""
    if isinstance(data, list):
        items = [bare(item) for item in cast("list[Any]", data) if not _is_point(item)]
        lone = cast("dict[str, Any]", items[0]) if len(items) == 1 and isinstance(items[0], dict) else {}
        return lone["text"] if set(lone) == {"type", "text"} else items
    if isinstance(data, dict):
        return {key: bare(value) for key, value in cast("dict[str, Any]", data).items() if key not in MARKERS}
    return data


def marked(data: Any, path: str = "") -> dict[str, Any]:
    """Every marker of a payload with its place."""
    found: dict[str, Any] = {}
    if isinstance(data, list):
        for index, item in enumerate(cast("list[Any]", data)):
            found |= marked(item, f"{path}[{index}]")
    if isinstance(data, dict):
        for key, value in cast("dict[str, Any]", data).items():
            found |= {path: value} if key in MARKERS else marked(value, f"{path}.{key}".lstrip("."))
    return found


def wire_prefix(body: dict[str, Any]) -> list[str]:
    """A payload as a sequence: first all that is no message (tools, system, options), then each message one item."""
    head = {key: bare(value) for key, value in sorted(body.items()) if key not in (*_MESSAGES, *_BESIDE)}
    return [_json(head), *(_json(bare(message)) for message in _messages(body))]


def breaks(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether a payload does not begin with all of an earlier one."""
    first, second = wire_prefix(earlier), wire_prefix(later)
    return second[: len(first)] != first


def cache_request_of(body: dict[str, Any], encode: Encoder, at: float) -> CacheRequest:
    """A payload for the simulated cache: each tool, each part of a message is a block, markers where they stand.

    Args:
        body: The payload.
        encode: The tokenizer.
        at: When it is sent, in seconds.
    """
    tokens: list[Hashable] = []
    ends: list[int] = []
    marks: dict[int, int | None] = {}
    for text, marker in _blocks(body):
        if text is not None:
            tokens.extend(encode(text))
            ends.append(len(tokens))
        if marker is not None and ends:
            asked = cast("dict[str, Any]", marker).get("ttl") if isinstance(marker, dict) else None
            marks[ends[-1]] = 3600 if asked == "1h" else None
    if "cache_control" in body:  # the provider marks the end by itself
        marks.setdefault(ends[-1], None)
    ttls = {end: ttl for end, ttl in marks.items() if ttl is not None}
    return CacheRequest(tokens, tuple(dict.fromkeys(ends)), tuple(sorted(marks)), at, ttls)


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Each block's text with its marker; a marker that stands by itself has no text."""
    for name in (*_TOOLS, *_SYSTEM):
        found: Any = body.get(name, [])
        if name == "toolConfig":
            found = found.get("tools", []) if found else []  # Bedrock's; Gemini's says only how they are called
        yield from map(_block, cast("list[Any]", found) if isinstance(found, list) else [found])
    for message in _messages(body):
        content: Any = message.get("content", message.get("parts"))
        rest = {key: bare(value) for key, value in message.items() if key not in ("content", "parts")}
        parts = cast("list[Any]", content if isinstance(content, list) and content else [content])
        for index, part in enumerate(parts):
            text, marker = _block(part)
            yield (f"{_json(rest)}{text}" if index == 0 else text), marker


def _block(part: Any) -> tuple[str | None, Any]:
    found = next(iter(marked(part).values()), None)
    if _is_point(part):
        return None, found
    inner = bare(part)
    if isinstance(inner, dict) and isinstance(text := cast("dict[str, Any]", inner).get("text"), str):
        return text, found
    return (inner if isinstance(inner, str) else _json(cast("object", inner))), found


def _is_point(item: object) -> bool:
    return isinstance(item, dict) and "cachePoint" in item


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    found = [body[name] for name in _MESSAGES if name in body]
    return found[0] if found else []


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False)
