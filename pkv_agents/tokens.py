"""Token counts: an estimate that says that it is one."""

from __future__ import annotations

from collections.abc import Iterable

from .messages import Message


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: one for each four characters, rounded up."""
    return -(-len(text) // 4)


def estimate_message_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens some messages have, with four more for each message's frame."""
    return sum(estimate_tokens(message.text) + 4 for message in messages)
