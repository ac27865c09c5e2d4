"""The neutral form of a conversation: what adapters translate from and to.

A `Message` holds only what a model can see. Ids of messages and provider metadata are deliberately absent: they
change between runs and must never decide what a prefix is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
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

    Raises:
        MessageError: The arguments are no mapping with text as keys, or name or id are no text.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str = ""

    def __post_init__(self) -> None:
        """Refuse what no provider sends where the call is made, not where it is planned."""
        for name in ("name", "id"):
            if not isinstance(getattr(self, name), str):
                raise MessageError(f"{name} of a tool call is a {type(getattr(self, name)).__name__}; pass a str")
        if not isinstance(self.arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise MessageError(
                f"arguments of a tool call are a {type(self.arguments).__name__}; pass the parsed JSON object "
                "(of text that does not parse: {'unparsed': text})"
            )
        for key in self.arguments:
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
                raise MessageError(f"arguments of a tool call have a key of type {type(key).__name__}; use str keys")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        content: Text, or content parts as plain JSON data (`{"type": "text", "text": ...}`, images, ...), where bytes
            may stand, too.
        tool_calls: The calls of an assistant message.
        tool_call_id: On a tool message, the call that it answers.

    Raises:
        MessageError: The role is unknown, or a field is of another type.
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
        if isinstance(self.content, tuple):
            for part in self.content:
                if not isinstance(part, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
                    raise MessageError(
                        f"a part of a {self.role} message is a {type(part).__name__}; pass mappings, "
                        'for instance {"type": "text", "text": "hi"}'
                    )
        if not isinstance(self.tool_calls, tuple) or not all(isinstance(call, ToolCall) for call in self.tool_calls):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise MessageError(f"tool_calls of a {self.role} message: pass a tuple of ToolCall")
        if not isinstance(self.tool_call_id, (str, NoneType)):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise MessageError(f"tool_call_id is a {type(self.tool_call_id).__name__}; pass a str")

    @property
    def text(self) -> str:
        """The text of the message; parts that are not text are left out."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")
