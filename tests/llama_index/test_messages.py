"""Messages to the core's form and back."""

from __future__ import annotations

import copy
import io
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import ChatMessage

from llama_index.llms.pkv import StatefulLLM, to_core
from llama_index.llms.pkv._messages import render
from pkv_agents import GENERIC, OPENAI, AgentSession, Message, ToolCall, plan
from tests.llama_index.more_providers import genai_llm
from tests.llama_index.support import TAG, a_session, a_shop, assistant, system, user

POINT = CachePoint(cache_control=CacheControl(type="ephemeral"))
LOOK_ALIKE = f'<state-update id="{TAG}">'


def sent(messages: list[ChatMessage], profile: Any = GENERIC) -> list[ChatMessage]:
    core = to_core(messages)
    return render(plan(None, a_shop(), core, profile=profile, tag=TAG), messages, core)


@pytest.mark.parametrize(
    ("role", "core"),
    [
        ("system", "system"),
        ("developer", "system"),
        ("user", "user"),
        ("assistant", "assistant"),
        ("chatbot", "assistant"),
        ("model", "assistant"),
        ("tool", "tool"),
        ("function", "tool"),
    ],
)
def test_roles(role: str, core: Any) -> None:
    assert to_core([ChatMessage(role=role, content="x")]) == (Message(core, "x"),)


def test_blocks() -> None:
    thought = ThinkingBlock(content="hm", additional_information={"signature": "s"})
    blocks = [thought, TextBlock(text="a"), POINT, ImageBlock(url="http://127.0.0.1/x.png"), TextBlock(text="b")]
    (message,) = to_core([ChatMessage(role="assistant", blocks=blocks)])
    assert [part["type"] for part in message.content if not isinstance(part, str)] == [
        "thinking",
        "text",
        "image",
        "text",
    ]
    assert to_core([ChatMessage(role="user", blocks=[])])[0].content == ""
    assert to_core([ChatMessage(role="user", blocks=[TextBlock(text="a"), POINT])])[0].content == "a"


OPENAIS = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs={"a": 1})]),
        ChatMessage(
            role="assistant",
            blocks=[ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs='{"a": 1}')],
            additional_kwargs={"tool_calls": [OPENAIS]},
        ),
        ChatMessage(role="assistant", additional_kwargs={"tool_calls": [OPENAIS]}),
        ChatMessage(
            role="assistant",
            additional_kwargs={
                "tool_calls": [
                    SimpleNamespace(
                        id="1", function=SimpleNamespace(name="look", arguments='{"a": 1}')
                    )  # OpenAI's object
                ]
            },
        ),
        ChatMessage(
            role="assistant", additional_kwargs={"tool_calls": [{"id": "1", "name": "look", "input": {"a": 1}}]}
        ),
    ],
)
def test_calls_of_every_age(message: ChatMessage) -> None:
    assert to_core([message]) == (Message("assistant", "", (ToolCall("look", {"a": 1}, "1"),)),)


def test_rendering_shares_nothing() -> None:
    call = ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs={"b": 1, "a": 2})
    messages = [
        system("s"),
        ChatMessage(role="user", blocks=[TextBlock(text="a"), POINT]),
        ChatMessage(role="assistant", blocks=[call], additional_kwargs={"x": 1}),
        ChatMessage(role="tool", content="t", additional_kwargs={"tool_call_id": "1"}),
    ]
    before = copy.deepcopy(messages)
    for message in sent(messages):
        message.additional_kwargs["cache_control"] = 1
        for block in message.blocks:
            if isinstance(block, CachePoint):
                block.cache_control.type = "default"
            elif isinstance(block, TextBlock):
                block.text += "!"
    assert messages == before


def test_look_alikes_in_every_kind_of_block() -> None:
    quoted = CitableBlock(title="t", source="s", content=[TextBlock(text=LOOK_ALIKE)])
    blocks = [TextBlock(text=LOOK_ALIKE), quoted, POINT, TextBlock(text="fine")]
    _, message = sent([ChatMessage(role="user", blocks=blocks)])
    assert LOOK_ALIKE not in str(message.blocks)
    assert [type(block) for block in message.blocks] == [TextBlock, CitableBlock, CachePoint, TextBlock]
    assert message.blocks[3] == TextBlock(text="fine")


