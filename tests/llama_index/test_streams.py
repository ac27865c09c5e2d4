"""Streams that are no generators, and streams that are given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from llama_index.core.llms import ChatResponse, CompletionResponse, MockLLM

from llama_index.llms.pkv import StatefulLLM
from tests.llama_index.support import a_session, ask, assistant, user


class BareAsync:
    """An asynchronous iterator of one chunk, without `aclose`."""

    def __init__(self) -> None:
        self.left = [ChatResponse(message=assistant("x"))]

    def __aiter__(self) -> AsyncIterator[ChatResponse]:
        return self

    async def __anext__(self) -> ChatResponse:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


class Bare(MockLLM):
    """Returns bare iterators, which LlamaIndex itself reads without complaint."""

    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return iter([ChatResponse(message=assistant("x"))])

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return BareAsync()


@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
async def test_a_bare_iterator_is_read_and_recorded(way: str) -> None:
    session = a_session()
    answer = await ask(StatefulLLM(Bare(max_tokens=None), session), way, [user("a")])
    assert answer.message.content == "x"
    assert session.report().total_turns == 1


def test_a_completion_that_is_given_up_is_closed_and_not_recorded() -> None:
    ends: list[str] = []
    held: list[Any] = []

    class Long(MockLLM):
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            def pieces() -> Any:
                try:
                    yield CompletionResponse(text="one")
                    yield CompletionResponse(text="one two")
                finally:
                    ends.append("closed")

            held.append(pieces())  # so that nothing but an explicit close ends it
            return held[0]

    session = a_session()
    stream = StatefulLLM(Long(max_tokens=None), session).stream_complete("a")
    next(stream)
    stream.close()
    assert ends == ["closed"]
    assert session.report().total_turns == 0
