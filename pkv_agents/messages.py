"""The neutral form of a conversation: what adapters translate from and to.

A `Message` holds only what a model can see. Ids of messages and provider metadata are deliberately absent: they
change between runs and must never decide what a prefix is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from .errors import MessageError

Role = Literal["system", "user", "assistant", "tool"]
Part = Mapping[str, object]

_ROLES: frozenset[str] = frozenset(get_args(Role))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that an assistant message asks for.

    Attributes:
        name: The tool.
        arguments: Plain JSON data.
        id: The provider's id of the call; it pairs the call with its result and is not part of any anchor.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        content: Text, or content parts as plain JSON data (`{"type": "text", "text": ...}`, images, ...).
        tool_calls: The calls of an assistant message.
        tool_call_id: On a tool message, the call that it answers.
    """

    role: Role
    content: str | tuple[Part, ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown role where the message is made, not where it is sent."""
        if self.role not in _ROLES:
            raise MessageError(f"role {self.role!r} is unknown; use one of {', '.join(sorted(_ROLES))}")
        if not isinstance(self.content, (str, tuple)):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise MessageError(
                f"content of a {self.role} message is a {type(self.content).__name__}; pass a str or a tuple of parts"
            )

    @property
    def text(self) -> str:
        """The text of the message; parts that are not text are left out."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")
