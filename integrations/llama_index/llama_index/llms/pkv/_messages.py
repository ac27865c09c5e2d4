"""LlamaIndex messages to the core's neutral form, and a turn plan's errata onto LlamaIndex messages.

The user's messages are never changed: every message that is sent is a copy, since LlamaIndex's provider classes write
into what they are given. What differs on the wire is decided by `pkv_agents.wire` alone, so this file holds no policy.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, cast

from llama_index.core.base.llms.types import CachePoint, ChatMessage, MessageRole, TextBlock, ToolCallBlock
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from pkv_agents import Message, MessageError, Part, Role, ToolCall, TurnPlan, wire

_UNPARSED = "unparsed"
_ROLES: Mapping[MessageRole, Role] = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}


def to_core(messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """Convert LlamaIndex messages to the core's messages: content, tool calls and results; no ids, no cache points.

    Args:
        messages: LlamaIndex messages.

    Returns:
        One core message for each.

    Raises:
        MessageError: For what is no message, or a message whose role the core has no word for.
    """
    return tuple(_to_core_one(message) for message in messages)


def _to_core_one(message: ChatMessage) -> Message:
    if not isinstance(message, ChatMessage):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise MessageError(f"messages: a ChatMessage is needed, not a {type(message).__name__}")
    role = _ROLES.get(message.role)
    if role is None:
        raise MessageError(f"a message with the role {message.role.value!r} has no place in a conversation with state")
    parts = tuple(part for _, part in _parts(message))
    content = str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts or ""
    if role == "assistant":
        return Message(role, content, tool_calls=tuple(call for _, call in _calls(message)))
    if role == "tool":
        kwargs = message.additional_kwargs
        return Message(role, content, tool_call_id=kwargs.get("tool_call_id") or kwargs.get("name"))
    return Message(role, content)


def _parts(message: ChatMessage) -> list[tuple[int, Part]]:
    """The content blocks as parts, each with its place among the blocks. Cache points and calls are no content."""
    return [
        (at, _part(block))
        for at, block in enumerate(message.blocks)
        if not isinstance(block, CachePoint | ToolCallBlock)
    ]


def part_places(message: ChatMessage) -> list[int]:
    """For each part of the core's message, the place of its block."""
    return [at for at, _ in _parts(message)]


def _part(block: Any) -> Part:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    data = as_data(block, sparse=True)
    return {"type": str(data.pop("block_type", type(block).__name__)), **data}


def as_data(model: BaseModel, *, sparse: bool = False) -> dict[str, object]:
    """A message or a block as plain JSON data, from which its class makes it again.

    Bytes that are no text (signatures of Google's package, a file that was opened) become base64. What is no data at
    all becomes the name of its type.

    Args:
        model: The message or block.
        sparse: Without what is None.
    """
    try:
        return model.model_dump(mode="json", exclude_none=sparse)
    except ValueError:
        data = _with_text(model.model_dump(exclude_none=sparse))
        return to_jsonable_python(data, fallback=lambda value: type(value).__name__)


def _with_text(value: object) -> object:
    """The same data without bytes."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _with_text(item) for name, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_with_text(item) for item in cast("Sequence[object]", value)]
    return value


def _calls(message: ChatMessage) -> list[tuple[int | None, ToolCall]]:
    """The tool calls, each with its place among the blocks; None for those of histories from before there were blocks.

    Where there are blocks, providers read those and not the copies that OpenAI's class keeps beside them.
    """
    blocks = [(at, block) for at, block in enumerate(message.blocks) if isinstance(block, ToolCallBlock)]
    if blocks:
        return [
            (at, ToolCall(block.tool_name, arguments(block.tool_kwargs), block.tool_call_id or ""))
            for at, block in blocks
        ]
    kept = cast("Sequence[object]", message.additional_kwargs.get("tool_calls") or ())
    if not kept and (one := message.additional_kwargs.get("function_call")) is not None:
        return [(None, _older_call(one))]  # from before calls had ids: a message with the role `function` answers it
    return [(None, _older_call(call)) for call in kept]


def _older_call(call: object) -> ToolCall:
    """A call as OpenAI's class keeps it (`function` with `arguments`), or Anthropic's (`name`, `input`)."""
    function = _get(call, "function") or call
    given = _get(function, "arguments", "input")
    return ToolCall(str(_get(function, "name") or ""), arguments(given), str(_get(call, "id") or ""))


def _get(value: object, *names: str) -> Any:
    data = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None
    found = (data.get(name) if data is not None else getattr(cast(Any, value), name, None) for name in names)
    return next((one for one in found if one is not None), None)


def arguments(given: object) -> Mapping[str, object]:
    """A call's arguments, which providers also give as JSON text; text that is no JSON object is kept as it is."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, object]", given)
    try:
        read = json.loads(str(given or "{}"))
    except ValueError:
        read = None
    return cast("Mapping[str, object]", read) if isinstance(read, dict) else {_UNPARSED: str(given)}


