"""Anchors: places in a history, known by the content before them.

An anchor says how many messages stand before it and what they say. It therefore finds its place again after a save, in
a fork or in another process, and is nowhere once that history is gone. The same "ok" twice is two anchors.

Reading a history is one pass: its messages go through one running hash, which is read off only where somebody asks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from ._deep import MAX_DEPTH, bounded, digest_of_bytes, is_deep
from .errors import MessageError
from .messages import Message, Part

_HASH_LENGTH = 24
"""Hexadecimal digits: 96 bits. A history can only collide with itself, since a ledger belongs to one session."""

_CHUNK = 64
"""Messages that are joined at a time: few enough to stay in the processor's cache."""

# Parts carry markers and ids beside their content, or are markers; those may differ between two sendings.
_NOT_CONTENT = frozenset({"cache_control", "prompt_cache_breakpoint", "id", "index", "annotations"})
_POINTS = frozenset({"cachePoint", "cache_point"})
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=digest_of_bytes).encode


class Anchor(NamedTuple):
    """A place in a history.

    Attributes:
        after: How many messages stand before it.
        hash: What they say.
    """

    after: int
    hash: str


@dataclass(frozen=True, slots=True)
class History:
    """The messages of a request behind its head, read once.

    Attributes:
        messages: The messages.
        anchors: The anchors that were asked for, and those before, behind the first of, and behind all messages.
        characters: How many characters stand before each of these places, frames included.
    """

    messages: Sequence[Message]
    anchors: Mapping[int, Anchor]
    characters: Mapping[int, int]

    @property
    def end(self) -> Anchor:
        """The place behind the last message."""
        return self.anchors[len(self.messages)]

    @property
    def first(self) -> Anchor | None:
        """The place behind the first message, which tells a fork from a rewritten front; None when there is none."""
        return self.anchors[1] if self.messages else None

    def has(self, anchor: Anchor) -> bool:
        """Whether the anchor is a place in this history."""
        return self.anchors.get(anchor.after) == anchor

    def tokens_before(self, after: int) -> int:
        """About how many tokens stand before a place that was asked for."""
        return -(-self.characters[after] // 4)


def read_history(messages: Sequence[Message], places: Iterable[int] = ()) -> History:
    """Read a history.

    Args:
        messages: The messages behind the head.
        places: Where anchors are wanted: numbers of messages before a place; those beyond the end are left out.

    Returns:
        The history.

    Raises:
        MessageError: A message is no `Message`, or holds what is not plain JSON data.
    """
    count = len(messages)
    wanted = sorted({0, min(1, count), count, *(place for place in places if 0 <= place <= count)})
    running = hashlib.sha256(b"pkv-agents history")
    anchors: dict[int, Anchor] = {}
    characters: dict[int, int] = {}
    start = size = 0
    for place in wanted:
        while start < place:
            stop = min(place, start + _CHUNK)
            text = "".join(_frames(messages[start:stop]))
            running.update(text.encode("utf-8", "surrogatepass"))
            start, size = stop, size + len(text)
        anchors[place] = Anchor(place, running.hexdigest()[:_HASH_LENGTH])
        characters[place] = size
    return History(messages, anchors, characters)


def digest(message: Message) -> str:
    """Name one message by its content alone.

    Args:
        message: The message.

    Returns:
        Hexadecimal digits.
    """
    text = "".join(_frames([message]))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]


def _frames(messages: Sequence[Message]) -> list[str]:
    """Each message as text that cannot be continued into another message: its length stands before its content."""
    try:
        return [
            f"{message.role}{len(content)}:{content}"
            if (content := message.content).__class__ is str and not message.tool_calls
            else _frame(message)
            for message in messages
        ]
    except AttributeError:
        untyped = cast("Sequence[object]", messages)
        stranger = next((message for message in untyped if not isinstance(message, Message)), None)
        raise MessageError(
            f"messages holds a {type(stranger).__name__}; planning takes pkv_agents.Message "
            "(for LangChain's messages: langchain_pkv.to_core(messages))"
        ) from None


def _frame(message: Message) -> str:
    """Content without markers and ids; one plain text part is the same as its text."""
    try:
        try:
            return _framed(message)
        except RecursionError:
            return _framed(_shallow(message))
    except (TypeError, ValueError) as error:
        raise MessageError(f"a {message.role} message holds something that is not plain JSON data: {error}") from None


def _framed(message: Message) -> str:
    content = _parts(message.content)
    calls = [[call.name, dict(call.arguments)] for call in message.tool_calls]
    if isinstance(content, str) and not calls:
        return f"{message.role}{len(content)}:{content}"
    data = _canonical([content, calls])
    # Most data has fewer brackets than it may have levels, and need not be walked.
    if data.count("[") + data.count("{") > MAX_DEPTH and any(map(is_deep, _data_of(message))):
        return _framed(_shallow(message))
    return f"{message.role}/{len(data)}:{data}"


def _data_of(message: Message) -> list[object]:
    parts = () if isinstance(message.content, str) else message.content
    return [*parts, *(call.arguments for call in message.tool_calls)]


def _shallow(message: Message) -> Message:
    """The message as `wire` sends it, with text in place of what is nested too deeply."""
    content = message.content
    return replace(
        message,
        content=content if isinstance(content, str) else tuple(bounded(part) for part in content),
        tool_calls=tuple(replace(call, arguments=bounded(call.arguments)) for call in message.tool_calls),
    )


def _parts(content: str | tuple[Part, ...]) -> str | list[dict[str, object]]:
    if isinstance(content, str):
        return content
    parts = [_content(part) for part in content if not _POINTS & part.keys()]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def _content(part: Part) -> dict[str, object]:
    """A part without markers; a tool result holds parts of its own."""
    kept = {name: value for name, value in part.items() if name not in _NOT_CONTENT}
    inner = kept.get("content")
    if isinstance(inner, list):
        items = cast("list[object]", inner)
        kept["content"] = [_content(cast(Part, item)) if isinstance(item, Mapping) else item for item in items]
    return kept


ROOT = read_history(()).end
"""The place before the first message."""
