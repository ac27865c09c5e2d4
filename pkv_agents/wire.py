"""The wire form: the exact messages of a request, in the neutral form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, cast

from .errors import SessionError
from .escape import neutralise, neutralise_joined
from .messages import Message, Part, ToolCall
from .tools import sorted_arguments
from .turnplan import TurnPlan

# The model's own thoughts go back as they came: the provider checks their signature, and only the model wrote them.
_SIGNED = frozenset({"thinking", "redacted_thinking", "reasoning"})


def wire(plan: TurnPlan, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Render a request.

    The system message comes first. Look-alikes of our blocks in what users, tools and the model wrote are neutralised.
    Each erratum stands at its place in its form.

    Args:
        plan: The plan of this request.
        messages: The messages that it was made for.

    Returns:
        New messages; those given are not changed.

    Raises:
        SessionError: The messages are not those of the plan.
    """
    if plan.count != len(messages):
        raise SessionError("these are not the messages that the plan was made for; plan and wire the same list")
    out = [Message("system", plan.system)]
    at, tidy = plan.leading, plan.profile.sorts_arguments
    for after, group in groupby(plan.insertions, key=lambda insertion: insertion.after):
        out += [_neutral(message, tidy) for message in _kept(plan, messages, at, after)]
        at = after
        system: list[str] = []
        for insertion in group:
            # Behind a system turn nothing can ride on the message before it: the newest word would stand first.
            if insertion.carrier == "system" or system:
                system.append(insertion.text)
            else:
                out[-1] = append_text(out[-1], insertion.text)
        if system:  # one turn, however many errata stand here: providers refuse two system turns in a row
            out.append(Message("system", "\n\n".join(system)))
    out += [_neutral(message, tidy) for message in _kept(plan, messages, at, len(messages))]
    return tuple(out)


def wire_new(plan: TurnPlan, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Render what follows the model's last answer, for a provider whose server holds everything before it.

    Args:
        plan: The plan of this request, for a profile with `holds_history`.
        messages: The whole conversation that it was made for.

    Returns:
        The messages behind the last answer, with the new erratum; all of them, head first, when there is no answer.
    """
    answers = sum(message.role == "assistant" for message in messages)
    sent = wire(plan, messages)
    if not answers:
        return sent
    last = max(at for at, message in enumerate(sent) if message.role == "assistant")
    return sent[last + 1 :]


def _kept(plan: TurnPlan, messages: Sequence[Message], start: int, stop: int) -> Sequence[Message]:
    if not plan.dropped:
        return messages[start:stop]
    return [messages[at] for at in range(start, stop) if at not in plan.dropped]


def append_text(message: Message, block: str) -> Message:
    """A copy of a message with a block below its text.

    Args:
        message: A user or tool-result message.
        block: What to append, after a blank line.

    Returns:
        The copy. Parts stay as they are; a last text part is extended, else a text part is added.
    """
    content = message.content
    if isinstance(content, str):
        return replace(message, content=f"{content}\n\n{block}" if content else block)
    *others, last = content or ({},)
    if last.get("type") == "text" and last.get("text"):
        return replace(message, content=(*others, {**last, "text": f"{last['text']}\n\n{block}"}))
    return replace(message, content=(*content, {"type": "text", "text": block}))


def _neutral(message: Message, sorts: bool) -> Message:
    """A message whose text cannot pass for one of our blocks, and whose calls do not depend on a store's key order.

    The same object when nothing had to be changed.
    """
    if message.role == "system":
        return message
    content = message.content
    content = neutralise(content) if isinstance(content, str) else _neutral_parts(content)
    calls = tuple(_neutral_call(call, sorts) for call in message.tool_calls)
    if content == message.content and calls == message.tool_calls and not calls:
        return message
    return replace(message, content=content, tool_calls=calls)


def _neutral_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Every text of every part: documents, search results and refusals are read as well as text is."""
    made = [part if part.get("type") in _SIGNED else cast(Part, _neutral_data(part, keep="url")) for part in parts]
    at = [index for index, part in enumerate(made) if part.get("type") == "text" and isinstance(part.get("text"), str)]
    texts = [cast(str, made[index]["text"]) for index in at]
    for index, old, new in zip(at, texts, neutralise_joined(texts), strict=True):
        if new != old:
            made[index] = {**made[index], "text": new}
    return tuple(made)


def _neutral_call(call: ToolCall, sorts: bool) -> ToolCall:
    arguments = cast("Mapping[str, object]", _neutral_data(call.arguments))
    return replace(call, arguments=sorted_arguments(arguments) if sorts else arguments)


def _neutral_data(data: Any, keep: str = "") -> Any:
    """Plain data with each text neutralised, but for the texts under the name `keep`."""
    if isinstance(data, str):
        return neutralise(data)
    if isinstance(data, Mapping):
        items = cast("Mapping[str, Any]", data).items()
        return {neutralise(name): value if name == keep else _neutral_data(value, keep) for name, value in items}
    if isinstance(data, (list, tuple)):
        return [_neutral_data(value, keep) for value in cast("list[Any]", data)]
    return data
