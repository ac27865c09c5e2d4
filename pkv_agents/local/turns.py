"""From neutral messages to the plain turns that a chat template is given. Pure functions, no tokenizer.

What a template cannot carry gets a carrier that it can: tool documentation goes into the system text, a tool call is
its canonical JSON as the assistant's text, a tool result becomes a user turn, a late system message is appended to the
newest user or tool turn. Which of these is needed is the verdict of a probe, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pkv_agents.errors import GrammarError, MessageError
from pkv_agents.local.verdict import TemplateVerdict
from pkv_agents.messages import Message, ToolCall

TOOLS_HEADER = '# Tools\nAnswer with one JSON object: {"name": tool, "arguments": {...}}'


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as the template sees it."""

    role: str
    content: str


def canonical_call(call: ToolCall) -> str:
    """The compact JSON of a call, as the grammar emits it: `{"name":"x","arguments":{...}}`."""
    try:
        return json.dumps(
            {"name": call.name, "arguments": dict(call.arguments)},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
    except (TypeError, ValueError) as error:
        raise MessageError(f"arguments of the call to {call.name!r} are no JSON data: {error}") from error


def assistant_text(message: Message) -> str:
    """The text of an assistant message with its calls, one line each."""
    text = plain_text(message)
    return "\n".join([*([text] if text else []), *map(canonical_call, message.tool_calls)])


def plain_text(message: Message) -> str:
    """The text of a message; content that is no text is refused."""
    if not isinstance(message.content, str):
        for part in message.content:
            if part.get("type") != "text":
                raise MessageError(f"a {message.role} message has a part of type {part.get('type')!r}; only text")
    return message.text


def function_of(tool: Mapping[str, object]) -> Mapping[str, object]:
    """The function record of an OpenAI tool, nested or flat."""
    inner = tool.get("function", tool)
    if not isinstance(inner, Mapping) or not isinstance(cast("Mapping[str, object]", inner).get("name"), str):
        raise GrammarError('a tool is {"type": "function", "function": {"name": ..., "parameters": {...}}}')
    return cast("Mapping[str, object]", inner)


def tools_block(tools: Sequence[Mapping[str, object]]) -> str:
    """Lists tools for the head: one line each, required arguments plain, optional ones with `?`."""
    return "\n".join([TOOLS_HEADER, *map(_tool_line, tools)])


def _tool_line(tool: Mapping[str, object]) -> str:
    function = function_of(tool)
    parameters = _mapping(function.get("parameters"))
    required = set(cast("Iterable[str]", parameters.get("required") or ()))
    names = [name if name in required else f"{name}?" for name in _mapping(parameters.get("properties"))]
    summary = str(function.get("description") or "").strip().partition("\n")[0].strip()
    return f"- {function['name']}({', '.join(names)})" + (f": {summary}" if summary else "")


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def to_turns(
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, object]],
    verdict: TemplateVerdict,
    clean: Callable[[str], str],
) -> tuple[Turn, ...]:
    """Maps messages to turns that this template carries in full.

    Args:
        messages: The conversation.
        tools: OpenAI tool records; listed first in the system text.
        verdict: What the template can do.
        clean: Neutralises control strings in content; applied to every text before texts are joined.
    """
    count = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    heads = [clean(tools_block(tools))] if tools else []
    heads += [text for m in messages[:count] if (text := clean(plain_text(m)))]
    turns: list[Turn] = []
    if heads or verdict.system_required:
        turns.append(Turn("system" if verdict.leading_system else "user", "\n\n".join(heads)))
    for index, message in enumerate(messages[count:], count):
        if message.role == "assistant":
            _append(turns, Turn("assistant", clean(assistant_text(message))), join=not verdict.adjacent_users)
        elif message.role == "system" and _has_slot(verdict, messages, index):
            turns.append(Turn("system", clean(plain_text(message))))
        elif message.role == "system":
            _append(turns, Turn("user", clean(plain_text(message))), join=True, into=("user", "tool"))
        else:
            role = "tool" if message.role == "tool" and verdict.tool_role else "user"
            first_user = not verdict.leading_system and len(turns) == 1 and bool(heads)
            _append(turns, Turn(role, clean(plain_text(message))), join=first_user or not verdict.adjacent_users)
    return tuple(turns)


def _has_slot(verdict: TemplateVerdict, messages: Sequence[Message], index: int) -> bool:
    """Whether the template takes a system turn in the place of this message."""
    if verdict.late_system != "kept" or verdict.system_slot == "anywhere":
        return verdict.late_system == "kept"
    answered = index + 1 == len(messages) or messages[index + 1].role == "assistant"
    return answered and messages[index - 1].role in ("user", "tool")


def _append(turns: list[Turn], turn: Turn, *, join: bool, into: tuple[str, ...] = ()) -> None:
    """Adds a turn, or its text to the last turn if they may not stand side by side."""
    if join and turns and turns[-1].role in (into or (turn.role,)):
        turns[-1] = Turn(turns[-1].role, f"{turns[-1].content}\n\n{turn.content}")
    else:
        turns.append(turn)
