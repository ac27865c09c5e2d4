"""LangChain messages to the core's neutral form, and a turn plan's errata onto LangChain messages.

The user's messages are never changed: a message that must differ on the wire (an erratum merged into it, a look-alike
in it made harmless) is a copy, all others are the very same objects. What differs is decided by `pkv_agents.wire`
alone, so this file holds no policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from pkv_agents import Message, MessageError, Part, ToolCall, TurnPlan, neutralise, wire

_UNPARSED = "unparsed"
_CHAT_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "system": "system"}


def to_core(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """Convert LangChain messages to the core's messages: content, tool calls and results; no ids, no metadata.

    Args:
        messages: LangChain messages, the head's system message not among them.

    Returns:
        One core message for each.

    Raises:
        MessageError: For a message whose role the core has no word for.
    """
    return tuple(_to_core_one(message) for message in messages)


def _to_core_one(message: BaseMessage) -> Message:
    content = _content_to_core(message)
    if isinstance(message, AIMessage):
        return Message("assistant", content, tool_calls=_tool_calls(message))
    if isinstance(message, ToolMessage):
        return Message("tool", content, tool_call_id=message.tool_call_id)
    if isinstance(message, FunctionMessage):
        return Message("tool", content, tool_call_id=message.name)
    if isinstance(message, HumanMessage):
        return Message("user", content)
    if isinstance(message, SystemMessage):
        return Message("system", content)
    role = _CHAT_ROLES.get(message.role) if isinstance(message, ChatMessage) else None
    if role == "user" or role == "assistant" or role == "system":
        return Message(role, content)
    raise MessageError(
        f"a {type(message).__name__} has no place in a conversation with state: "
        "use HumanMessage, AIMessage, ToolMessage or SystemMessage"
    )


def _content_to_core(message: BaseMessage) -> str | tuple[Mapping[str, object], ...]:
    content = _content(message)
    if isinstance(content, str):
        return content
    return tuple({"type": "text", "text": part} if isinstance(part, str) else part for part in content)


def _content(message: BaseMessage) -> str | list[str | dict[str, Any]]:
    return cast("str | list[str | dict[str, Any]]", message.content)  # pyright: ignore[reportUnknownMemberType]


def _tool_calls(message: AIMessage) -> tuple[ToolCall, ...]:
    """Valid calls first, as they are sent; then the invalid ones, which also wait for a result."""
    valid = [ToolCall(call["name"], call["args"], call["id"] or "") for call in message.tool_calls]
    invalid = [
        ToolCall(call["name"] or "unknown", {_UNPARSED: call["args"] or ""}, call["id"] or "")
        for call in message.invalid_tool_calls
    ]
    return (*valid, *invalid)


def place(
    plan: TurnPlan,
    messages: Sequence[BaseMessage],
    core: Sequence[Message],
    beside: Mapping[int, Sequence[Part]] | None = None,
) -> list[BaseMessage]:
    """The messages to send after the head: errata in their places and carriers, look-alikes made harmless.

    Args:
        plan: The plan of this turn, made for `core`.
        messages: The LangChain messages that `core` was converted from; left as they are.
        core: `to_core(messages)`.
        beside: See `placed`.

    Returns:
        A new list, without the leading system messages, which are in the head. Messages that go out unchanged are the
        same objects.
    """
    return [sent for _, sent in placed(plan, messages, core, beside)]


def placed(
    plan: TurnPlan,
    messages: Sequence[BaseMessage],
    core: Sequence[Message],
    beside: Mapping[int, Sequence[Part]] | None = None,
) -> list[tuple[BaseMessage | None, BaseMessage]]:
    """The same, each message beside the one that was given; None beside an erratum.

    Args:
        plan: See `place`.
        messages: See `place`.
        core: See `place`.
        beside: Blocks that go into a system message of errata behind its text, by how many messages precede it.
    """
    sent = iter(wire(plan, core)[1:])
    # All errata of one place that travel as system messages are one system message.
    slots = {insertion.after for insertion in plan.insertions if insertion.carrier == "system"}
    pairs: list[tuple[BaseMessage | None, BaseMessage]] = []
    for index in range(plan.leading, len(messages)):
        if index not in plan.dropped:
            pairs.append((messages[index], _as_sent(messages[index], core[index], next(sent))))
        if index + 1 in slots:
            more = [dict(part) for part in (beside or {}).get(index + 1, ())]
            text = next(sent).text
            pairs.append((None, SystemMessage(content=[{"type": "text", "text": text}, *more] if more else text)))
    assert next(sent, None) is None, "an erratum stands where no message is"
    return pairs


def _as_sent(message: BaseMessage, core: Message, sent: Message) -> BaseMessage:
    """The message itself, or a copy with what must differ."""
    update: dict[str, Any] = {}
    if message.name and neutralise(message.name) != message.name:
        update["name"] = neutralise(message.name)
    if sent == core and not sent.tool_calls:
        return message.model_copy(update=update) if update else message
    if sent.content != core.content:
        update["content"] = sent.content if isinstance(sent.content, str) else [dict(part) for part in sent.content]
    if isinstance(message, AIMessage) and not _same_calls(sent, core):
        valid = sent.tool_calls[: len(message.tool_calls)]
        invalid = sent.tool_calls[len(message.tool_calls) :]
        update["tool_calls"] = [
            {**call, **_named(call, new), "args": dict(new.arguments)}
            for call, new in zip(message.tool_calls, valid, strict=True)
        ]
        update["invalid_tool_calls"] = [
            {**call, **_named(call, new), "args": new.arguments[_UNPARSED]}
            for call, new in zip(message.invalid_tool_calls, invalid, strict=True)
        ]
    if isinstance(message, ToolMessage) and sent.tool_call_id != core.tool_call_id:
        update["tool_call_id"] = sent.tool_call_id
    return message.model_copy(update=update)


def _named(call: Mapping[str, Any], new: ToolCall) -> dict[str, Any]:
    """The name and id of a call as they go out; what the model left out stays out."""
    return {key: value for key, value in (("name", new.name), ("id", new.id)) if call.get(key)}


def _same_calls(one: Message, two: Message) -> bool:
    """Whether two messages have the same calls, to the order of their arguments' keys."""
    try:
        return one.tool_calls == two.tool_calls and all(
            _in_order(new.arguments) == _in_order(old.arguments)
            for new, old in zip(one.tool_calls, two.tool_calls, strict=True)
        )
    except RecursionError:  # too deep to be compared, and so to be sent as it is
        return False


