"""Cache points: where ours stand in the payloads of the packages that take them, and where none is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.base.llms.types import CacheControl, CachePoint, TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage

from benchmarks._integration_payload import marked
from llama_index.llms.pkv import StatefulLLM
from tests.llama_index.more_providers import anthropic_llm, bedrock_llm, genai_llm, ollama_llm
from tests.llama_index.providers import like_llm, openai_llm
from tests.llama_index.support import a_session, assert_append_only, assistant, user

FIVE = {"type": "ephemeral", "ttl": "5m"}
POINT = {"type": "default"}


def a_step(*, text: str = "") -> list[ChatMessage]:
    asked = ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs={})
    blocks: list[Any] = [*([TextBlock(text=text)] if text else []), asked]
    result = ChatMessage(role="tool", content="fine", additional_kwargs={"tool_call_id": "1"})
    return [ChatMessage(role="assistant", blocks=blocks), result]


def test_anthropic_newest_and_previous(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, provider = anthropic_llm(monkeypatch)
    session = a_session()
    llm = StatefulLLM(inner, session)
    history = [user("a")]
    for more in ([], [assistant("ok"), user("b")], a_step(text="I look."), [assistant("done"), user("c")]):
        history = [*history, *more]
        llm.chat(history)
        session.state.cart_total += 1
    assert [marked(body) for body in provider.bodies] == [
        {"messages[0].content[0]": FIVE},
        {"messages[0].content[0]": FIVE, "messages[2].content[0]": FIVE},
        {"messages[2].content[0]": FIVE, "messages[4].content[0].content[0]": FIVE},
        {"messages[4].content[0].content[0]": FIVE, "messages[6].content[0]": FIVE},
    ]
    assert_append_only(provider.bodies)
    assert not any(isinstance(block, CachePoint) for message in history for block in message.blocks)


def test_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, provider = anthropic_llm(monkeypatch)
    StatefulLLM(inner, a_session(), marker_ttl="1h").chat([user("a")])
    assert marked(provider.bodies[0]) == {"messages[0].content[0]": {**FIVE, "ttl": "1h"}}


def test_bedrock_marks_head_and_users_but_no_tool_results(caplog: pytest.LogCaptureFixture) -> None:
    inner, provider = bedrock_llm()
    llm = StatefulLLM(inner, a_session())
    llm.chat([user("a")])
    llm.chat([user("a"), *a_step()])
    for body in provider.bodies:
        assert body["system"][1] == {"cachePoint": POINT}
        assert body["messages"][0]["content"][1] == {"cachePoint": POINT}
        assert sorted(marked(body)) == ["messages[0].content[1]", "system[1]"]
    assert_append_only(provider.bodies)
    assert caplog.messages == []


def test_bedrock_beside_its_own_points() -> None:
    own = ChatMessage(
        role="system", blocks=[TextBlock(text="x"), CachePoint(cache_control=CacheControl(type="default"))]
    )
    inner, provider = bedrock_llm()
    StatefulLLM(inner, a_session()).chat([own, user("a"), assistant("ok"), user("b")])
    assert [str(provider.bodies[0][part]).count("cachePoint") for part in ("system", "messages")] == [1, 2]


def test_never_more_than_the_provider_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """R21, R25: eight steps, then one of 25 parallel calls; ours are at most three, so tools may have one."""
    inner, provider = anthropic_llm(monkeypatch)
    llm, history = StatefulLLM(inner, a_session()), [user("a")]
    for number in range(8):
        llm.chat(history)
        history = [*history, *a_step(text=f"step {number}")]
    ids = [str(number) for number in range(25)]
    calls: list[Any] = [ToolCallBlock(tool_call_id=one, tool_name="look", tool_kwargs={}) for one in ids]
    results = [ChatMessage(role="tool", content=one, additional_kwargs={"tool_call_id": one}) for one in ids]
    llm.chat([*history, ChatMessage(role="assistant", blocks=calls), *results])
    assert all(1 <= len(marked(body)) <= 3 for body in provider.bodies)
    assert_append_only(provider.bodies)


def test_empty_messages_carry_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """R23: the class refuses a point behind nothing."""
    inner, provider = anthropic_llm(monkeypatch)
    session = a_session()
    llm = StatefulLLM(inner, session)
    llm.chat([user("a"), ChatMessage(role="assistant", blocks=a_step()[0].blocks), _empty_result()])
    assert set(marked(provider.bodies[0])) == {"messages[0].content[0]"}


def _empty_result() -> ChatMessage:
    return ChatMessage(role="tool", content="", additional_kwargs={"tool_call_id": "1"})


def test_beside_the_applications_none_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, provider = anthropic_llm(monkeypatch)
    llm = StatefulLLM(inner, a_session())
    point = CachePoint(cache_control=CacheControl(type="ephemeral"))
    llm.chat([ChatMessage(role="user", blocks=[TextBlock(text="a"), point]), assistant("ok"), user("b")])
    by_class = ChatMessage(role="user", content="b", additional_kwargs={"cache_control": {"type": "ephemeral"}})
    llm.chat([user("a"), assistant("ok"), by_class])
    assert [list(marked(body)) for body in provider.bodies] == [["messages[0].content[0]"], ["messages[2].content[0]"]]
    inner.cache_idx = 0
    llm.chat([user("a"), user("b")])
    assert marked(provider.bodies[2]) == {}, "the class marks the system message, and drops that"


def test_they_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, provider = anthropic_llm(monkeypatch)
    StatefulLLM(inner, a_session(), markers=False).chat([user("a")])
    assert marked(provider.bodies[0]) == {}


@pytest.mark.parametrize("make", [openai_llm, like_llm, genai_llm, ollama_llm])
def test_packages_that_take_none_get_none(make: Callable[[], Any]) -> None:
    """OpenAI's class raises on a cache point."""
    inner, provider = make()
    StatefulLLM(inner, a_session()).chat([user("a")])
    assert marked(provider.bodies[0]) == {}
