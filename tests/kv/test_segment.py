"""Segments as values: cutting, joining, fields, and where they come from."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.errors import SegmentError
from pkv_agents.kv import EXACT, Composed, FieldSpan, HFModel, KVSegment, SegmentModel, Slab, concat
from tests.kv.zoo import some_ids, tiny

IDS = some_ids(24)


@cache
def model() -> SegmentModel:
    return SegmentModel(tiny("llama"))


@cache
def whole() -> KVSegment:
    return model().prefill(IDS).segment


def same(left: KVSegment, right: KVSegment) -> bool:
    return left.checksum() == right.checksum() and left.start == right.start


@given(st.lists(st.integers(0, len(IDS)), max_size=4).map(sorted))
def test_slices_joined_are_the_whole(cuts: list[int]) -> None:
    edges = [0, *cuts, len(IDS)]
    parts = [whole().slice(start, stop) for start, stop in zip(edges, edges[1:], strict=False)]
    joined = concat(parts)
    assert same(joined, whole())
    assert joined.origin == EXACT if len(parts) == 1 else isinstance(joined.origin, Composed)


@given(st.integers(0, 24), st.integers(0, 24), st.integers(0, 24), st.integers(0, 24))
def test_a_slice_of_a_slice(a: int, b: int, c: int, d: int) -> None:
    first = whole().slice(min(a, b), max(a, b))
    start, stop = sorted((min(c, len(first)), min(d, len(first))))
    second = first.slice(start, stop)
    assert second.ids.tolist() == IDS[min(a, b) + start : min(a, b) + stop]
    assert second.positions.tolist() == list(range(min(a, b) + start, min(a, b) + stop))


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3), (0, 25), (25, 25)])
def test_a_slice_is_inside(start: int, stop: int) -> None:
    with pytest.raises(SegmentError, match="segment of 24"):
        whole().slice(start, stop)


def test_what_has_lost_its_beginning_is_not_exact() -> None:
    assert whole().slice(0, 5).origin == EXACT
    assert isinstance(whole().slice(1, 5).origin, Composed)
    other = model().prefill([1, *IDS[1:]]).segment
    assert other.slice(5, 9).origin != whole().slice(5, 9).origin  # the same ids, read behind others


def test_a_gap_and_an_overlap_are_refused() -> None:
    left, right = whole().slice(0, 10), whole().slice(10, 24)
    for start in (9, 11):
        with pytest.raises(SegmentError, match="part 1 begins at position"):
            concat([left, right.moved(start)])
    with pytest.raises(SegmentError, match="nothing to join"):
        concat([])


def test_segments_of_two_models_never_join() -> None:
    foreign = dataclasses.replace(whole().slice(10, 24), fingerprint="another")
    with pytest.raises(SegmentError, match="another model or adapter"):
        concat([whole().slice(0, 10), foreign])
    with pytest.raises(SegmentError, match="another model or adapter"):
        model().forward(foreign, [1])


def test_ids_cannot_be_written_and_do_not_follow_their_source() -> None:
    source = np.array(IDS, dtype=np.int32)
    segment = dataclasses.replace(whole(), ids=source)
    source[0] = 63
    assert segment.ids[0] == IDS[0]
    with pytest.raises(ValueError, match="read-only"):
        segment.ids[0] = 1


def test_fields_go_with_their_tokens() -> None:
    spans = FieldSpan("a", 2, 4), FieldSpan("b", 10, 12), FieldSpan("b.c", 10, 11)
    segment = whole().with_fields(*spans)
    tail = segment.slice(9, 24)
    assert tail.fields == (FieldSpan("b", 1, 3), FieldSpan("b.c", 1, 2))
    assert concat([segment.slice(0, 9), tail]).fields == spans
    assert segment.slice(0, 11).fields == (FieldSpan("a", 2, 4), FieldSpan("b.c", 10, 11))
    with pytest.raises(SegmentError, match="no field 'd'"):
        segment.field("d")


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([("a", 3, 3)], "stands at tokens"),
        ([("a", 20, 25)], "stands at tokens"),
        ([("a", 1, 2), ("a", 3, 4)], "named twice"),
        ([("a", 1, 5), ("b", 3, 8)], "cuts through"),
    ],
)
def test_fields_that_do_not_fit_are_refused(spans: list[tuple[str, int, int]], message: str) -> None:
    with pytest.raises(SegmentError, match=message):
        whole().with_fields(*(FieldSpan(*span) for span in spans))


def test_tensors_of_another_length_are_refused() -> None:
    with pytest.raises(SegmentError, match=r"every layer of a segment of 23 tokens is \(heads, 23, dim\)"):
        dataclasses.replace(whole(), ids=IDS[:23], written=range(23))
    with pytest.raises(SegmentError, match="one written position a token"):
        dataclasses.replace(whole(), written=range(23))


def test_out_of_a_slab_and_back() -> None:
    slabs = HFModel(tiny("llama"))
    facts = slabs.facts
    slab = Slab(facts.shape, capacity=64, limit=facts.context_limit)
    slabs.forward(slab, IDS)
    segment = KVSegment.from_slab(slab, fingerprint=facts.identity)
    before = segment.checksum()
    for have, want in zip(segment.keys, whole().keys, strict=True):
        torch.testing.assert_close(have, want, atol=1e-5, rtol=0)
    back = Slab(facts.shape, capacity=64, limit=facts.context_limit)
    model().fill(back, segment)
    assert back.checksum() == slab.checksum()
    slab.crop(3)
    slabs.forward(slab, [5, 6, 7])
    assert segment.checksum() == before
    assert KVSegment.from_slab(back, fingerprint=facts.identity, start=4, stop=9).ids.tolist() == IDS[4:9]
    with pytest.raises(SegmentError, match="holds 24"):
        KVSegment.from_slab(back, fingerprint=facts.identity, stop=25)


def test_a_slab_takes_the_origin_and_later_tokens_inherit_it() -> None:
    slabs = HFModel(tiny("llama"))
    slab = Slab(slabs.facts.shape, capacity=64, limit=1024)
    composed = concat([whole().slice(0, 10), whole().slice(10, 20)])
    model().fill(slab, composed)
    slabs.forward(slab, [7, 8])
    assert KVSegment.from_slab(slab, fingerprint=slabs.facts.identity).origin == composed.origin
    twin = slab.clone()
    assert twin.origin == composed.origin


def test_what_was_turned_is_not_exact_in_a_slab() -> None:
    slabs = HFModel(tiny("llama"))
    elsewhere = model().prefill(IDS, start=100).segment.moved(0)
    slab = Slab(slabs.facts.shape, capacity=64, limit=1024)
    model().fill(slab, elsewhere)
    assert isinstance(slab.origin, Composed)
    there_and_back = Slab(slabs.facts.shape, capacity=64, limit=1024)
    model().fill(there_and_back, whole().moved(100).moved(0))
    assert there_and_back.origin == EXACT


def test_only_an_empty_slab_of_the_same_shape_is_filled() -> None:
    slab = Slab(HFModel(tiny("llama")).facts.shape, capacity=64, limit=1024)
    with pytest.raises(SegmentError, match="position 0"):
        model().fill(slab, whole().slice(1, 5))
    model().fill(slab, whole())
    with pytest.raises(SegmentError, match="empty slab"):
        model().fill(slab, whole())
    other = Slab(dataclasses.replace(slab.shape, heads=3), capacity=64, limit=1024)
    with pytest.raises(SegmentError, match="another shape"):
        model().fill(other, whole())
    short = Slab(dataclasses.replace(slab.shape, layers=3), capacity=64, limit=1024)
    with pytest.raises(SegmentError, match="number of layers"):
        model().fill(short, whole())
