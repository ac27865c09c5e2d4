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
    Ttl,
    append_text,
    apply_breakpoints,
    cache_request,
    chain,
    plan_breakpoints,
    profile_for,
)

HEAD = Message("system", "policy " * 50)
BEDROCK = profile_for("bedrock", "anthropic.claude-opus-4-8-v1:0")[0]
ERRATUM = '<state-update id="k3">\norders[1].status = "delivered"\n</state-update>'
MARKED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
HOUR = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
PLAIN = {"type": "text", "text": "x"}


def places(messages: list[Message], profile: Profile = ANTHROPIC) -> list[tuple[int, int, str]]:
    return [(one.message, one.part, one.why) for one in plan_breakpoints(messages, profile).breakpoints]


def lifetimes(planned: BreakpointPlan) -> list[tuple[str, Ttl]]:
    return [(one.why, one.ttl) for one in planned.breakpoints]


def codes(planned: BreakpointPlan) -> list[str]:
    return [notice.code for notice in planned.notices]


def sent(messages: Sequence[Message], points: Sequence[Breakpoint]) -> CacheRequest:
    """The request as the cache sees it, marked at the very blocks that were chosen."""
    request = cache_request(messages)
    sizes = [(1 if isinstance(one.content, str) else len(one.content)) + len(one.tool_calls) for one in messages]
    starts = list(accumulate(sizes, initial=0))
    return replace(
        request, breakpoints=tuple(sorted({request.blocks[starts[one.message] + one.part] for one in points}))
    )


def in_all(message: Message) -> int:
    """How many markers a message carries, of any shape."""
    parts = [] if isinstance(message.content, str) else message.content
    return sum(key in part for part in parts for key in ("cache_control", "prompt_cache_breakpoint", "cachePoint"))


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


def test_r22_four_markers_of_the_applications_and_two_of_ours() -> None:
    """Four go out: ours, and the newest of the application's; the others are reported."""
    old = [HEAD, *(Message("user", (MARKED,)) for _ in range(4))]
    calls = tuple(ToolCall("look", {"n": index}, str(index)) for index in range(25))
    step = [Message("assistant", "", tool_calls=calls)]
    step += [Message("tool", "r", tool_call_id=call.id) for call in calls]
    talk = [*old, Message("user", "now"), *step]
    planned = plan_breakpoints(talk, ANTHROPIC)
    assert places(talk) == [(3, 0, "yours"), (4, 0, "yours"), (5, 0, "previous"), (31, 0, "newest")]
    assert codes(planned) == ["markers_dropped"]
    assert planned.notices[0].path == "messages[1].content[0], messages[2].content[0]"
    marked = apply_breakpoints(talk, planned, ANTHROPIC)
    assert [at for at, message in enumerate(marked) if in_all(message)] == [3, 4, 5, 31]
    assert [message.content for message in talk[1:5]] == [(MARKED,)] * 4, "what is stored stays as it is"


def test_r22_ours_give_way_where_a_lookup_does_not_need_them() -> None:
    talk = [HEAD, *(Message("user", (MARKED,)) for _ in range(4)), Message("assistant", "b"), Message("user", "c")]
    planned = plan_breakpoints(talk, ANTHROPIC)
    assert lifetimes(planned) == [("yours", "5m")] * 3 + [("newest", "5m")]
    assert [notice.path for notice in planned.notices] == ["messages[1].content[0]"]
    covered = [HEAD, Message("user", (MARKED,))]
    assert places(covered) == [(0, 0, "head"), (1, 0, "yours")], "where one stands already, ours is not needed"


def test_markers_on_tools_count_as_well() -> None:
    talk = [HEAD, Message("user", (MARKED, MARKED, PLAIN))]
    assert lifetimes(plan_breakpoints(talk, ANTHROPIC, ahead=["5m", "5m"])) == [("yours", "5m"), ("newest", "5m")]
    none = plan_breakpoints(talk, ANTHROPIC, ahead=["5m", "5m", "5m", "5m"])
    assert none.breakpoints == () and codes(none) == ["markers_dropped"]


def test_r23_a_marker_that_no_provider_takes_is_left_out_and_reported() -> None:
    empty = {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}
    talk = [HEAD, Message("user", (PLAIN, empty)), Message("user", ({"cachePoint": {"type": "default"}}, PLAIN))]
    planned = plan_breakpoints(talk, ANTHROPIC)
    assert [notice.path for notice in planned.notices] == ["messages[1].content[1], messages[2].content[0]"]
    marked = apply_breakpoints(talk, planned, ANTHROPIC)
    assert [in_all(message) for message in marked] == [1, 0, 1]
    assert marked[1].content == (PLAIN, {"type": "text", "text": ""})


def test_r24_an_hour_stands_before_five_minutes() -> None:
    """Where it stands behind, also in a replayed history, it is shortened and reported."""
    talk = [Message("system", (MARKED,)), Message("user", (HOUR,)), Message("assistant", "b"), Message("user", "c")]
    planned = plan_breakpoints(talk, ANTHROPIC)
    assert {one.ttl for one in planned.breakpoints} == {"5m"}
    assert codes(planned) == ["marker_ttl"] and planned.notices[0].path == "messages[1].content[0]"
    marked = apply_breakpoints(talk, planned, ANTHROPIC)
    assert marked[0] is talk[0] and marked[1].content == (MARKED,)
    on_tools = plan_breakpoints([HEAD, Message("user", (HOUR,))], ANTHROPIC, ahead=["5m"])
    assert lifetimes(on_tools) == [("head", "5m"), ("yours", "5m")] and codes(on_tools) == ["marker_ttl"]


