"""The simulated cache: what each kind keeps, finds, forgets and charges."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import Message, ProfileError
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
