"""Looking at what a template renders: probes' messages, and the comparisons that every probe makes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pkv_agents.errors import TemplateError
from pkv_agents.local.rendering import ChatMessage, Render

_WIDTH = 28
"""Characters on each side of what is shown."""


def message(role: str, content: str, **more: object) -> dict[str, object]:
    """A chat message."""
    return {"role": role, "content": content, **more}


SYSTEM, USER, ANSWER = message("system", "head zq"), message("user", "first zq"), message("assistant", "answer zq")
NEXT, LATE, THIRD = message("user", "second zq"), message("system", "late zq"), message("user", "third zq")
SECOND_ANSWER = message("assistant", "more zq")


@dataclass(frozen=True, slots=True)
class Look:
    """A template under the options that the engine will use."""

    render: Render
    options: ChatMessage

    def text(
        self,
        messages: Sequence[ChatMessage],
        *,
        ask: bool = False,
        tools: Sequence[ChatMessage] | None = None,
        at: datetime | None = None,
        options: ChatMessage | None = None,
    ) -> str | None:
        """The rendering; None if the template refuses the messages."""
        try:
            return self.render(messages, ask=ask, tools=tools, at=at, options={**self.options, **(options or {})})
        except TemplateError:
            return None

    def has(self, messages: Sequence[ChatMessage], *wanted: ChatMessage) -> bool:
        """Whether the messages are accepted and the contents of the wanted ones are in the text."""
        text = self.text(messages)
        return text is not None and all(str(one["content"]) in text for one in wanted)

    def fate(self, messages: Sequence[ChatMessage], wanted: ChatMessage) -> str:
        """Why a message did not arrive: what the template raised, or that nothing of it is there."""
        try:
            self.render(messages, options=self.options)
        except TemplateError as error:
            return f"it raises {shown(str(error).rpartition('conversation: ')[2], 0, 4 * _WIDTH)}"
        return f"{shown(str(wanted['content']))} is not in the text"

    def first_break(
        self, messages: Sequence[ChatMessage], *, ask: bool, tools: Sequence[ChatMessage] | None = None
    ) -> str | None:
        """Where a request's text is not how the next one's begins; None if they only append.

        Requests end before an answer, and at the end of the messages.
        """
        ends = [end for end in range(1, len(messages)) if messages[end]["role"] == "assistant"]
        texts = [self.text(messages[:end], ask=ask, tools=tools) for end in [*ends, len(messages)]]
        for old, new in itertools.pairwise(texts):
            if old is None or new is None:
                return "it refuses a plain conversation"
            if not new.startswith(old):
                return difference(old, new)
        return None


def common(old: str, new: str) -> int:
    """How many characters two texts begin with together."""
    size = min(len(old), len(new))
    return next((at for at in range(size) if old[at] != new[at]), size)


def difference(old: str, new: str) -> str:
    """What stood and what stands at the first difference of two texts."""
    at = common(old, new)
    return f"{shown(old, at - _WIDTH, at + _WIDTH)} became {shown(new, at - _WIDTH, at + _WIDTH)}"


def around(text: str, wanted: str) -> str:
    """A text around the first place of a sentinel."""
    at = text.find(wanted)
    return shown(text, at - _WIDTH, at + len(wanted) + _WIDTH)


def shown(text: str, start: int = 0, end: int = 80) -> str:
    """A short piece of text in quotes, with control characters escaped."""
    start = max(start, 0)
    return ("…" if start else "") + repr(text[start:end]) + ("…" if end < len(text) else "")
