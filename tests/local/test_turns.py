"""From messages to turns: the exact fallback forms."""

from __future__ import annotations

import pytest

from pkv_agents.errors import GrammarError, MessageError
from pkv_agents.local.turns import Turn, canonical_call, to_turns, tools_block
from pkv_agents.local.verdict import TemplateVerdict
from pkv_agents.messages import Message, ToolCall

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "cancel_order",
            "description": "Stop an order that has not left the warehouse.\nMore words.",
            "parameters": {"type": "object", "properties": {"order_id": {}}, "required": ["order_id"]},
        },
    },
    {
        "name": "change_address",
        "description": "Send an order to another city.",
        "parameters": {"type": "object", "properties": {"order_id": {}, "city": {}}, "required": ["order_id"]},
    },
    {"name": "ping"},
]
KEPT = TemplateVerdict(late_system="kept")


def turns(messages: list[Message], verdict: TemplateVerdict = KEPT, *, tools: bool = False) -> list[Turn]:
    return list(to_turns(messages, tools=TOOLS if tools else (), verdict=verdict, clean=lambda text: text))


def test_the_tools_block_is_exact() -> None:
    assert tools_block(TOOLS) == (
        "# Tools\n"
        'Answer with one JSON object: {"name": tool, "arguments": {...}}\n'
        "- cancel_order(order_id): Stop an order that has not left the warehouse.\n"
        "- change_address(order_id, city?): Send an order to another city.\n"
        "- ping()"
    )


def test_tools_stand_first_in_the_system_text() -> None:
    (first, second) = turns([Message("system", "Policy."), Message("user", "hi")], tools=True)
    assert first == Turn("system", tools_block(TOOLS) + "\n\nPolicy.")
    assert second == Turn("user", "hi")
    assert turns([Message("user", "hi")], tools=True)[0] == Turn("system", tools_block(TOOLS))


def test_a_call_is_its_compact_json() -> None:
    call = ToolCall("cancel_order", {"order_id": "K417", "note": 'é "x"'}, id="c1")
    assert canonical_call(call) == '{"name":"cancel_order","arguments":{"order_id":"K417","note":"é \\"x\\""}}'
    assert turns([Message("user", "u"), Message("assistant", "", (call,))])[1].content == canonical_call(call)


def test_arguments_that_are_no_json_are_an_error() -> None:
    with pytest.raises(MessageError, match="no JSON data"):
        canonical_call(ToolCall("t", {"x": float("nan")}))


def test_a_late_system_text_joins_the_newest_user_or_tool_turn() -> None:
    verdict = TemplateVerdict(late_system="raises")
    history = [Message("system", "S"), Message("user", "u"), Message("system", "E1"), Message("assistant", "a")]
    assert [t.content for t in turns(history, verdict)] == ["S", "u\n\nE1", "a"]
    history += [Message("tool", "r"), Message("system", "E2")]
    assert turns(history, verdict)[-1] == Turn("tool", "r\n\nE2")
    assert turns([*history[:4], Message("system", "E3")], verdict)[-1] == Turn("user", "E3")


def test_a_template_without_tool_role_gets_user_turns() -> None:
    verdict = TemplateVerdict(late_system="kept", tool_role=False)
    history = [Message("user", "u"), Message("assistant", "a"), Message("tool", "r1"), Message("tool", "r2")]
    assert [t.role for t in turns(history, verdict)] == ["user", "assistant", "user", "user"]
    strict = TemplateVerdict(late_system="raises", tool_role=False, adjacent_users=False)
    assert turns(history, strict)[2:] == [Turn("user", "r1\n\nr2")]


def test_a_template_without_system_role_carries_the_head_in_the_first_user_turn() -> None:
    verdict = TemplateVerdict(late_system="raises", leading_system=False)
    assert turns([Message("system", "S"), Message("user", "u"), Message("assistant", "a")], verdict) == [
        Turn("user", "S\n\nu"),
        Turn("assistant", "a"),
    ]


def test_content_that_is_no_text_is_refused() -> None:
    with pytest.raises(MessageError, match="image_url"):
        turns([Message("user", ({"type": "text", "text": "look"}, {"type": "image_url"}))])
    assert turns([Message("user", ({"type": "text", "text": "a"}, {"type": "text", "text": "b"}))])[0].content == "ab"


def test_a_tool_without_name_is_an_error() -> None:
    with pytest.raises(GrammarError, match="a tool is"):
        tools_block([{"type": "function"}])
