"""Models that complete a text instead of answering messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole


def as_prompt(sent: Sequence[ChatMessage]) -> str:
    """The texts of a request, separated by blank lines."""
    return "\n\n".join(message.content or "" for message in sent)


def as_chat(answer: CompletionResponse) -> ChatResponse:
    """A completion as an answer, for the record."""
    message = ChatMessage(role=MessageRole.ASSISTANT, content=answer.text)
    return ChatResponse(message=message, raw=answer.raw, additional_kwargs=cast("Any", answer).additional_kwargs)


def as_question(prompt: str) -> list[ChatMessage]:
    """A prompt as a conversation."""
    return [ChatMessage(role=MessageRole.USER, content=prompt)]
