"""The prefix cache: exact matches, in-place continuation, forks, tenants, budget, integrity."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.kv import CacheKey, Lease, PrefixCache
from tests.kv.test_slab import SHAPE, extend

KEY = CacheKey("model")
ROOM = 64 * SHAPE.token_bytes
"""Bytes of the smallest slab."""


def new_cache(slabs: float = 100) -> PrefixCache:
    return PrefixCache(SHAPE, budget=int(ROOM * slabs), limit=512)


def ask(cache: PrefixCache, ids: list[int], *, session: str | None = None, key: CacheKey = KEY) -> int:
    """One call: leases, writes what is missing, gives back. Returns the cached tokens."""
    with cache.lease(key, ids, session=session) as lease:
        write_missing(lease, ids)
    cache.check_integrity()
    return lease.cached


def write_missing(lease: Lease, ids: list[int]) -> None:
    assert lease.slab.ids.tolist() == ids[: lease.cached]
    extend(lease.slab, ids[lease.cached :])


def test_a_longer_request_continues_in_place() -> None:
    cache = new_cache()
    assert ask(cache, [1, 2, 3]) == 0
    assert ask(cache, [1, 2, 3, 4, 5]) == 3
    stats = cache.stats()
    assert (stats.slabs, stats.continued, stats.copied) == (1, 1, 0)


def test_match_reads_and_does_not_change() -> None:
    cache = new_cache()
    ask(cache, [1, 2, 3])
    before = cache.stats()
    assert cache.match(KEY, [1, 2, 9]) == 2
    assert cache.match(KEY, [4]) == 0
    assert cache.match(CacheKey("model", salt="other"), [1, 2, 3]) == 0
    assert cache.stats() == before


def test_the_last_token_is_always_left_to_forward() -> None:
    cache = new_cache()
    ask(cache, [1, 2, 3])
    assert ask(cache, [1, 2, 3]) == 2
    assert ask(cache, [1]) == 0


def test_forks_interleaved_keep_hitting() -> None:
    cache, head = new_cache(), list(range(100, 200))
    a, b = [*head, 1], [*head, 2]
    ask(cache, head)
    assert ask(cache, a) == 100
    assert ask(cache, b) == 100
    for turn in range(3, 8):
        a, b = [*a, turn], [*b, turn]
        assert ask(cache, a) == len(a) - 1
        assert ask(cache, b) == len(b) - 1


def test_a_session_loses_a_short_tail_rather_than_copy() -> None:
    cache, head = new_cache(), list(range(100, 300))
    ask(cache, [*head, *range(20)], session="s")
    assert ask(cache, [*head, 50], session="s") == 200
    assert cache.stats().slabs == 1
    ask(cache, [*head, *range(60, 180)], session="s")
    assert ask(cache, [*head, 51], session="s") == 200  # a long tail is worth a copy
    assert cache.stats().slabs == 2


def test_another_session_never_takes_a_tail_away() -> None:
    cache, head = new_cache(), list(range(100, 300))
    ask(cache, [*head, 1], session="s")
    assert ask(cache, [*head, 2], session="t") == 200
    assert ask(cache, [*head, 1, 3], session="s") == 201


def test_what_an_abandoned_call_left_is_cut_by_its_session() -> None:
    cache, prompt = new_cache(), list(range(100, 300))
    lease = cache.lease(KEY, prompt, session="s")
    extend(lease.slab, [*prompt, *range(100)])
    lease.release(abandoned=True)
    assert ask(cache, [*prompt, 7], session="s") == 200
    assert cache.stats().slabs == 1


def test_a_slab_that_is_being_written_is_copied_not_taken() -> None:
    cache, head = new_cache(), list(range(100, 150))
    ask(cache, head)
    with cache.lease(KEY, [*head, 1]) as first:
        with cache.lease(KEY, [*head, 2]) as second:
            assert (first.cached, second.cached) == (50, 50)
            assert first.slab is not second.slab
            write_missing(second, [*head, 2])
        write_missing(first, [*head, 1])
    cache.check_integrity()
    assert ask(cache, [*head, 1, 5]) == 51
    assert ask(cache, [*head, 2, 5]) == 51


def test_tenants_adapters_and_types_never_share() -> None:
    cache = new_cache()
    ask(cache, [1, 2, 3])
    for key in (
        CacheKey("other"),
        CacheKey("model", "lora"),
        CacheKey("model", dtype="x"),
        CacheKey("model", salt="t"),
    ):
        assert ask(cache, [1, 2, 3, 4], key=key) == 0


def test_the_budget_evicts_the_least_recently_used() -> None:
    cache = new_cache(2)
    ask(cache, [1, 1, 1])
    ask(cache, [2, 2, 2])
    ask(cache, [1, 1, 1, 1])
    ask(cache, [3, 3, 3])
    assert cache.match(KEY, [2, 2, 2]) == 0
    assert cache.match(KEY, [1, 1, 1]) == 3
    assert cache.stats().bytes <= cache.budget


def test_a_call_larger_than_the_budget_runs_and_is_not_kept() -> None:
    cache = new_cache(0.5)
    assert ask(cache, [1, 2, 3]) == 0
    assert cache.stats().slabs == 0
    assert ask(cache, [1, 2, 3, 4]) == 0


def test_without_room_for_two_the_source_is_taken_over() -> None:
    cache, head = new_cache(1), list(range(50))
    ask(cache, [*head, 1])
    assert ask(cache, [*head, 2]) == 50
    assert cache.stats().slabs == 1


def test_a_slab_that_another_contains_is_dropped() -> None:
    cache = new_cache()
    for _ in range(3):
        ask(cache, [1, 2, 3, 4])
    assert cache.stats().slabs == 1


def test_a_failed_first_forward_leaves_nothing_behind() -> None:
    cache = new_cache()
    cache.lease(KEY, [1, 2, 3]).release(abandoned=True)
    assert cache.stats().slabs == 0
    cache.check_integrity()


def test_clear_drops_what_nobody_writes() -> None:
    cache = new_cache()
    ask(cache, [1, 2, 3])
    with cache.lease(KEY, [5, 6]) as lease:
        cache.clear()
        write_missing(lease, [5, 6])
    assert cache.match(KEY, [1, 2, 3]) == 0
    assert cache.match(KEY, [5, 6]) == 2


requests = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=90), st.sampled_from([None, "a", "b"])), max_size=14
)


@given(requests, st.sampled_from([0.5, 1, 2, 3.5, 50]))
def test_any_history_matches_exactly_and_stays_in_budget(
    calls: list[tuple[list[int], str | None]], slabs: float
) -> None:
    cache = new_cache(slabs)
    for ids, session in calls:
        possible = min(cache.match(KEY, ids), len(ids) - 1)
        assert ask(cache, ids, session=session) == possible  # and inside: content is exactly that prefix
        assert cache.stats().bytes <= cache.budget


def test_reading_takes_the_longest_prefix_and_changes_nothing() -> None:
    cache = new_cache()
    ask(cache, [1, 2, 3])
    ask(cache, [1, 2, 4, 5], session="other")
    before = cache.stats()
    assert cache.read(KEY, [1, 2, 4, 9], lambda slab, size: slab.ids[:size].tolist()) == [1, 2, 4]
    assert cache.read(KEY, [1, 2, 4, 9], lambda slab, size: slab, least=4) is None
    assert cache.read(KEY, [7], lambda slab, size: slab) is None
    assert cache.read(CacheKey("model", salt="other"), [1, 2], lambda slab, size: slab) is None
    assert cache.stats() == before


def test_what_is_set_aside_counts_in_the_budget() -> None:
    cache = new_cache(2)
    ask(cache, [1, 2, 3])
    ask(cache, [4, 5, 6])
    cache.set_aside(ROOM)
    assert cache.stats().slabs == 1 and cache.match(KEY, [4, 5, 6]) == 3
    cache.check_integrity()
    cache.set_aside(0)
    ask(cache, [1, 2, 3])
    assert cache.stats().slabs == 2
