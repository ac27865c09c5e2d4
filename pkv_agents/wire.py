"""The wire form: the exact messages of a request, in the neutral form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple, cast

from ._deep import MAX_DEPTH, json_name, json_text
from .errors import SessionError
from .escape import neutralise, neutralise_joined
from .messages import Message, Part, ToolCall
from .tools import sorted_arguments
from .turnplan import Insertion, TurnPlan

# The model's own thoughts go back as they came: the provider checks their signature, and only the model wrote them.
# In any other message nobody signed them.
_SIGNED = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})


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
    return tuple(sent.message for sent in marked_wire(plan, messages))


class Placed(NamedTuple):
    """One message of the wire form, and the errata that it carries."""

    message: Message
    errata: tuple[Insertion, ...] = ()


def marked_wire(plan: TurnPlan, messages: Sequence[Message]) -> list[Placed]:
    """The wire form as `wire` gives it, with what stands in each message."""
    if plan.count != len(messages):
        raise SessionError("these are not the messages that the plan was made for; plan and wire the same list")
    out = [Placed(Message("system", plan.system))]
    at, tidy, dropped = plan.leading, plan.profile.sorts_arguments, frozenset(plan.dropped)
    for after, group in groupby(plan.insertions, key=lambda insertion: insertion.after):
        out += [Placed(_neutral(message, tidy)) for message in _kept(messages, at, after, dropped)]
        at = after
        system: list[Insertion] = []
        for insertion in group:
            # Behind a system turn nothing can ride on the message before it: the newest word would stand first.
            if insertion.carrier == "system" or system:
                system.append(insertion)
            else:
                _ride(out, insertion)
        if system:  # one turn, however many errata stand here: providers refuse two system turns in a row
            text = "\n\n".join(insertion.text for insertion in system)
            out.append(Placed(Message("system", text), tuple(system)))
    out += [Placed(_neutral(message, tidy)) for message in _kept(messages, at, len(messages), dropped)]
    return out


def _ride(out: list[Placed], insertion: Insertion) -> None:
    """Put a block into the last message that can carry it: none of the application's own system messages."""
    at = len(out) - 1
    while at > 1 and out[at].message.role == "system" and not out[at].errata:
        at -= 1
    message, errata = out[at]
    out[at] = Placed(append_text(message, insertion.text), (*errata, insertion))


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


def _kept(messages: Sequence[Message], start: int, stop: int, dropped: frozenset[int]) -> Sequence[Message]:
    if not dropped:
        return messages[start:stop]
    return [messages[at] for at in range(start, stop) if at not in dropped]


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
    is_own = message.role == "assistant"
    content = neutralise(content) if isinstance(content, str) else _neutral_parts(content, is_own)
    calls = tuple(_neutral_call(call, sorts) for call in message.tool_calls)
    answers = message.tool_call_id and neutralise(message.tool_call_id)
    if content == message.content and answers == message.tool_call_id and not calls:
        return message
    return replace(message, content=content, tool_calls=calls, tool_call_id=answers)


def _neutral_parts(parts: Sequence[Part], is_own: bool) -> tuple[Part, ...]:
    """Every text of every part: documents, search results and refusals are read as well as text is."""
    made = [part if is_own and part.get("type") in _SIGNED else cast(Part, _neutral_data(part)) for part in parts]
    at = [index for index, part in enumerate(made) if part.get("type") == "text" and isinstance(part.get("text"), str)]
    texts = [cast(str, made[index]["text"]) for index in at]
    for index, old, new in zip(at, texts, neutralise_joined(texts), strict=True):
        if new != old:
            made[index] = {**made[index], "text": new}
    return tuple(made)


def _neutral_call(call: ToolCall, sorts: bool) -> ToolCall:
    """Its name and id, too: a model, or whoever wrote its answer down, may put any text there."""
    arguments = cast("Mapping[str, object]", _neutral_data(call.arguments))
    return ToolCall(neutralise(call.name), sorted_arguments(arguments) if sorts else arguments, neutralise(call.id))


def _neutral_data(data: Any, room: int = MAX_DEPTH) -> Any:
    """Plain data with each text neutralised, names and addresses included; what is nested too deeply becomes text.

    An address with a look-alike in it leads nowhere anyway: `<`, `[` and white space are not allowed there.
    """
    if isinstance(data, str):
        return neutralise(data)
    if not isinstance(data, (Mapping, list, tuple)):
        return data
    if not room:
        return neutralise(json_text(cast(object, data)))
    if isinstance(data, Mapping):
        items = cast("Mapping[object, Any]", data).items()
        return {neutralise(json_name(name)): _neutral_data(value, room - 1) for name, value in items}
    return [_neutral_data(value, room - 1) for value in cast("list[Any]", data)]