def render(plan: TurnPlan, messages: Sequence[ChatMessage], core: Sequence[Message]) -> list[ChatMessage]:
    """The messages to send: head first, errata in their places and carriers, look-alikes made harmless.

    Args:
        plan: The plan of this request, made for `core`.
        messages: The LlamaIndex messages that `core` was converted from; left as they are.
        core: `to_core(messages)`.

    Returns:
        New messages, which share no block and no `additional_kwargs` with those given.
    """
    sent = iter(wire(plan, core))
    rendered = [_head(next(sent), messages[: plan.leading])]
    # All errata of one place that travel as system messages are one system message.
    slots = {insertion.after for insertion in plan.insertions if insertion.carrier == "system"}
    for at in range(plan.leading, len(messages)):
        if at not in plan.dropped:
            rendered.append(_as_sent(messages[at], core[at], next(sent)))
        if at + 1 in slots:
            rendered.append(ChatMessage(role=MessageRole.SYSTEM, content=next(sent).text))
    assert next(sent, None) is None, "an erratum stands where no message is"
    return rendered


def _head(sent: Message, own: Sequence[ChatMessage]) -> ChatMessage:
    """The request's one system message; a cache point at the end of the application's stays at the end."""
    last = own[-1] if own else ChatMessage(role=MessageRole.SYSTEM)
    points = [_block_copy(block) for message in own for block in message.blocks if isinstance(block, CachePoint)]
    blocks = [TextBlock(text=sent.text), *points[-1:]]
    return _copied(last, cast("list[Any]", blocks), {})


def _as_sent(message: ChatMessage, core: Message, sent: Message) -> ChatMessage:
    """A copy of the message, with what must differ."""
    blocks: list[Any] = [_block_copy(block) for block in message.blocks]
    update: dict[str, Any] = {}
    if sent.content != core.content:
        _put_parts(blocks, part_places(message), _as_parts(core), _as_parts(sent))
    if [compact_json(call.arguments) for call in sent.tool_calls] != [
        compact_json(call.arguments) for call in core.tool_calls
    ]:
        calls = _calls(message)
        if not message.additional_kwargs.get("tool_calls") and calls[0][0] is None:
            (call,) = sent.tool_calls
            update["function_call"] = {"name": call.name, "arguments": _like("", call)}
        elif calls[0][0] is None:  # an old history: as blocks, which every provider class reads
            blocks += [
                ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=dict(call.arguments))
                for call in sent.tool_calls
            ]
        else:
            for (at, _), call in zip(calls, sent.tool_calls, strict=True):
                block = blocks[cast("int", at)]
                blocks[cast("int", at)] = block.model_copy(update={"tool_kwargs": _like(block.tool_kwargs, call)})
        update["tool_calls"] = None
    return _copied(message, blocks, update)


def _like(given: object, call: ToolCall) -> object:
    """A call's arguments in the form in which they were given."""
    if not isinstance(given, str):
        return dict(call.arguments)
    return str(call.arguments[_UNPARSED]) if set(call.arguments) == {_UNPARSED} else compact_json(call.arguments)


def _as_parts(message: Message) -> Sequence[Part]:
    if isinstance(message.content, str):
        return ({"type": "text", "text": message.content},) if message.content else ()
    return message.content


def _put_parts(blocks: list[Any], at: Sequence[int], old: Sequence[Part], new: Sequence[Part]) -> None:
    """Write changed parts into the blocks that they came from; what was appended goes before cache points at the end.

    So a marker behind a message also covers the erratum that rides on it.
    """
    old = old or [{"type": "text", "text": ""} for _ in at]  # one empty text is no part, but it is a block
    for place, before, after in zip(at, old, new, strict=False):
        if after != before:
            blocks[place] = _block(blocks[place], after)
    end = len(blocks)
    while end > 0 and isinstance(blocks[end - 1], CachePoint):
        end -= 1
    # OpenAI's class joins the texts of a tool message without anything between them.
    glue = "\n\n" if any(isinstance(block, TextBlock) and block.text for block in blocks) else ""
    blocks[end:end] = [TextBlock(text=f"{glue}{part['text']}") for part in new[len(at) :]]


def _block(block: Any, part: Part) -> Any:
    if isinstance(block, TextBlock):
        return block.model_copy(update={"text": part["text"]})
    data = {name: value for name, value in part.items() if name != "type"}
    return cast("Any", type(block)).model_validate(data)


def _block_copy(block: Any) -> Any:
    """A copy that a provider's class may write into; Bedrock's writes inside of cache points."""
    return block.model_copy(deep=isinstance(block, CachePoint))


def _copied(message: ChatMessage, blocks: list[Any], update: Mapping[str, Any]) -> ChatMessage:
    kwargs = {**message.additional_kwargs, **update}
    kept = {name: value for name, value in kwargs.items() if value is not None or name not in update}
    return message.model_copy(update={"blocks": blocks, "additional_kwargs": kept})


def compact_json(value: object) -> str:
    """JSON without white space, keys in their own order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=dict)