def _in_order(data: object) -> object:
    """Data in which equal means: with the keys in the same order, too."""
    if isinstance(data, Mapping):
        items = cast("Mapping[str, object]", data).items()
        return [[name, _in_order(value)] for name, value in items]
    if isinstance(data, (list, tuple)):
        return [_in_order(value) for value in cast("Sequence[object]", data)]
    return data


def head(plan: TurnPlan, own: Sequence[SystemMessage], before: str = "") -> SystemMessage:
    """The system message of the request: the plan's text.

    Args:
        plan: The plan of this turn.
        own: The application's system messages, whose text the plan's text holds. The blocks of a single one stay
            blocks, since they may carry cache markers; ours are blocks before and after them.
        before: The instructions that stand before them in the plan's text.
    """
    if len(own) != 1:
        return SystemMessage(content=plan.system)
    content = _content(own[0])
    text = head_text(own)
    at = len(join_instructions(before, text)) - len(text)
    if isinstance(content, str) or not plan.system.startswith(text, at):
        return own[0].model_copy(update={"content": plan.system})
    after = plan.system[at + len(text) :].lstrip("\n")
    ours = [[{"type": "text", "text": part}] if part else [] for part in (before, after)]
    return own[0].model_copy(update={"content": [*ours[0], *content, *ours[1]]})


def head_text(own: Sequence[SystemMessage]) -> str:
    """The text of the application's system messages."""
    return join_instructions(*(message.text for message in to_core(own)))


def join_instructions(*texts: str) -> str:
    """The instructions that stand before the baseline, separated by blank lines."""
    return "\n\n".join(text for text in texts if text)


def compact_json(value: object) -> str:
    """JSON without white space, keys in their own order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