def test_r24_ours_last_an_hour_before_an_hour_of_the_applications() -> None:
    talk = [HEAD, Message("user", (HOUR,)), Message("assistant", "b"), Message("user", "c")]
    planned = plan_breakpoints(talk, ANTHROPIC)
    assert lifetimes(planned) == [("head", "1h"), ("yours", "1h"), ("newest", "5m")]
    assert codes(planned) == []
    assert apply_breakpoints(talk, planned, ANTHROPIC)[1] is talk[1]


def test_an_hour_for_the_head_only() -> None:
    planned = plan_breakpoints([HEAD, Message("user", "a")], ANTHROPIC, head_ttl="1h")
    assert lifetimes(planned) == [("head", "1h"), ("newest", "5m")]
    nova = profile_for("bedrock", "amazon.nova-pro-v1:0")[0]
    assert lifetimes(plan_breakpoints([HEAD, Message("user", "a")], nova, head_ttl="1h"))[0] == ("head", "5m")


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
        assert chain(marked[1:]) == chain(talk[1:]), "a marker never changes an anchor"
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


def test_r26_after_a_fallback_no_other_providers_keys_go_out() -> None:
    inner = {"type": "tool_result", "tool_use_id": "a", "content": [MARKED]}
    talk = [Message("system", (MARKED,)), Message("user", (HOUR, inner, {"cachePoint": {"type": "default"}}))]
    for profile in (OPENAI, profile_for("vllm", "any")[0]):
        bare = apply_breakpoints(talk, plan_breakpoints(talk, profile), profile)
        assert [message.content for message in bare] == [(PLAIN,), (PLAIN, {**inner, "content": [PLAIN]})]
    translated = apply_breakpoints(talk, plan_breakpoints(talk, OPENAI_5_6), OPENAI_5_6)
    marked = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert [message.content for message in translated] == [
        ({**PLAIN, **marked},),
        ({**PLAIN, **marked}, {**inner, "content": [PLAIN], **marked}),
    ]
    assert apply_breakpoints(talk, plan_breakpoints(talk, GENERIC), GENERIC) == tuple(talk)


def test_a_block_with_two_shapes_of_marker_keeps_the_providers_own() -> None:
    both = {**MARKED, "prompt_cache_breakpoint": {"mode": "explicit"}}
    talk = [HEAD, Message("user", (both,))]
    assert apply_breakpoints(talk, plan_breakpoints(talk, ANTHROPIC), ANTHROPIC)[1].content == (MARKED,)


@given(st.lists(st.tuples(st.integers(0, 30), st.text("ab ", min_size=1, max_size=20)), min_size=2, max_size=6))
def test_each_request_reads_all_of_the_one_before_however_much_was_added(turns: list[tuple[int, str]]) -> None:
    for profile in (ANTHROPIC, OPENAI_5_6):
        sim, before = CacheSim(replace(profile, min_cacheable_tokens=None)), 0
        talk = [HEAD]
        for calls, text in turns:
            talk.append(Message("user", f"{text}."))
            for step in [step_of(calls)] if calls else []:
                request = sent(talk, plan_breakpoints(talk, profile).breakpoints)
                assert sim.run(request).read >= before
                before = len(request.tokens)
                talk += step
            request = sent(talk, plan_breakpoints(talk, profile).breakpoints)
            assert sim.run(request).read >= before
            before = len(request.tokens)
            talk.append(Message("assistant", "done"))


parts = st.sampled_from([PLAIN, MARKED, HOUR, {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": ""}])
points = st.just({"cachePoint": {"type": "default", "ttl": "1h"}})
contents = st.one_of(st.text("ab", max_size=3), st.lists(parts | points, max_size=4).map(tuple))
roles = st.sampled_from(["user", "assistant", "tool"])


@given(
    st.lists(st.builds(Message, roles, contents), max_size=8),
    st.sampled_from([ANTHROPIC, BEDROCK, OPENAI_5_6]),
    st.lists(st.sampled_from(["5m", "1h"]), max_size=3).map(lambda ttls: sorted(ttls)),
    st.sampled_from(["5m", "1h"]),
    st.booleans(),
)
def test_whatever_was_marked_before_a_request_is_legal(
    rest: list[Message], profile: Profile, ahead: list[Ttl], ttl: Ttl, automatic: bool
) -> None:
    talk = [HEAD, *rest]
    stored = copy.deepcopy(talk)
    planned = plan_breakpoints(talk, profile, ttl=ttl, ahead=ahead, automatic=automatic)
    marked = apply_breakpoints(talk, planned, profile)
    assert talk == stored
    assert sum(map(in_all, marked)) == len(planned.breakpoints)
    assert len(planned.breakpoints) + len(ahead) + (automatic or profile.implicit_breakpoint) <= 4
    lasting = [one.ttl == "1h" for one in planned.breakpoints]
    assert lasting == sorted(lasting, reverse=True)
    assert not ("5m" in ahead and any(lasting))
