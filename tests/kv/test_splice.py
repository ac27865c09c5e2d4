"""Splices: with every token recomputed they are a prefill (the oracle), with fewer they are what they claim to be."""

from __future__ import annotations

import dataclasses
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv import (
    EXACT,
    CacheKey,
    Composed,
    FieldSpan,
    HFModel,
    KVSegment,
    PrefixCache,
    SegmentModel,
    compile_segment,
    splice,
)
from tests.kv.zoo import MECHANISMS, some_ids, tiny

HEAD, SKILL, OTHER, QUERY, PREAMBLE = some_ids(9), some_ids(12, 2), some_ids(7, 3), some_ids(4, 4), some_ids(3, 5)
ALL = 99


@cache
def engine(name: str) -> SegmentModel:
    return SegmentModel(tiny(name))


@cache
def parts(name: str) -> tuple[KVSegment, KVSegment, KVSegment]:
    model = engine(name)
    skill = compile_segment(model, SKILL, preamble=PREAMBLE)
    return model.prefill(HEAD).segment, skill, compile_segment(model, OTHER)


def divergence(have: torch.Tensor | None, want: torch.Tensor | None) -> float:
    assert have is not None and want is not None
    p, q = want.log_softmax(-1), have.log_softmax(-1)
    return float((p.exp() * (p - q)).sum())


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_splice_with_everything_recomputed_is_a_prefill(name: str) -> None:
    head, skill, other = parts(name)
    model = engine(name)
    truth = model.prefill([*HEAD, *SKILL, *OTHER, *QUERY])
    done = splice(model, head, [skill, other], query=QUERY, seam=ALL)
    assert done.segment.origin == EXACT and done.segment.ids.tolist() == truth.segment.ids.tolist()
    for have, want in zip(done.segment.keys, truth.segment.keys, strict=True):
        torch.testing.assert_close(have, want, atol=2e-4, rtol=1e-4)
    assert divergence(done.logits, truth.logits) < 1e-6


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_reused_segment_has_its_values_and_its_keys_turned(name: str) -> None:
    """In layer 0, where a key depends on its token and place alone, a splice is exact: one place off is seen."""
    head, skill, other = parts(name)
    model = engine(name)
    truth = model.prefill([*HEAD, *SKILL, *OTHER]).segment
    done = splice(model, head, [skill, other]).segment
    (keys, values), *_ = model.rule.layers(done)
    torch.testing.assert_close(keys, truth.keys[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(values, truth.values[0], atol=1e-5, rtol=1e-5)
    shifted = dataclasses.replace(done, start=1)
    carrier = 0 if model.rule.family.rotated == "keys" else 1
    off = model.rule.layers(shifted)[0][carrier] - (truth.keys, truth.values)[carrier][0]
    assert float(off.abs().max()) > 1e-3


@pytest.mark.parametrize("seam", [0, 1, 4])
def test_the_seam_is_what_a_clean_prefill_gives(seam: int) -> None:
    """The seam of the first segment has read only the head, so it is exact in every layer; the rest is reused."""
    head, skill, other = parts("llama")
    model = engine("llama")
    truth = model.prefill([*HEAD, *SKILL, *OTHER, *QUERY])
    done = splice(model, head, [skill, other], query=QUERY, seam=seam)
    assert done.computed == 2 * seam + len(QUERY)
    exact = len(HEAD) + seam
    for have, want, of_head in zip(done.segment.keys, truth.segment.keys, head.keys, strict=True):
        torch.testing.assert_close(have[:, :exact], want[:, :exact], atol=1e-4, rtol=1e-4)
        assert torch.equal(have[:, : len(HEAD)], of_head)
    for have, want in zip(done.segment.values[1:], skill.values[1:], strict=True):
        assert torch.equal(have[:, exact : len(HEAD) + 12], want[:, seam:])
    assert isinstance(done.segment.origin, Composed) and done.segment.origin.seam == seam


def test_no_rotation_is_seen_where_it_counts() -> None:
    """The mutation that hurts: a skill left at the position at which it was compiled."""
    head, skill, _ = parts("llama")
    model = engine("llama")
    done = splice(model, head, [skill]).segment
    unturned = dataclasses.replace(done, written=done.positions)
    truth = model.prefill([*HEAD, *SKILL]).segment.keys[0]
    assert float((model.rule.layers(unturned)[0][0] - truth).abs().max()) > 0.1


def test_stored_segments_are_never_changed() -> None:
    model = engine("llama")
    stored = parts("llama")
    before = [segment.checksum() for segment in stored]
    head, skill, other = stored
    for seam in (0, 2, ALL):
        splice(model, head, [skill, other, skill], query=QUERY, seam=seam)
    splice(model, None, [other], query=QUERY)
    assert [segment.checksum() for segment in stored] == before


@given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=3), st.integers(0, 14), st.booleans())
def test_any_splice_holds_its_tokens_in_order(which: list[int], seam: int, with_head: bool) -> None:
    head, *skills = parts("llama")
    chosen = [skills[index] for index in which]
    done = splice(engine("llama"), head if with_head else None, chosen, query=QUERY, seam=seam)
    want = [*(HEAD if with_head else []), *(token for index in which for token in (SKILL, OTHER)[index]), *QUERY]
    assert done.segment.ids.tolist() == want
    assert done.segment.positions.tolist() == list(range(len(want)))
    reused = any(len(segment) > seam for segment in chosen)
    assert (done.segment.origin == EXACT) == (not reused)


