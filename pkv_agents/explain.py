"""A plan in words."""

from __future__ import annotations

from collections.abc import Sequence

from .messages import Message
from .tokens import estimate_tokens
from .turnplan import TurnPlan
from .wire import wire

MAX_LINES = 8


def explain(plan: TurnPlan) -> str:
    """Say what is in the head, which errata are replayed and new and why, and what broke the prefix.

    Args:
        plan: The plan.

    Returns:
        A few lines of text. Values that a model may see may appear; Hidden ones are not in a plan.
    """
    epoch = plan.epoch
    replayed = [insertion for insertion in plan.insertions if not insertion.is_new]
    lines = [
        f"Head: about {estimate_tokens(plan.system):,} tokens; "
        f"baseline of {len(epoch.baseline)} fields, epoch {epoch.number} (began: {epoch.reason})."
    ]
    if plan.rebased is not None:
        lines.append(f"A new epoch begins with this request: {plan.rebased}.")
    if replayed:
        tokens = sum(estimate_tokens(insertion.text) for insertion in replayed)
        places = ", ".join(str(insertion.after) for insertion in replayed[-MAX_LINES:])
        lines.append(f"Replayed as sent: {len(replayed)} errata, about {tokens:,} tokens (after messages {places}).")
    if plan.erratum is not None:
        where = f"after message {plan.insertions[-1].after} as {plan.erratum.carrier}"
        lines.append(f"New: one erratum {where}, about {plan.appended_tokens} tokens, which says:")
    elif plan.changes:
        lines.append("Not told in this request, because there is no legal place for an erratum:")
    else:
        lines.append("Nothing new to tell.")
    for change in plan.changes[:MAX_LINES]:
        again = " (critical, said again)" if change.path in plan.restated else ""
        lines.append(f"  {change.path}: {'removed' if change.kind == 'remove' else change.text}{again}")
    if len(plan.changes) > MAX_LINES:
        lines.append(f"  ... and {len(plan.changes) - MAX_LINES} more")
    lines.append("What broke the prefix:" if plan.notices else "The prefix of the last request is kept.")
    lines += [f"  {notice}" for notice in plan.notices]
    return "\n".join(lines)


def transcript(plan: TurnPlan, messages: Sequence[Message]) -> str:
    """The exact wire form, for reading, with errata marked.

    Args:
        plan: The plan of the request.
        messages: The messages that it was made for.

    Returns:
        One paragraph a message, headed by its role; a marker before each one that carries an erratum.
    """
    blocks = {insertion.text: insertion.is_new for insertion in plan.insertions}
    lines: list[str] = []
    for message in wire(plan, messages):
        marks = [
            "new erratum" if is_new else "replayed erratum" for text, is_new in blocks.items() if text in message.text
        ]
        title = ", ".join([message.role, *marks])
        calls = [f"-> {call.name}({dict(call.arguments)})" for call in message.tool_calls]
        body = message.content if isinstance(message.content, str) else message.text
        lines.append("\n".join(part for part in (f"[{title}]", body, *calls) if part))
    return "\n\n".join(lines)
