"""`StateMemory`: a chat memory that moves the front of the conversation rarely.

LlamaIndex's buffers drop as little as they can, so a conversation at its limit loses its front with every message, and
nothing behind the head is ever found in a cache again. This memory drops much at once. What it drops is a function of
the messages alone, so a reloaded memory drops the same.

It holds messages only. State and ledger are beside it, in the workflow's context or in a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms.llm import LLM
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from pydantic import Field

from llama_index.llms.pkv._messages import to_core
from pkv_agents import estimate_message_tokens

_DEFAULT_LIMIT = 60_000
_OF_WINDOW = 0.75


class StateMemory(BaseChatStoreMemory):
    """A chat memory that keeps the prompt's prefix.

    Args:
        token_limit: What the conversation may have, in estimated tokens, before its front is dropped.
        keep: The part of `token_limit` that is kept then. It begins with a user's message.
        chat_store: Where the messages are.
        chat_store_key: The conversation's key there.
    """

    token_limit: int = Field(default=_DEFAULT_LIMIT, gt=0)
    keep: float = Field(default=0.5, gt=0, lt=1)

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialised forms."""
        return "StateMemory"

    @classmethod
    def from_defaults(
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        chat_store: BaseChatStore | None = None,
        chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
        token_limit: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a memory.

        Args:
            chat_history: Messages to begin with.
            llm: Three quarters of its context window are the limit, where no limit is given.
            chat_store: Where the messages are.
            chat_store_key: The conversation's key there.
            token_limit: The limit.
            **kwargs: `keep`.
        """
        limit = token_limit or (int(llm.metadata.context_window * _OF_WINDOW) if llm is not None else _DEFAULT_LIMIT)
        memory = cls(
            token_limit=limit, chat_store=chat_store or SimpleChatStore(), chat_store_key=chat_store_key, **kwargs
        )
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002  # LlamaIndex's name
        """The part of the conversation that is sent."""
        return self._kept(self.get_all())

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002  # LlamaIndex's
        """The part of the conversation that is sent."""
        return self._kept(await self.aget_all())

    def _kept(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        sizes = [estimate_message_tokens([message]) for message in to_core(messages)]
        users = [message.role == MessageRole.USER for message in messages]
        return messages[front(sizes, users, limit=self.token_limit, keep=int(self.token_limit * self.keep)) :]


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
