"""Cache markers on content blocks: which blocks can carry one, which do, and how each provider spells it.

Three shapes are known: a key of the block itself (`cache_control`, `prompt_cache_breakpoint`), and a block of its own
behind it (Bedrock's `cachePoint`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from .messages import Message, Part
from .profiles import MarkerShape, Ttl

_KEYS = ("cache_control", "prompt_cache_breakpoint")
_POINT = "cachePoint"
# Providers refuse a marker on these.
_UNMARKABLE = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoning_content"}
    | {"tool_addition", "tool_removal", "additional_tools"}  # nothing says that they take one
)


def is_point(part: Part) -> bool:
    """Whether a part is no content but a marker of its own."""
    return _POINT in part


def is_markable(part: Part) -> bool:
    """Whether a provider takes a marker on this block: not on empty text, an empty tool result, or a thought."""
    if part.get("type") in _UNMARKABLE or "reasoningContent" in part or is_point(part):
        return False
    content = part.get("text", part.get("content", True))
    return bool(content.strip()) if isinstance(content, str) else bool(content)


def markers(message: Message) -> dict[int, Ttl]:
    """The markers that a message carries.

    Args:
        message: Any message.

    Returns:
        For each marked part its index and the lifetime that is asked for. A marker with nothing before it is at -1.
    """
    found: dict[int, Ttl] = {}
    if isinstance(message.content, str):
        return found
    last = -1
    for index, part in enumerate(message.content):
        if is_point(part):
            found[last] = _ttl(part[_POINT])
            continue
        last = index
        if (value := _own_marker(part)) is not None:
            found[index] = _ttl(value)
    return found


def with_markers(message: Message, wanted: Mapping[int, Ttl], shape: MarkerShape | None) -> Message:
    """A message with exactly these markers.

    Args:
        message: Any message; it is not changed.
        wanted: The lifetime for the index of each part that is to be marked (0 where the content is plain text).
        shape: How the provider spells a marker; None: no markers at all.

    Returns:
        The message itself where nothing differs, else a copy. Other markers are gone, of whatever shape; a marker that
        is already as wanted stays as it was written.
    """
    content = message.content
    if isinstance(content, str):
        if not wanted or shape is None:
            return message
        return replace(message, content=tuple(_marked({"type": "text", "text": content}, wanted[0], shape)))
    if not wanted and not markers(message):
        return message
    parts: list[Part] = []
    for index, part in enumerate(content):
        if is_point(part):
            continue
        if index not in wanted or shape is None:
            parts.append(_bare(part))
        elif shape in part and _ttl(part[shape]) == wanted[index]:
            parts.append({**_bare(part), shape: part[shape]})
        else:
            parts += _marked(_bare(part), wanted[index], shape)
    return message if parts == list(content) else replace(message, content=tuple(parts))


def _marked(part: Part, ttl: Ttl, shape: MarkerShape) -> Sequence[Part]:
    """A part in a marker's company. The default lifetime is not spelled out: older endpoints do not know the field."""
    asked = {} if ttl == "5m" else {"ttl": ttl}
    if shape == "cache_point":
        return [part, {_POINT: {"type": "default", **asked}}]
    if shape == "cache_control":
        return [{**part, shape: {"type": "ephemeral", **asked}}]
    return [{**part, shape: {"mode": "explicit"}}]


def _own_marker(part: Part) -> object | None:
    """The marker on a part, or on something inside it (a tool result has content of its own)."""
    for key in _KEYS:
        if part.get(key) is not None:
            return part[key]
    inner = part.get("content")
    if isinstance(inner, (list, tuple)):
        for piece in cast("Sequence[Any]", inner):
            if isinstance(piece, Mapping) and (found := _own_marker(cast(Part, piece))) is not None:
                return found
    return None


def _bare(part: Part) -> Part:
    """A part without markers, also not inside it; the same object when there are none."""
    if not any(key in part for key in _KEYS) and _own_marker(part) is None:
        return part
    bare = {name: value for name, value in part.items() if name not in _KEYS}
    inner = bare.get("content")
    if isinstance(inner, (list, tuple)):
        pieces = cast("Sequence[Any]", inner)
        bare["content"] = [_bare(cast(Part, piece)) if isinstance(piece, Mapping) else piece for piece in pieces]
    return bare


def _ttl(marker: object) -> Ttl:
    asked = cast("Mapping[str, object]", marker).get("ttl") if isinstance(marker, Mapping) else None
    return "1h" if asked == "1h" else "5m"