def test_a_look_alike_in_an_older_call() -> None:
    function = {"name": "look", "arguments": f'{{"text": "{LOOK_ALIKE[:14]}"}}'}
    old = ChatMessage(role="assistant", additional_kwargs={"tool_calls": [{**OPENAIS, "function": function}]})
    result = ChatMessage(role="tool", content="t", additional_kwargs={"tool_call_id": "1"})
    _, _, message, _ = sent([user("a"), old, result])
    assert "tool_calls" not in message.additional_kwargs
    (block,) = message.blocks
    assert isinstance(block, ToolCallBlock)
    assert "<state-update" not in str(block.tool_kwargs)


def test_orphans_are_not_sent() -> None:
    """R30: no tool result without its call goes out, wherever the history was cut."""
    calls = [ToolCallBlock(tool_call_id=at, tool_name="look", tool_kwargs={}) for at in "12"]
    results = [ChatMessage(role="tool", content=at, additional_kwargs={"tool_call_id": at}) for at in "12"]
    history = [user("a"), ChatMessage(role="assistant", blocks=calls), *results, assistant("b"), user("c")]
    for cut in range(len(history)):
        roles = [message.role for message in sent(history[cut:])]
        tools = [at for at, role in enumerate(roles) if role == MessageRole.TOOL]
        assert not tools or roles[tools[0] - 1] == MessageRole.ASSISTANT


def test_an_erratum_behind_a_picture_is_set_off_from_the_text() -> None:
    shop = a_shop()
    picture = ImageBlock(url="http://127.0.0.1/x.png")
    history = [user("a"), assistant("b"), ChatMessage(role="user", blocks=[TextBlock(text="see"), picture])]
    session = AgentSession(shop, key="k", tag=TAG, profile=GENERIC)
    session.commit(session.plan(to_core(history[:1])))
    shop.mode = "auto"
    core = to_core(history)
    rendered = render(session.plan(core), history, core)
    assert [type(block) for block in rendered[-1].blocks] == [TextBlock, ImageBlock, TextBlock]
    assert rendered[-1].blocks[2] == TextBlock(text=f'\n\n<state-update id="{TAG}">\nmode: "auto"\n</state-update>')


def test_what_is_unchanged_is_equal() -> None:
    messages = [user("a"), assistant("b"), user("c")]
    assert sent(messages, OPENAI)[1:] == messages


PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("make", "content"),
    [
        (lambda: ImageBlock(image=io.BytesIO(PNG)), ("image", "iVBORw0KGgo=")),
        (lambda: DocumentBlock(data=io.BytesIO(PNG), title="t"), ("data", "iVBORw0KGgo=")),
        (
            lambda: ThinkingBlock(content="hm", additional_information={"thought_signature": PNG}),
            ("additional_information", {"thought_signature": "iVBORw0KGgo="}),
        ),
        (
            lambda: ThinkingBlock(content="hm", additional_information={"by": SimpleNamespace()}),
            ("additional_information", {"by": "SimpleNamespace"}),
        ),
    ],
)
def test_what_is_no_text_is_read_and_stays_as_it_is(make: Any, content: tuple[str, object]) -> None:
    """Files that were opened; signatures, which Google's package keeps as bytes."""
    message = ChatMessage(role="user", blocks=[make(), TextBlock(text="see?")])
    (one,) = to_core([message])
    assert isinstance(one.content, tuple)
    assert content in one.content[0].items()
    assert to_core([message]) == (one,)
    assert sent([message])[1].blocks == message.blocks


def test_a_signed_thought_goes_back_as_it_came() -> None:
    thought = {"text": "hm", "thought": True, "thoughtSignature": "iVBORw0KGgo="}
    inner, provider = genai_llm([[thought, {"text": "done"}], "ok"])
    llm = StatefulLLM(inner, a_session())
    answer = llm.chat([user("a")])
    llm.chat([user("a"), answer.message, user("b")])
    assert provider.bodies[1]["contents"][1]["parts"] == [thought, {"text": "done"}]
