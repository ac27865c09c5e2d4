"""At call time (R20 and its kinds): calls are held to what is true now, and replayed byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pkv_agents import (
    BRIDGE,
    OPENAI,
    Message,
    ToolCall,
    ToolError,
    ToolSpec,
    allowed_tools,
    decide_call,
    native_tool_blocks,
    profile_for,
    start_tools,
)
from tests.skills.talk import AMOUNT, CANCEL, NATIVE, REFUND, TRACK, Talk


def test_r20_arguments_that_a_store_reordered_are_the_same_bytes() -> None:
    talk = Talk(ToolSpec("weather"))
    call = ToolCall("weather", {"city": "Tokyo", "unit": "c"}, "c1")
    talk.history += [Message("assistant", "", (call,)), Message("tool", "sunny", tool_call_id="c1")]
    talk.send()
    stored = ToolCall("weather", {"unit": "c", "city": "Tokyo"}, "c1")
    talk.history[1] = Message("assistant", "", (stored,))
    before = json.dumps([[dict(call.arguments) for call in message.tool_calls] for message in talk.sent])
    talk.send()
    assert json.dumps([[dict(call.arguments) for call in message.tool_calls] for message in talk.sent]) == before


def test_r20_a_call_through_the_bridge_keeps_its_bytes_too() -> None:
    talk = Talk(CANCEL, bridge=True)
    talk.now(CANCEL, REFUND)
    call = ToolCall(BRIDGE.name, {"name": "refund", "arguments": {"amount": 3, "why": {"b": 1, "a": 2}}}, "c1")
    decision = decide_call(talk.tools, call)
    assert decision.refusal is None and decision.call == ToolCall(
        "refund", {"amount": 3, "why": {"b": 1, "a": 2}}, "c1"
    )
    talk.history += [Message("assistant", "", (call,)), Message("tool", "done", tool_call_id="c1")]
    talk.send()
    before = json.dumps(talk.sent[-2].tool_calls[0].arguments)
    talk.history[-2] = Message(
        "assistant",
        "",
        (ToolCall(BRIDGE.name, {"arguments": {"why": {"a": 2, "b": 1}, "amount": 3}, "name": "refund"}, "c1"),),
    )
    talk.send()
    assert json.dumps(talk.sent[-2].tool_calls[0].arguments) == before


def test_changed_limits_are_told_and_held_at_call_time() -> None:
    talk = Talk(REFUND)
    tight = replace(REFUND, parameters={**AMOUNT, "properties": {"amount": {"type": "integer", "maximum": 50}}})
    told, codes = talk.now(tight)
    assert '"maximum":50' in told and codes == []
    call = ToolCall("refund", {"amount": 90}, "c1")
    assert decide_call(talk.tools, call).refusal == "'refund' was not called: arguments.amount must be at most 50."
    assert decide_call(talk.tools, ToolCall("refund", {"amount": 9}, "c1")).refusal is None


def test_a_profile_that_knows_tool_changes_needs_no_bridge() -> None:
    talk = Talk(CANCEL, REFUND, profile=NATIVE)
    talk.now(CANCEL, TRACK, REFUND)
    definition = {"name": "track", "description": "Finds a parcel.", "input_schema": dict(TRACK.parameters)}
    talk.now(CANCEL, TRACK)
    talk.now(CANCEL, TRACK, REFUND)
    talk.now(CANCEL, REFUND)
    talk.now(replace(CANCEL, description="New."), REFUND)
    blocks = [native_tool_blocks(talk.epoch, one, tools=talk.tools, profile=NATIVE) for one in talk.errata]
    assert blocks == [
        ({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}},),
        ({"type": "tool_removal", "tool": {"type": "tool_reference", "name": "refund"}},),
        ({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "refund"}},),
        ({"type": "tool_removal", "tool": {"type": "tool_reference", "name": "track"}},),
        (),
    ]
    openai = replace(OPENAI, tool_changes="additional_tools")
    (first, *rest) = [native_tool_blocks(talk.epoch, one, tools=talk.tools, profile=openai) for one in talk.errata]
    function = {
        "type": "function",
        "name": "track",
        "description": "Finds a parcel.",
        "parameters": dict(TRACK.parameters),
    }
    assert first == ({"type": "additional_tools", "role": "developer", "tools": [function]},) and not any(rest)
    assert native_tool_blocks(talk.epoch, talk.errata[0], tools=talk.tools, profile=OPENAI) == ()
    assert decide_call(talk.tools, ToolCall("track", {"id": "1"}, "c")).refusal is not None


def test_allowed_tools_names_what_is_on_where_the_provider_has_it() -> None:
    openai, _ = profile_for("openai", "gpt-5.1")
    talk = Talk(CANCEL, REFUND, profile=openai)
    assert allowed_tools(talk.tools, openai) is None
    talk.now(CANCEL, REFUND, off=("cancel",))
    named = {"type": "function", "function": {"name": "refund"}}
    chat = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named]}}
    assert allowed_tools(talk.tools, openai) == chat
    flat = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "refund"}]}
    assert allowed_tools(talk.tools, openai, mode="required", responses=True) == flat
    assert allowed_tools(talk.tools, NATIVE) is None
    talk.now(CANCEL, REFUND, off=("cancel", "refund"))
    assert allowed_tools(talk.tools, openai) is None  # there would be nothing to list


def test_allowed_tools_shuts_no_late_tool_out() -> None:
    responses, _ = profile_for("openai_responses", "gpt-5.5")
    talk = Talk(CANCEL, REFUND, profile=responses)
    talk.now(CANCEL, REFUND, TRACK, off=("cancel",))
    assert allowed_tools(talk.tools, responses, responses=True) is None
    talk.now(CANCEL, REFUND, off=("cancel",))
    assert allowed_tools(talk.tools, responses, responses=True) is not None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (ToolCall("nothing", {}, "c"), "There is no tool 'nothing'; nothing was done. There are: cancel, refund."),
        (
            ToolCall("call_tool", {"name": "call_tool", "arguments": {}}, "c"),
            "call_tool does not call itself; nothing was done.",
        ),
        (ToolCall("call_tool", {"name": 3}, "c"), "call_tool was not called: it takes a tool's name"),
        (ToolCall("call_tool", {"name": "refund", "arguments": "{"}, "c"), "call_tool was not called"),
        (ToolCall("call_tool", {"name": "refund", "arguments": "[1]"}, "c"), "call_tool was not called"),
        (
            ToolCall("call_tool", {"name": "refund", "arguments": '{"amount": "x"}'}, "c"),
            "arguments.amount must be integer",
        ),
        (ToolCall("refund", {}, "c"), "'refund' was not called: arguments.amount is missing."),
        (ToolCall("\ud800" + "x" * 99, {}, "c"), "There is no tool '\\ud800xxx"),
    ],
)
def test_a_call_that_makes_no_sense_is_answered_in_words(call: ToolCall, says: str) -> None:
    refusal = decide_call(start_tools([CANCEL, REFUND], bridge=True), call).refusal
    assert refusal is not None and says in refusal


def test_a_tool_called_like_the_bridge_is_not_taken_for_it() -> None:
    with pytest.raises(ToolError, match="name 'call_tool'"):
        start_tools([CANCEL, ToolSpec("call_tool", server="x")], bridge=True)
    assert decide_call(start_tools([CANCEL]), ToolCall("call_tool", {"name": "cancel", "arguments": {}}, "c")).refusal
