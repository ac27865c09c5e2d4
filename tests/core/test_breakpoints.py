"""Breakpoints: legal, few, and enough that each request reads all of the one before."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import (
    ANTHROPIC,
    ANTHROPIC_MID_SYSTEM,
    GENERIC,
    OPENAI,
    OPENAI_5_6,
    Breakpoint,
    BreakpointPlan,
    CacheRequest,
    CacheSim,
    Message,
    Profile,
    ToolCall,
    append_text,
    apply_breakpoints,
    cache_request,
    plan_breakpoints,
)
from pkv_agents.anchors import read_history
from tests.core.marked import BEDROCK, HEAD, MARKED, PLAIN, in_all, lifetimes, places

ERRATUM = '<state-update id="k3">\norders[1].status = "delivered"\n</state-update>'


def sent(messages: Sequence[Message], points: Sequence[Breakpoint]) -> CacheRequest:
    """The request as the cache sees it, marked at the very blocks that were chosen."""
    request = cache_request(messages)
    sizes = [(1 if isinstance(one.content, str) else len(one.content)) + len(one.tool_calls) for one in messages]
    starts = list(accumulate(sizes, initial=0))
    return replace(
        request, breakpoints=tuple(sorted({request.blocks[starts[one.message] + one.part] for one in points}))
    )


def test_the_head_the_last_requests_end_and_the_newest_message() -> None:
    talk = [HEAD, Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    assert places(talk[:2]) == [(0, 0, "head"), (1, 0, "newest")]
    assert places(talk) == [(0, 0, "head"), (1, 0, "previous"), (3, 0, "newest")]
    assert plan_breakpoints([], ANTHROPIC) == BreakpointPlan()


@pytest.mark.parametrize("profile", [OPENAI, GENERIC])
def test_none_where_caching_is_automatic(profile: Profile) -> None:
    assert places([HEAD, Message("user", "a")], profile) == []


def test_the_newest_is_not_marked_where_it_is_a_breakpoint_by_itself() -> None:
    assert places([HEAD, Message("user", "a")], OPENAI_5_6) == [(0, 0, "head")]
    asked = plan_breakpoints([HEAD, Message("user", (MARKED, MARKED, MARKED, PLAIN))], ANTHROPIC, automatic=True)
    assert lifetimes(asked) == [("yours", "5m")] * 3, "the marker that the request asks for is the fourth"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(
            Message("user", ({"type": "image", "url": "u"}, {"type": "text", "text": ""})), (2, 0), id="image"
        ),
        pytest.param(Message("tool", "", tool_call_id="a"), (1, 0), id="empty tool result"),
        pytest.param(Message("user", ({"type": "tool_result", "content": []},)), (1, 0), id="empty tool result part"),
        pytest.param(Message("user", (PLAIN, {"type": "thinking", "thinking": "hm"})), (2, 0), id="thought last"),
        pytest.param(Message("user", (PLAIN, {"reasoningContent": {"text": "hm"}})), (2, 0), id="Bedrock's thought"),
        pytest.param(Message("user", ({"type": "redacted_thinking", "data": "x"},)), (1, 0), id="only a thought"),
        pytest.param(Message("user", " \n"), (1, 0), id="white space"),
    ],
)
@pytest.mark.parametrize("profile", [ANTHROPIC, BEDROCK])
def test_r23_never_on_empty_text_or_on_thoughts(profile: Profile, last: Message, expected: tuple[int, int]) -> None:
    """The last block before them is marked."""
    talk = [HEAD, Message("user", "a"), last]
    planned = plan_breakpoints(talk, profile)
    assert [(one.message, one.part) for one in planned.breakpoints] == [(0, 0), expected]
    marked = apply_breakpoints(talk, planned, profile)
    for given_message, message in zip(talk[2:], marked[2:], strict=True):
        if expected[0] != 2:
            assert message is given_message


def step_of(calls: int) -> list[Message]:
    wanted = tuple(ToolCall("look", {"n": index}, str(index)) for index in range(calls))
    return [
        Message("assistant", "", tool_calls=wanted),
        *(Message("tool", f"result {call.id}", tool_call_id=call.id) for call in wanted),
    ]


@pytest.mark.parametrize("profile", [ANTHROPIC, ANTHROPIC_MID_SYSTEM, BEDROCK])
def test_r25_after_25_parallel_calls_and_an_erratum_the_next_call_still_hits(profile: Profile) -> None:
    """51 blocks are added in one step, and a lookup reaches 20 back: the last request's end is marked again."""
    sim = CacheSim(replace(profile, min_cacheable_tokens=None))
    talk = [HEAD, Message("user", "look at all of them")]
    first = sent(talk, plan_breakpoints(talk, profile).breakpoints)
    assert sim.run(first).read == 0
    talk += step_of(25)
    if profile.carrier == "system":
        talk.append(Message("system", ERRATUM))
    else:
        talk[-1] = append_text(talk[-1], ERRATUM)
    second = sent(talk, plan_breakpoints(talk, profile).breakpoints)
    assert sim.run(second).read == len(first.tokens)
    talk += [Message("assistant", "done"), Message("user", "and now?")]
    third = sent(talk, plan_breakpoints(talk, profile).breakpoints)
    assert sim.run(third).read == len(second.tokens)
    alone = replace(second, breakpoints=second.breakpoints[-1:])
    fresh = CacheSim(replace(profile, min_cacheable_tokens=None))
    assert [fresh.run(first).read, fresh.run(alone).read] == [0, 0], "the newest marker alone finds nothing"


