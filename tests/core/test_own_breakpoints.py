"""Breakpoints where the application has set markers of its own: they are respected, counted, and mended."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import (
    ANTHROPIC,
    GENERIC,
    OPENAI,
    OPENAI_5_6,
    Message,
    Profile,
    ToolCall,
    Ttl,
    apply_breakpoints,
    plan_breakpoints,
    profile_for,
)
from tests.core.marked import BEDROCK, HEAD, HOUR, MARKED, PLAIN, codes, in_all, lifetimes, places


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


def test_a_block_with_two_shapes_of_marker_keeps_the_providers_own() -> None:
    both = {**MARKED, "prompt_cache_breakpoint": {"mode": "explicit"}}
    talk = [HEAD, Message("user", (both,))]
    assert apply_breakpoints(talk, plan_breakpoints(talk, ANTHROPIC), ANTHROPIC)[1].content == (MARKED,)


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
