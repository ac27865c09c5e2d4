"""`StateMemory`: what it keeps, and that it survives being saved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.workflow import JsonSerializer
from pydantic import ValidationError

from llama_index.llms.pkv import StatefulLLM, StateMemory, to_core
from llama_index.llms.pkv.memory import front
from tests.llama_index.agents import a_context, an_agent, the_session
from tests.llama_index.more_providers import genai_llm
from tests.llama_index.support import a_session, assert_append_only, assistant, errata_in, user

turns = st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=40)


@given(turns, st.integers(50, 200))
def test_it_begins_with_a_user_and_never_moves_back(messages: list[tuple[bool, int]], limit: int) -> None:
    users = [True, *(is_user for is_user, _ in messages)]
    sizes = [10, *(size for _, size in messages)]
    starts = [front(sizes[:end], users[:end], limit=limit, keep=limit // 2) for end in range(1, len(sizes) + 1)]
    assert starts == sorted(starts)
    assert all(users[start] for start in starts)
    for end, start in enumerate(starts, 1):
        kept, turn = sum(sizes[start:end]), max(at for at in range(end) if users[at])
        assert kept <= limit or start == turn, "only the newest turn may be longer than the limit"


def test_a_cut_is_by_much() -> None:
    sizes, users = [10] * 30, [True, False] * 15
    starts = [front(sizes[:end], users[:end], limit=100, keep=50) for end in range(1, 31)]
    assert sorted(set(starts)) == [0, 6, 12, 18, 24]


def test_messages_go_in_and_out() -> None:
    memory = StateMemory.from_defaults(chat_history=[user("a")], llm=MockLLM())
    assert memory.token_limit == int(MockLLM().metadata.context_window * 0.75)
    memory.put(assistant("b"))
    memory.put_messages([user("c"), assistant("d")])
    assert [message.content for message in memory.get()] == ["a", "b", "c", "d"]
    memory.set([user("e")])
    assert memory.get_all() == [user("e")]
    memory.reset()
    assert memory.get() == []


async def test_and_asynchronously() -> None:
    memory = StateMemory()
    await memory.aset([user("a")])
    await memory.aput(assistant("b"))
    await memory.aput_messages([user("c")])
    assert [message.content for message in await memory.aget("x")] == ["a", "b", "c"]
    assert len(await memory.aget_all()) == 3
    await memory.areset()
    assert await memory.aget() == []


def test_it_is_read_back_as_it_was() -> None:
    calls = [ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs='{"b": 1, "a": 2}')]
    memory = StateMemory(
        messages=[
            user("a"),
            ChatMessage(role="assistant", blocks=calls),
            ChatMessage(role="tool", content="x", additional_kwargs={"tool_call_id": "1"}),
        ]
    )
    again = StateMemory.from_dict(json.loads(json.dumps(memory.to_dict())))
    assert again.messages == memory.messages


PNG = b"\x89PNG\r\n\x1a\n"
PICTURES = [ImageBlock(image=PNG), ImageBlock(url="http://127.0.0.1/x.png")]


@pytest.mark.parametrize(
    "block",
    [
        *PICTURES,
        DocumentBlock(data=PNG, title="t"),
        AudioBlock(audio=PNG),
        CitableBlock(title="t", source="s", content=[TextBlock(text="x"), ImageBlock(image=PNG)]),
        ThinkingBlock(content="hm", additional_information={"signature": "s"}),
        ThinkingBlock(content="hm", additional_information={"thought_signature": b"\xfb\xff\xfe"}),
    ],
    ids=lambda block: type(block).__name__,
)
def test_blocks_that_are_no_text_are_saved_too(block: Any) -> None:
    message = ChatMessage(role="user", blocks=[TextBlock(text="see"), block], additional_kwargs={"thought": PNG})
    memory, serializer = StateMemory(messages=[message, assistant("I do")]), JsonSerializer()
    again = serializer.deserialize(serializer.serialize(memory))
    assert to_core(again.messages) == to_core(memory.messages)


@pytest.mark.parametrize("picture", PICTURES, ids=["bytes", "address"])
async def test_a_conversation_with_a_picture_goes_on(picture: Any) -> None:
    """LlamaIndex writes and reads a context between any two runs, and leaves out a memory that it cannot write."""
    session = the_session()
    agent, provider = an_agent(["one", "two"], session)
    ctx = await a_context(agent)
    await agent.run(user_msg=ChatMessage(role="user", blocks=[TextBlock(text="see"), picture]), ctx=ctx)
    await session.update(ctx, {"mode": "auto"})
    await agent.run(user_msg="and?", ctx=ctx)
    assert errata_in(provider.bodies[1]) == ['mode: "auto"']
    assert_append_only(provider.bodies)


def test_a_saved_signature_is_the_same_on_the_wire() -> None:
    parts = [{"text": "hm", "thought": True, "thoughtSignature": "+//+"}, {"text": "done"}]
    inner, provider = genai_llm([parts, "ok"])
    llm, serializer = StatefulLLM(inner, a_session()), JsonSerializer()
    memory = StateMemory(messages=[user("a"), llm.chat([user("a")]).message, user("b")])
    llm.chat(serializer.deserialize(serializer.serialize(memory)).get())
    (sent,) = [one["parts"] for one in provider.bodies[1]["contents"] if one["role"] == "model"]
    assert [part.get("thoughtSignature", "").translate({45: 43, 95: 47}) for part in sent] == ["+//+", ""]
    assert [part["text"] for part in sent] == ["hm", "done"]


def test_limits() -> None:
    with pytest.raises(ValidationError):
        StateMemory(token_limit=0)
    with pytest.raises(ValidationError):
        StateMemory(keep=1.5)
