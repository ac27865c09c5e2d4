"""Breakpoints: legal, few, and enough that each request reads all of the one before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import (
    ANTHROPIC,
    GENERIC,
    OPENAI,
    OPENAI_5_6,
    Breakpoint,
    CacheSim,
    Message,
    Profile,
    ToolCall,
    cache_request,
    plan_breakpoints,
)

HEAD = Message("system", "policy " * 50)


def places(messages: list[Message], profile: Profile = ANTHROPIC) -> list[tuple[int, int, str]]:
    return [(one.message, one.part, one.why) for one in plan_breakpoints(messages, profile)]


def test_the_head_the_last_requests_end_and_the_newest_message() -> None:
    talk = [HEAD, Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    assert places(talk[:2]) == [(0, 0, "head"), (1, 0, "newest")]
    assert places(talk) == [(0, 0, "head"), (1, 0, "previous"), (3, 0, "newest")]
    assert plan_breakpoints([], ANTHROPIC) == ()


@pytest.mark.parametrize("profile", [OPENAI, GENERIC])
def test_none_where_caching_is_automatic(profile: Profile) -> None:
    assert places([HEAD, Message("user", "a")], profile) == []


def test_the_newest_is_not_marked_where_it_is_a_breakpoint_by_itself() -> None:
    assert places([HEAD, Message("user", "a")], OPENAI_5_6) == [(0, 0, "head")]


def test_never_on_empty_text_or_on_thoughts() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    parts = ({"type": "text", "text": "x"}, {"type": "text", "text": ""}, thought)
    assert places([HEAD, Message("user", parts)])[-1] == (1, 0, "newest")
    assert places([HEAD, Message("user", ({"type": "text", "text": ""},))]) == [(0, 0, "head")]
    assert places([HEAD, Message("tool", "", tool_call_id="a")]) == [(0, 0, "head")]


def test_the_applications_own_markers_stay_and_count() -> None:
    mine = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    three = Message("system", (mine, mine, mine))
    assert places([three, Message("user", "a")]) == [(1, 0, "newest")]
    assert places([Message("system", (mine, mine, mine, mine)), Message("user", "a")]) == []
    assert plan_breakpoints([Message("system", (mine,)), Message("user", (mine,))], ANTHROPIC) == ()
    assert Breakpoint(1, 0, "newest") in plan_breakpoints([three, Message("user", "a")], ANTHROPIC)


@given(st.lists(st.tuples(st.integers(0, 30), st.text("ab ", min_size=1, max_size=20)), min_size=2, max_size=6))
def test_each_request_reads_all_of_the_one_before_however_much_was_added(turns: list[tuple[int, str]]) -> None:
    sim = CacheSim(replace(ANTHROPIC, min_cacheable_tokens=None))
    messages, before = [HEAD], 0

    def send(before: int) -> int:
        marks = [one.message for one in plan_breakpoints(messages, ANTHROPIC)]
        request = cache_request(messages, breakpoints=marks)
        assert sim.run(request).read >= before
        return len(request.tokens)

    for calls, text in turns:
        messages.append(Message("user", text))
        before = send(before)
        if calls:
            wanted = tuple(ToolCall("look", {"n": index}, str(index)) for index in range(calls))
            messages.append(Message("assistant", "", tool_calls=wanted))
            messages += [Message("tool", f"result {index}", tool_call_id=str(index)) for index in range(calls)]
            before = send(before)
        messages.append(Message("assistant", "done"))