def test_a_preamble_and_another_place_of_birth_are_another_origin() -> None:
    model, head = engine("llama"), parts("llama")[0]
    origins = {
        splice(model, head, [compile_segment(model, SKILL, preamble=preamble)], seam=seam).segment.origin
        for preamble in ([], [1], [2], [1, 2])
        for seam in (0, 3)
    }
    assert len(origins) == 8


def test_fields_of_a_skill_stand_in_the_splice() -> None:
    model, head = engine("llama"), parts("llama")[0]
    skill = compile_segment(model, SKILL, preamble=PREAMBLE, fields=[FieldSpan("limit", 2, 4)])
    span = splice(model, head, [skill]).segment.field("limit")
    assert (span.start, span.stop) == (len(HEAD) + 2, len(HEAD) + 4)


def test_what_cannot_be_spliced_is_refused() -> None:
    model, (head, skill, _) = engine("llama"), parts("llama")
    with pytest.raises(SegmentError, match="at least one segment"):
        splice(model, head, [])
    with pytest.raises(SegmentError, match="0 or more"):
        splice(model, head, [skill], seam=-1)
    with pytest.raises(SegmentError, match="another model"):
        splice(model, head, [dataclasses.replace(skill, fingerprint="other")])
    with pytest.raises(ContextLengthError):
        splice(model, head.moved(1004), [skill])
    with pytest.raises(SegmentError, match="at least one token"):
        compile_segment(model, [], preamble=PREAMBLE)


def test_one_splices_another_prefills_the_same_ids_and_is_exact() -> None:
    """The exactness rule: a look-up for exact keys never sees what was composed, nor is thrown out by it."""
    slabs, model = HFModel(tiny("llama")), engine("llama")
    cache = PrefixCache(slabs.facts.shape, budget=1 << 24, limit=1024)
    head, skill, _ = parts("llama")
    spliced = splice(model, head, [skill]).segment
    ids = spliced.ids.tolist()
    exact = CacheKey(slabs.facts.fingerprint)
    composed = dataclasses.replace(exact, origin=spliced.origin)
    with cache.lease(exact, ids) as lease:
        cold = slabs.forward(lease.slab, ids)
    with cache.lease(composed, [*ids, *QUERY], session="a") as lease:
        assert lease.cached == 0
        model.fill(lease.slab, spliced)
        slabs.forward(lease.slab, QUERY)
    cache.check_integrity()
    assert cache.match(composed, [*ids, *QUERY]) == len(ids) + len(QUERY)
    with cache.lease(exact, [*ids, *QUERY], session="b") as lease:
        assert lease.cached == len(ids)  # what the cold prefill left
        got = slabs.forward(lease.slab, QUERY)
    truth = model.prefill([*ids, *QUERY]).logits
    assert truth is not None
    torch.testing.assert_close(got, truth, atol=1e-4, rtol=1e-4)
    with cache.lease(composed, [*ids, *QUERY, 5], session="a") as lease:
        assert lease.cached == len(ids) + len(QUERY)
    assert cold.shape == got.shape


def test_a_slab_filled_under_the_wrong_key_answers_nobody() -> None:
    slabs, model = HFModel(tiny("llama")), engine("llama")
    cache = PrefixCache(slabs.facts.shape, budget=1 << 24, limit=1024)
    head, skill, _ = parts("llama")
    spliced = splice(model, head, [skill]).segment
    ids = spliced.ids.tolist()
    key = CacheKey(slabs.facts.fingerprint)
    with cache.lease(key, ids) as lease:
        slabs.forward(lease.slab, ids[:-1])
    with cache.lease(key, [1, *ids]) as lease:
        assert lease.cached == 0
        model.fill(lease.slab, spliced)  # exact was asked for
    assert cache.match(key, ids) == len(ids) - 1  # the exact slab is still there, and the other is not seen
    cache.check_integrity()
