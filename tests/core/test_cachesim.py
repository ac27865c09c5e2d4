"""The simulated cache: what each kind keeps, finds, forgets and charges."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import Breakpoint, Message, ProfileError
from pkv_agents.cachesim import CacheRequest, CacheSim, cache_request
from pkv_agents.profiles import ANTHROPIC, GENERIC, OPENAI, OPENAI_5_6, Profile

BLOCKS_OF_4 = Profile("blocks", block_tokens=4)
MARKED = replace(ANTHROPIC, min_cacheable_tokens=None)


def request(tokens: str, *, marks: tuple[int, ...] = (), every: int = 1, at: float = 0.0) -> CacheRequest:
    """A token a letter, a block every so many letters."""
    ends = sorted({*range(every, len(tokens) + 1, every), len(tokens)})
    return CacheRequest(tokens, tuple(ends), marks, at)


def read(sim: CacheSim, *requests: CacheRequest) -> list[int]:
    return [sim.run(one).read for one in requests]


def test_an_automatic_cache_keeps_whole_blocks() -> None:
    assert read(CacheSim(BLOCKS_OF_4), request("abcdefghij"), request("abcdefghijkl"), request("abcdXfgh")) == [0, 8, 4]


def test_the_last_token_is_always_read() -> None:
    assert read(CacheSim(BLOCKS_OF_4), request("abcdefgh"), request("abcdefgh")) == [0, 4]


def test_a_short_prompt_is_not_cached() -> None:
    short = replace(BLOCKS_OF_4, min_cacheable_tokens=8)
    sim = CacheSim(short)
    assert read(sim, request("abcdefg"), request("abcdefg"), request("abcdefghij"), request("abcdefghijk")) == [
        0,
        0,
        0,
        8,
    ]
    assert read(sim, request("abcdXXXXXXXXXXXX")) == [0], "a hit below the minimum is none"


def test_what_is_not_used_in_time_is_forgotten_and_use_refreshes_it() -> None:
    sim = CacheSim(replace(BLOCKS_OF_4, ttl_seconds=10))
    times = [0, 9, 18, 29]
    assert read(sim, *(request("abcdefghij", at=at) for at in times)) == [0, 8, 8, 0]


def test_a_full_cache_drops_the_end_of_what_was_used_least_recently() -> None:
    sim = CacheSim(BLOCKS_OF_4, capacity_tokens=12)
    read(sim, request("abcdefghi"), request("ABCDEFGHI"))
    assert read(sim, request("ABCDEFGHI"), request("abcdefghi")) == [8, 4]


def test_a_marked_cache_finds_nothing_without_markers() -> None:
    assert read(CacheSim(MARKED), request("abcdef"), request("abcdefg", marks=(7,))) == [0, 0]


def test_a_marked_cache_reads_up_to_an_older_marker_and_writes_up_to_the_newest() -> None:
    sim = CacheSim(MARKED)
    first = sim.run(request("abcdef", marks=(3, 6)))
    again = sim.run(request("abcdefghi", marks=(3, 9)))
    edited = sim.run(request("abcXefghi", marks=(3, 9)))
    assert [(one.read, one.written, one.fresh) for one in (first, again, edited)] == [(0, 6, 0), (6, 3, 0), (3, 6, 0)]


def test_a_marker_reaches_only_so_far_back() -> None:
    sim = CacheSim(MARKED)
    read(sim, request("a" * 10, marks=(10,)))
    assert read(sim, request("a" * 29, marks=(29,)), request("a" * 49, marks=(49,))) == [10, 0]


def test_the_newest_message_is_a_breakpoint_by_itself_where_the_profile_says_so() -> None:
    sim = CacheSim(replace(OPENAI_5_6, min_cacheable_tokens=None))
    assert read(sim, request("abc"), request("abcdef"), request("abcdefgh", marks=(3,))) == [0, 3, 6]


def test_too_many_or_misplaced_markers() -> None:
    with pytest.raises(ProfileError, match="5 breakpoints; anthropic takes 4"):
        CacheSim(MARKED).run(request("abcdefg", marks=(1, 2, 3, 4, 5)))
    with pytest.raises(ProfileError, match="no block ends"):
        CacheSim(MARKED).run(request("abcdefg", every=3, marks=(2,)))


def test_prices() -> None:
    outcome = CacheSim(MARKED).run(request("abcdef", marks=(4,)))
    assert outcome.cost(MARKED) == pytest.approx(4 * 1.25 + 2)
    assert outcome.cost(GENERIC) == 6


def test_messages_become_blocks() -> None:
    parts = ({"type": "text", "text": "abcd"}, {"type": "text", "text": "efgh"})
    made = cache_request([Message("system", "x" * 8), Message("user", parts)], breakpoints=[0], at=3.0)
    assert len(made.blocks) == 3
    assert made.breakpoints == made.blocks[:1] == (3,)
    assert made.blocks[-1] == len(made.tokens)


def in_common(one: str, two: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


texts = st.text("ab", min_size=1, max_size=30)
profiles = st.sampled_from([BLOCKS_OF_4, MARKED, OPENAI_5_6, replace(OPENAI, min_cacheable_tokens=8, block_tokens=2)])


@given(st.lists(texts, min_size=1, max_size=8), profiles)
def test_nothing_is_read_that_was_not_sent_before(sent: list[str], profile: Profile) -> None:
    sim, before = CacheSim(profile), list[str]()
    for text in sent:
        marks = (len(text),) if profile.max_breakpoints else ()
        outcome = sim.run(request(text, marks=marks))
        assert outcome.read + outcome.written + outcome.fresh == len(text)
        assert min(outcome.read, outcome.written, outcome.fresh) >= 0
        assert not outcome.read or any(old.startswith(text[: outcome.read]) for old in before)
        before.append(text)


@given(st.lists(texts, min_size=2, max_size=8))
def test_a_history_that_only_grows_is_always_read_up_to_its_last_whole_block(pieces: list[str]) -> None:
    sim, text = CacheSim(BLOCKS_OF_4), ""
    for piece in pieces:
        grown = text + piece
        assert sim.run(request(grown)).read == min(len(text) // 4, (len(grown) - 1) // 4) * 4
        text = grown


def test_a_breakpoint_may_ask_for_an_hour() -> None:
    sim = CacheSim(MARKED)
    first = sim.run(replace(request("abcdef", marks=(3, 6)), ttls={3: 3600}))
    assert (first.read, first.written, first.fresh, first.written_1h) == (0, 6, 0, 3)
    assert first.cost(MARKED) == pytest.approx(3 * 2.0 + 3 * 1.25)
    later = sim.run(request("abcdefg", marks=(3, 7), at=1000))
    assert (later.read, later.written) == (3, 4), "after five minutes only what was written for an hour is there"
    assert sim.run(request("abcxyz", marks=(3,), at=4500)).read == 3, "a use refreshes it for an hour"
    assert sim.run(request("abcxyz", marks=(3,), at=8101)).read == 0


def test_the_longer_ttl_stands_first() -> None:
    with pytest.raises(ProfileError, match="the longer stands first"):
        CacheSim(MARKED).run(replace(request("abcdef", marks=(3, 6)), ttls={6: 3600}))


def test_gpt_5_6_writes_the_latest_four_and_finds_them_however_far_back() -> None:
    sim = CacheSim(replace(OPENAI_5_6, min_cacheable_tokens=None))
    assert sim.run(request("abcdefgh", marks=(1, 2, 3, 4, 5))).written == 8
    assert read(sim, request("abX", marks=(1, 2)), request("abcX")) == [0, 3], "1 and 2 were not among the latest four"
    sim.run(request("y" * 10))
    assert read(sim, request("y" * 200), request("y" * 9 + "z")) == [10, 0], "no way back to an unmarked prefix"


def test_gpt_5_6_can_be_asked_for_no_breakpoint_of_its_own() -> None:
    sim = CacheSim(replace(OPENAI_5_6, min_cacheable_tokens=None))
    asked = replace(request("abcdef", marks=(4,)), implicit=False)
    one, two = sim.run(asked), sim.run(asked)
    assert [(it.read, it.written, it.fresh) for it in (one, two)] == [(0, 4, 2), (4, 0, 2)]
    unmarked = sim.run(replace(request("abcdef"), implicit=False))
    assert (unmarked.read, unmarked.written) == (0, 0), "such a request does not use the cache"


def test_only_so_many_breakpoints_are_matched() -> None:
    sim = CacheSim(replace(OPENAI_5_6, min_cacheable_tokens=None, lookback_blocks=2))
    read(sim, request("abc"), request("abcXY", marks=(4, 5)))
    assert read(sim, request("abcXYZ", marks=(6,))) == [5]
    assert read(CacheSim(replace(OPENAI_5_6, min_cacheable_tokens=None)), request("ab"), request("abc")) == [0, 2]


def test_a_slot_holds_one_prompt() -> None:
    one, two = CacheSim(GENERIC, slots=1), CacheSim(GENERIC, slots=2)
    requests = [request(text) for text in ("abcdef", "abcdefgh", "uvwxyz", "abcdefghij")]
    assert read(one, *requests) == [0, 6, 0, 0]
    assert read(two, *requests) == [0, 6, 0, 8]
    assert read(one, request("abcdefghij")) == [9], "the last token is always read"


def test_a_text_part_is_its_text_and_a_marker_on_it_is_no_token() -> None:
    marked = ({"type": "text", "text": "abcdefgh", "cache_control": {"type": "ephemeral"}},)
    plain, parts = cache_request([Message("user", "abcdefgh")]), cache_request([Message("user", marked)])
    assert plain == parts
    image = cache_request([Message("user", ({"type": "image", "url": "u"},))])
    assert len(image.tokens) > 1


def test_planned_breakpoints_become_ends_and_carry_a_ttl() -> None:
    parts = ({"type": "text", "text": "abcd"}, {"type": "text", "text": "efgh"})
    messages = [Message("system", parts), Message("user", "ijkl")]
    made = cache_request(messages, breakpoints=[Breakpoint(0, 0, "policy", "1h"), 1], implicit=False)
    assert made.breakpoints == (2, 5) and made.blocks == (2, 3, 5)
    assert made.ttls == {2: 3600} and not made.implicit


@given(st.lists(st.tuples(texts, st.floats(0, 5)), min_size=1, max_size=12), st.integers(1, 40), st.integers(1, 4))
def test_the_stock_is_what_is_counted(sent: list[tuple[str, float]], capacity: int, block: int) -> None:
    sims = [
        CacheSim(Profile("blocks", block_tokens=block, ttl_seconds=4), capacity_tokens=capacity),
        CacheSim(replace(MARKED, ttl_seconds=4), capacity_tokens=capacity),
    ]
    at = 0.0
    for text, gap in sent:
        at += gap
        for sim in sims:
            marks = (len(text) // 2, len(text)) if sim.profile.max_breakpoints and len(text) > 1 else ()
            sim.run(request(text, marks=marks, at=at))
            sim.check_integrity()


@given(st.lists(st.tuples(texts, st.floats(0, 9)), min_size=1, max_size=10), st.integers(1, 4), st.integers(1, 12))
def test_an_automatic_cache_reads_the_longest_prefix_that_was_used_in_time(
    sent: list[tuple[str, float]], block: int, ttl: int
) -> None:
    sim, before, at = CacheSim(Profile("blocks", block_tokens=block, ttl_seconds=ttl)), list[tuple[str, float]](), 0.0
    for text, gap in sent:
        at += gap
        recent = [old for old, when in before if at - when <= ttl]
        common = [min(in_common(old, text), len(old) // block * block) for old in recent]
        expected = min(max(common, default=0), len(text) - 1) // block * block
        assert sim.run(request(text, at=at)).read == expected
        before.append((text, at))


@given(texts, texts, texts, profiles)
def test_a_longer_common_prefix_never_reads_less(shared: str, tail: str, more: str, profile: Profile) -> None:
    """Of two requests that go on from one before, the one that keeps more of it reads at least as much."""
    before = shared + tail
    reads: list[int] = []
    for kept in (shared, before):
        sim = CacheSim(profile)
        marks = (len(shared), len(before)) if profile.max_breakpoints else ()
        sim.run(request(before, marks=marks))
        grown = kept + "c" + more
        again = tuple(sorted({min(end, len(kept)) for end in marks} | ({len(grown)} if marks else set())))
        reads.append(sim.run(request(grown, marks=again)).read)
    assert reads[0] <= reads[1]


@given(st.lists(texts, min_size=1, max_size=6), profiles)
def test_after_its_ttl_nothing_is_read(sent: list[str], profile: Profile) -> None:
    sim = CacheSim(replace(profile, ttl_seconds=60))
    for number, text in enumerate(sent):
        marks = (len(text),) if profile.max_breakpoints else ()
        assert sim.run(request(text, marks=marks, at=61.0 * number)).read == 0
