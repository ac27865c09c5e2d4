"""R29: a stream tells the same usage as a whole answer, for each provider's package that lets it through."""

from __future__ import annotations

from typing import Any

import pytest

from llama_index.llms.pkv import StatefulLLM
from tests.llama_index.more_providers import anthropic_llm
from tests.llama_index.providers import like_llm, openai_llm
from tests.llama_index.support import STREAMED, a_session, user
from tests.llama_index.test_wire import make

CACHED = [("openai", 90), ("like", 90), ("anthropic", 90), ("bedrock", 90), ("genai", 90), ("ollama", None)]


def streaming(kind: str, patch: pytest.MonkeyPatch) -> Any:
    makers: dict[str, Any] = {
        "openai": lambda: openai_llm(script=["two words"], **STREAMED),
        "like": lambda: like_llm(script=["two words"], **STREAMED),
        "anthropic": lambda: anthropic_llm(patch, script=["two words"], whole_usage=True),
    }
    return makers[kind]()[0] if kind in makers else make(kind, patch, ["two words"])[0]


@pytest.mark.parametrize(("kind", "cached"), CACHED)
def test_r29_a_stream(kind: str, cached: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session()
    last = list(StatefulLLM(streaming(kind, monkeypatch), session).stream_chat([user("a")]))[-1]
    assert last.message.content == "two words"
    assert (session.usage.input, session.usage.cache_read, session.usage.output) == (100, cached, 5)


@pytest.mark.parametrize(("kind", "cached"), [row for row in CACHED if row[0] != "bedrock"])  # another library's client
async def test_r29_an_asynchronous_stream(kind: str, cached: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session()
    stream = await StatefulLLM(streaming(kind, monkeypatch), session).astream_chat([user("a")])
    last = [piece async for piece in stream][-1]
    assert last.message.content == "two words"
    assert (session.usage.input, session.usage.cache_read, session.usage.output) == (100, cached, 5)