def test_r25_a_step_whose_end_was_edited_is_still_read_in_part() -> None:
    sim = CacheSim(replace(ANTHROPIC, min_cacheable_tokens=None))
    talk = [HEAD, Message("user", "look at all of them"), *step_of(25)]
    sim.run(sent(talk, plan_breakpoints(talk, ANTHROPIC).breakpoints))
    edited = [*talk[:-1], Message("tool", "shortened", tool_call_id="24"), Message("assistant", "done")]
    edited.append(Message("user", "go on"))
    read = sim.run(sent(edited, plan_breakpoints(edited, ANTHROPIC).breakpoints)).read
    assert read > len(cache_request(talk[:-20]).tokens)


def test_r21_eight_steps_over_one_list() -> None:
    """What is stored stays as it was, never more than four markers go out, and each step reads all of the last."""
    sim, before = CacheSim(replace(ANTHROPIC, min_cacheable_tokens=None)), 0
    talk = [HEAD, Message("user", ({"type": "text", "text": "plan my trip"}, {"type": "image", "url": "u"}))]
    for step in range(8):
        stored = copy.deepcopy(talk)
        planned = plan_breakpoints(talk, ANTHROPIC)
        marked = apply_breakpoints(talk, planned, ANTHROPIC)
        assert talk == stored
        assert sum(map(in_all, marked)) == len(planned.breakpoints) <= 4
        assert read_history(marked[1:]).end == read_history(talk[1:]).end, "a marker never changes an anchor"
        request = sent(talk, planned.breakpoints)
        assert sim.run(request).read == before
        before = len(request.tokens)
        talk += step_of(step + 1)


def test_each_provider_spells_a_marker_in_its_own_way() -> None:
    talk = [HEAD, Message("user", "a")]
    text = {"type": "text", "text": "a"}
    planned = plan_breakpoints(talk, ANTHROPIC, ttl="1h")
    assert apply_breakpoints(talk, planned, ANTHROPIC)[1].content == (
        {**text, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    )
    planned = plan_breakpoints(talk, BEDROCK)
    assert apply_breakpoints(talk, planned, BEDROCK)[1].content == (text, {"cachePoint": {"type": "default"}})
    planned = plan_breakpoints(talk, OPENAI_5_6)
    marked = apply_breakpoints(talk, planned, OPENAI_5_6)
    assert marked[0].content == ({"type": "text", "text": HEAD.text, "prompt_cache_breakpoint": {"mode": "explicit"}},)
    assert marked[1] is talk[1]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.text("ab ", min_size=1, max_size=20)), min_size=2, max_size=6),
    st.integers(0, 4),
    st.sampled_from([ANTHROPIC, BEDROCK, OPENAI_5_6]),
)
def test_each_request_reads_all_of_the_one_before_however_much_was_added(
    turns: list[tuple[int, str]], own: int, profile: Profile
) -> None:
    """Also where the application has set up to four markers of its own."""
    sim, before = CacheSim(replace(profile, min_cacheable_tokens=None)), 0
    talk = [Message("system", (*[MARKED] * own, PLAIN))]

    def send(before: int) -> int:
        request = sent(talk, plan_breakpoints(talk, profile).breakpoints)
        assert sim.run(request).read >= before
        return len(request.tokens)

    for calls, text in turns:
        talk.append(Message("user", f"{text}."))
        before = send(before)
        if calls:
            talk += step_of(calls)
            before = send(before)
        talk.append(Message("assistant", "done"))
