"""Breakpoints: where a request should carry cache markers, for providers that cache only what is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .messages import Message
from .profiles import Profile

_MARKS = ("cache_control", "prompt_cache_breakpoint")
# Providers refuse a marker on these.
_UNMARKABLE = frozenset({"thinking", "redacted_thinking", "reasoning"})


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A place for a marker: the end of one content block.

    Attributes:
        message: The index of the message in the request.
        part: The index of its content part; 0 where the content is plain text.
        why: What it is for.
    """

    message: int
    part: int
    why: str


def plan_breakpoints(messages: Sequence[Message], profile: Profile) -> tuple[Breakpoint, ...]:
    """Choose where a request's markers stand.

    The newest message is marked, so that the next request can read up to there; the message that was the newest one in
    the last request, so that this one finds that marker exactly, however many blocks were added since (a lookup reaches
    only `lookback_blocks` back); and the system message, which outlives an edited history and is shared by sessions.
    Markers that the application has set count against the provider's limit and stay; ours leave out what they cover.

    Args:
        messages: The wire form, system message first; it is not changed.
        profile: What the provider allows.

    Returns:
        At most as many as the provider still takes, in the order of the request; none where caching is automatic.
    """
    own = [(index, part) for index, message in enumerate(messages) for part in _marked(message)]
    free = (profile.max_breakpoints or 0) - len(own)
    chosen: dict[tuple[int, int], str] = {}
    for index, why in _wanted(messages, profile):
        place = _last_markable(messages[index])
        if place is not None and len(chosen) < free and (index, place) not in own:
            chosen.setdefault((index, place), why)
    return tuple(Breakpoint(index, part, chosen[index, part]) for index, part in sorted(chosen))


def _wanted(messages: Sequence[Message], profile: Profile) -> list[tuple[int, str]]:
    """The messages to mark, most important first."""
    wanted: list[tuple[int, str]] = []
    if messages and not profile.implicit_breakpoint:
        wanted.append((len(messages) - 1, "newest"))
    answers = [index for index, message in enumerate(messages) if message.role == "assistant"]
    if answers and answers[-1] > 0:
        wanted.append((answers[-1] - 1, "previous"))
    if messages and messages[0].role == "system":
        wanted.append((0, "head"))
    return wanted


def _marked(message: Message) -> list[int]:
    if isinstance(message.content, str):
        return []
    return [index for index, part in enumerate(message.content) if any(mark in part for mark in _MARKS)]


def _last_markable(message: Message) -> int | None:
    """The last block of a message that may carry a marker; None when there is none."""
    if isinstance(message.content, str):
        return 0 if message.content else None
    for index in range(len(message.content) - 1, -1, -1):
        part = message.content[index]
        if part.get("type") not in _UNMARKABLE and part.get("text", True):
            return index
    return None


__all__ = ["Breakpoint", "plan_breakpoints"]
