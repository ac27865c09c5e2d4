"""Probes for what a template writes by itself: the time, marks of thinking; and for how it treats white space."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pkv_agents.local.findings import Finding, finding
from pkv_agents.local.looking import ANSWER, SYSTEM, USER, Look, around, difference, message, shown
from pkv_agents.local.rendering import ChatMessage
from pkv_agents.local.verdict import Clock

_START = datetime(2021, 3, 9, 4, 5, 6)
_STEPS: tuple[tuple[Clock, timedelta], ...] = (
    ("second", timedelta(seconds=1)),
    ("minute", timedelta(minutes=1)),
    ("hour", timedelta(hours=1)),
    ("day", timedelta(days=1)),
    ("month", timedelta(days=28)),  # the same weekday and another month
    ("year", timedelta(days=365)),
)
_SWITCHES = ("enable_thinking", "thinking")
_TOOL: ChatMessage = {
    "type": "function",
    "function": {"name": "clock_zq", "description": "", "parameters": {"type": "object", "properties": {}}},
}


def clock_of(look: Look, head: Sequence[ChatMessage], variables: frozenset[str], found: list[Finding]) -> Clock:
    """The finest unit of time that reaches the prompt, by rendering at two times; one finding if there is any."""
    if "strftime_now" not in variables:
        return ""
    settable = sorted(name for name in variables if any(word in name.lower() for word in ("date", "time", "today")))
    settable = [name for name in settable if name != "strftime_now" and name not in look.options]
    for unit, step in _STEPS:
        if moved := _moved(look, head, step):
            fixed = [name for name in settable if not _moved(look, head, step, {name: "9 March"})]
            hint = f"; fixed by the option {fixed[0]}" if fixed else ""
            found.append(finding("clock", f"with the next {unit}, {moved}{hint}"))
            return unit
    return ""


def _moved(look: Look, head: Sequence[ChatMessage], step: timedelta, options: ChatMessage | None = None) -> str | None:
    for messages in (head, [USER], [SYSTEM, USER]):  # some write the date only where there is no system turn
        for tools in (None, [_TOOL]):
            old = look.text(messages, tools=tools, at=_START, options=options)
            new = look.text(messages, tools=tools, at=_START + step, options=options)
            if old is not None and new is not None and old != new:
                return difference(old, new)
    return None


def thinking_switch(look: Look, head: Sequence[ChatMessage], variables: frozenset[str], found: list[Finding]) -> None:
    """Whether a switch for thinking changes the request."""
    for name in _SWITCHES:
        if name in variables:
            on, off = (look.text(head, ask=True, options={name: value}) for value in (True, False))
            if on is not None and off is not None and on != off:
                found.append(finding("thinking_switch", f"{name}: {difference(on, off)}"))


def trimmed(look: Look, head: Sequence[ChatMessage], found: list[Finding]) -> None:
    """Whether white space at the ends of contents is lost."""
    padded = "\n  padded zq \n"
    *before, _ = head
    places = {
        "user": [*before, message("user", padded)],
        "assistant": [*head, message("assistant", padded)],
    }
    if before:
        places["system"] = [message("system", padded), USER, ANSWER]
    texts = {role: look.text(messages) for role, messages in places.items()}
    roles = [role for role, text in texts.items() if text is not None and padded not in text and "padded zq" in text]
    if roles:
        found.append(
            finding(
                "contents_trimmed",
                f"{shown(padded)} from {', '.join(roles)}: {around(texts[roles[0]] or '', 'padded zq')}",
            )
        )
