"""Check what a tool returns before the graph sees it.

A tool runs in the middle of a turn, and its patch may come from a model's mistake: it must not stop the graph, and it
must not be lost silently. So a patch that does not fit is taken out of the tool's command, the tool's message tells the
model, and the application gets a notice. Everything else that the tool returned is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from langchain_pkv._ledger import STATE_CHANNEL
from langchain_pkv._merging import merge, paths_of
from langchain_pkv._messages import compact_json
from langchain_pkv._plain import plain
from pkv_agents import Notice, StateError, TrackedState

ToolResult = ToolMessage | Command[Any]


def checked_result(
    schema: type[TrackedState] | None,
    request: ToolCallRequest,
    result: ToolResult,
    report: Callable[[Notice], None],
) -> ToolResult:
    """The tool's result with patches that fit, as plain data, and without those that do not.

    Args:
        schema: The class of the state, or None when the application owns the state and tools cannot patch it.
        request: The tool call.
        result: What the tool returned. A list of commands and messages is passed on checked, item by item.
        report: Called with a notice for a patch that was refused.
    """
    items = cast("Sequence[ToolResult]", result) if isinstance(result, list) else [result]
    if not any(_has_patch(item, schema) for item in items):
        return result
    text = _state_text(request)
    checked: list[ToolResult] = []
    refused: list[tuple[StateError, str]] = []
    for item in items:
        if not _has_patch(item, schema):
            checked.append(item)
            continue
        command = cast("Command[Any]", item)
        update = cast("dict[str, Any]", command.update)
        try:
            patch = plain(update[STATE_CHANNEL])
            text = _merged(schema, text, patch)
            checked.append(replace(command, update={**update, STATE_CHANNEL: patch}))
        except StateError as error:
            refused.append((error, paths_of(update[STATE_CHANNEL])))
            rest = {key: value for key, value in update.items() if key != STATE_CHANNEL}
            checked.append(replace(command, update=rest))
    for error, paths in refused:
        report(_refused_notice(request, error, paths))
    if refused:
        note = "\n\n".join(f"The state was not changed: {error}" for error, _ in refused)
        checked = [_told(item, request, note) for item in checked]
    return checked[0] if not isinstance(result, list) else cast("ToolResult", checked)


def _has_patch(item: ToolResult, schema: type[TrackedState] | None) -> bool:
    # A hand-off writes to the graph around this one: to the same state, unless this agent's is the application's.
    to_parent = isinstance(item, Command) and item.graph == Command.PARENT and schema is not None
    if not isinstance(item, Command) or not (item.graph is None or to_parent):
        return False
    update = cast("object", item.update)
    return isinstance(update, Mapping) and STATE_CHANNEL in update


def _state_text(request: ToolCallRequest) -> str | None:
    state = cast("object", request.state)
    data = cast("Mapping[str, Any]", state).get(STATE_CHANNEL) if isinstance(state, Mapping) else None
    return compact_json(cast("dict[str, Any]", data)) if isinstance(data, dict) and data else None


def _merged(schema: type[TrackedState] | None, text: str | None, patch: Mapping[str, Any]) -> str:
    if schema is None:
        raise StateError("the state of this agent belongs to the application: a tool changes it there, not by a patch")
    return merge(schema, text, patch)


def _refused_notice(request: ToolCallRequest, error: StateError, paths: str) -> Notice:
    return Notice(
        code="patch_refused",
        path=paths,
        cost="the state is unchanged by this tool call; the model was told so in the tool's message",
        mend=f"mend the patch that the tool {request.tool_call['name']!r} returns",
        message=str(error),
    )


def _told(item: ToolResult, request: ToolCallRequest, note: str) -> ToolResult:
    """Tell the model in the message that answers this call."""
    if isinstance(item, ToolMessage):
        return cast("ToolMessage", _error_message(item, request, note))
    update = cast("dict[str, Any]", item.update)
    messages = update.get("messages")
    if not isinstance(messages, list):
        return item
    told = [_error_message(message, request, note) for message in cast("list[BaseMessage]", messages)]
    return replace(item, update={**update, "messages": told})


def _error_message(message: BaseMessage, request: ToolCallRequest, note: str) -> BaseMessage:
    if not isinstance(message, ToolMessage) or message.tool_call_id != request.tool_call["id"]:
        return message
    if request.tool is not None and request.tool.return_direct:
        # This message goes to the end user, and no model reads it in this turn: its text stays the tool's.
        return message.model_copy(update={"status": "error"})
    content = cast("str | list[str | dict[str, Any]]", message.content)  # pyright: ignore[reportUnknownMemberType]
    added = f"{content}\n\n{note}" if isinstance(content, str) else [*content, {"type": "text", "text": note}]
    return message.model_copy(update={"content": added, "status": "error"})
