"""`StateMemory`: a chat memory that moves the front of the conversation rarely.

LlamaIndex's buffers drop as little as they can, so a conversation at its limit loses its front with every message, and
nothing behind the head is ever found in a cache again. This memory drops much at once. What it drops is a function of
the messages alone, so a reloaded memory drops the same.

It holds messages only. State and ledger are beside it, in the workflow's context or in a session. It is saved with the
context (`Context.to_dict`), also where pydantic is too new for the chat store of LlamaIndex's buffers (2.14 is).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms.llm import LLM
from llama_index.core.memory import BaseMemory
from pydantic import Field, field_serializer

from llama_index.llms.pkv._messages import as_data, compact_json, to_core
from pkv_agents import Message, estimate_message_tokens, estimate_tokens

_DEFAULT_LIMIT = 60_000
_OF_WINDOW = 0.75


class StateMemory(BaseMemory):
    """A chat memory that keeps the prompt's prefix.

    Args:
        token_limit: What the conversation may have, in estimated tokens, before its front is dropped.
        keep: The part of `token_limit` that is kept then. It begins with a user's message.
        messages: The whole conversation.
    """

    token_limit: int = Field(default=_DEFAULT_LIMIT, gt=0)
    keep: float = Field(default=0.5, gt=0, lt=1)
    messages: list[ChatMessage] = Field(default_factory=list[ChatMessage])

    @field_serializer("messages")
    def _saved(self, messages: list[ChatMessage]) -> list[dict[str, object]]:
        # Pictures and signatures too: a context leaves out a memory that it cannot write, and so the conversation.
        return [as_data(message) for message in messages]

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialised forms."""
        return "StateMemory"

    @classmethod
    def from_defaults(
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        token_limit: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a memory.

        Args:
            chat_history: Messages to begin with.
            llm: Three quarters of its context window are the limit, where no limit is given.
            token_limit: The limit.
            **kwargs: `keep`.
        """
        limit = token_limit or (int(llm.metadata.context_window * _OF_WINDOW) if llm is not None else _DEFAULT_LIMIT)
        return cls(token_limit=limit, messages=list(chat_history or ()), **kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002  # LlamaIndex's name
        """The part of the conversation that is sent."""
        core = to_core(self.messages)
        users = [message.role == MessageRole.USER for message in self.messages]
        start = front([*map(_size, core)], users, limit=self.token_limit, keep=int(self.token_limit * self.keep))
        return self.messages[start:]

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002  # LlamaIndex's
        """The part of the conversation that is sent."""
        return self.get(input, **kwargs)

    def get_all(self) -> list[ChatMessage]:
        """The whole conversation."""
        return list(self.messages)

    async def aget_all(self) -> list[ChatMessage]:
        """The whole conversation."""
        return self.get_all()

    def put(self, message: ChatMessage) -> None:
        """Add a message."""
        self.messages = [*self.messages, message]

    async def aput(self, message: ChatMessage) -> None:
        """Add a message."""
        self.put(message)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages."""
        self.put_messages(messages)

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the conversation."""
        self.messages = list(messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the conversation."""
        self.set(messages)

    def reset(self) -> None:
        """Forget the conversation."""
        self.messages = []

    async def areset(self) -> None:
        """Forget the conversation."""
        self.reset()


def _size(message: Message) -> int:
    """About how many tokens a message has, its calls included."""
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return estimate_message_tokens([message]) + (estimate_tokens(compact_json(calls)) if calls else 0)


def front(sizes: Sequence[int], users: Sequence[bool], *, limit: int, keep: int) -> int:
    """Where the kept part of a conversation begins.

    Read from the front, so that a conversation that grows keeps its earlier cuts until the next one is due.

    Args:
        sizes: The tokens of each message.
        users: Whether it is a user's.
        limit: How many tokens the part may have.
        keep: How many it has at most right after a cut, if the newest turn is not longer.
    """
    before = [0, *accumulate(sizes)]
    start = 0
    for at in range(len(sizes)):
        if before[at + 1] - before[start] <= limit:
            continue
        turns = [place for place in range(start + 1, at + 1) if users[place]]
        fits = (place for place in turns if before[at + 1] - before[place] <= keep)
        start = next(fits, turns[-1] if turns else start)
    return start


__all__ = ["StateMemory", "front"]
