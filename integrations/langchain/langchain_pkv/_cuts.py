"""Where a long history can be cut, and what is sent of it afterwards. Pure: messages in, messages out.

A cut never parts a tool call from its results. It stands before a user's message where that leaves little enough, else
inside the latest turn before one of the model's messages; then the turn's own question stays in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_pkv._messages import to_core
from pkv_agents import estimate_message_tokens

Count = Callable[[Sequence[BaseMessage]], int]
SUMMARY = "Summary of the conversation so far:\n"


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left out of a thread's requests.

    Attributes:
        first: The id of the first message that is sent.
        summary: What stands for those before it; empty where nothing does.
    """

    first: str
    summary: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the graph's channel."""
        return asdict(self)

    @classmethod
    def from_value(cls, value: object) -> Cut | None:
        """The cut in a channel; None where there is none that can be read."""
        if not isinstance(value, Mapping) or set(value) != {"first", "summary"}:  # pyright: ignore[reportUnknownArgumentType]
            return None
        return cls(str(value["first"]), str(value["summary"]))  # pyright: ignore[reportUnknownArgumentType]

    def of(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """What is sent of a thread's messages; all of them where the first one is gone."""
        at = next((index for index, message in enumerate(messages) if message.id == self.first), None)
        if at is None:
            return list(messages)
        front: list[BaseMessage] = [HumanMessage(f"{SUMMARY}{self.summary}")] if self.summary else []
        if isinstance(messages[at], AIMessage):
            front += [message for message in messages[:at] if isinstance(message, HumanMessage)][-1:]
        return [*front, *messages[at:]]


def estimated(messages: Sequence[BaseMessage]) -> int:
    """About how many tokens some messages have, tool calls not counted."""
    return estimate_message_tokens(to_core(messages))


def cut_at(messages: Sequence[BaseMessage], keep: int, count: Count) -> str | None:
    """Where to cut.

    Args:
        messages: The thread's messages.
        keep: So many tokens should be left at most.
        count: Counts the tokens of some messages.

    Returns:
        The id of the first message to keep; None where no cut would leave anything out.
    """
    latest = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    safe = [at for at in _safe(messages) if at > 0]
    before_users = [at for at in safe if isinstance(messages[at], HumanMessage)]
    inside = [at for at in safe if at > latest + 1 and isinstance(messages[at], AIMessage)]
    left = list(accumulate((count([message]) for message in reversed(messages)), initial=0))[::-1]
    for at in (*before_users, *inside):
        if left[at] <= keep:
            return messages[at].id
    rest = inside or before_users
    return messages[rest[-1]].id if rest else None


def _safe(messages: Sequence[BaseMessage]) -> list[int]:
    """Every place behind which no tool result stands without its call, in order."""
    found: list[int] = []
    missing: set[str] = set()
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, ToolMessage):
            missing.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            missing -= {call["id"] or "" for call in (*message.tool_calls, *message.invalid_tool_calls)}
        if not missing:
            found.append(at)
    return found[::-1]
