"""Slots: where in a conversation a block may stand, and in which form."""

from __future__ import annotations

from collections.abc import Sequence

from .ledger import Carrier
from .messages import Message
from .profiles import Profile


def calls_pending(messages: Sequence[Message], after: int) -> bool:
    """Whether tool calls made before position `after` still lack results there.

    Args:
        messages: The conversation.
        after: How many messages precede the position.

    Returns:
        True between a call and the last of its results.
    """
    at = after
    while at > 0 and messages[at - 1].role == "tool":
        at -= 1
    if at == 0 or not messages[at - 1].tool_calls:
        return False
    calls, results = messages[at - 1].tool_calls, messages[at:after]
    ids = [call.id for call in calls]
    if all(ids) and len(set(ids)) == len(ids):
        return not set(ids) <= {result.tool_call_id for result in results}
    return len(results) < len(calls)


def orphans(messages: Sequence[Message]) -> tuple[int, ...]:
    """The tool results whose calls are not in the conversation, which providers refuse.

    Args:
        messages: The conversation, perhaps trimmed by somebody who did not look for pairs.

    Returns:
        Their indexes.
    """
    found: list[int] = []
    calls: set[str] = set()
    for at, message in enumerate(messages):
        if message.role != "tool":
            calls = {call.id for call in message.tool_calls}
        elif _is_without(message, calls):
            found.append(at)
    return tuple(found)


def is_orphan(messages: Sequence[Message], at: int) -> bool:
    """Whether a message is a tool result without its call."""
    if messages[at].role != "tool":
        return False
    before = at - 1
    while before >= 0 and messages[before].role == "tool":
        before -= 1
    return _is_without(messages[at], {call.id for call in messages[before].tool_calls} if before >= 0 else set())


def _is_without(result: Message, calls: set[str]) -> bool:
    """Whether a result answers none of the calls before it."""
    name = result.tool_call_id or ""
    return not calls or ("" not in calls and name != "" and name not in calls)


def is_legal(profile: Profile, messages: Sequence[Message], after: int, carrier: Carrier) -> bool:
    """Whether a block may stand after the first `after` messages in this form.

    Never first, and never between a tool call and its results. A `user_suffix` needs a user message or a tool result to
    ride on, perhaps with system messages of the application behind it; a `system` message needs a provider that takes
    one there.
    """
    place = after
    while carrier == "user_suffix" and place > 0 and messages[place - 1].role == "system":
        place -= 1
    if place == 0 or calls_pending(messages, place) or is_orphan(messages, place - 1):
        return False
    before = messages[place - 1].role
    if carrier == "user_suffix":
        return before != "assistant"
    if profile.carrier != "system":
        return False
    if profile.system_slot == "anywhere":
        return True
    return before in ("user", "tool") and (after == len(messages) or messages[after].role == "assistant")


def choose_carrier(
    profile: Profile, messages: Sequence[Message], after: int, sent_as: Carrier | None = None
) -> Carrier | None:
    """The form for a block at a position.

    Args:
        profile: The provider.
        messages: The conversation.
        after: How many messages precede the block.
        sent_as: For a replayed block, the form in which it was sent: kept wherever the provider allows it.

    Returns:
        The first legal form, or None when there is none (a new block then waits).
    """
    wanted: tuple[Carrier, ...] = (sent_as,) if sent_as is not None else ()
    for carrier in (*wanted, profile.carrier, "user_suffix"):
        if is_legal(profile, messages, after, carrier):
            return carrier
    return None
