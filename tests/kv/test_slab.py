"""Slabs: exact cuts, independent copies, and nothing moved by an unfinished forward (report R33)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from pkv_agents.kv import Slab, SlabError, SlabShape

SHAPE = SlabShape(2, 2, 4, 4, torch.float32, torch.device("cpu"))


def filled(tokens: int, *, capacity: int = 64, seed: int = 0) -> Slab:
    slab = Slab(SHAPE, capacity=capacity, limit=512)
    extend(slab, list(range(tokens)), seed=seed)
    return slab


def extend(slab: Slab, ids: list[int], *, seed: int = 0) -> None:
    numbers = torch.Generator().manual_seed(seed)
    slab.reserve(slab.length + len(ids))
    for layer in range(SHAPE.layers):
        slab.write(
            layer, torch.randn(1, 2, len(ids), 4, generator=numbers), torch.randn(1, 2, len(ids), 4, generator=numbers)
        )
    slab.commit(ids)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_crop_keeps_exactly_n_tokens(kept: int) -> None:
    slab, whole = filled(3), filled(3)
    slab.crop(kept)
    assert slab.ids.tolist() == list(range(kept))
    whole.crop(kept)
    assert slab.checksum() == whole.checksum()


@pytest.mark.parametrize("kept", [-1, -5, 4, 5, 99])
def test_crop_by_a_wrong_number_is_an_error_and_changes_nothing(kept: int) -> None:
    slab = filled(3)
    before = slab.checksum()
    with pytest.raises(SlabError, match=r"holds 3"):
        slab.crop(kept)
    assert slab.checksum() == before


@pytest.mark.parametrize("twin_of", [Slab.clone, copy.deepcopy])
def test_a_copy_is_independent(twin_of: Callable[[Slab], Slab]) -> None:
    slab = filled(5)
    before = slab.checksum()
    twin = twin_of(slab)
    assert twin.checksum() == before
    twin.crop(2)
    extend(twin, [7, 8, 9], seed=5)
    assert slab.checksum() == before


def test_two_continuations_interleaved_leave_the_stored_slab_alone() -> None:
    stored = filled(6)
    before = stored.checksum()
    a, b = stored.clone(), stored.clone()
    extend(a, [10], seed=1)
    extend(b, [20], seed=2)
    extend(a, [11], seed=3)
    assert stored.checksum() == before
    assert a.ids.tolist() == [0, 1, 2, 3, 4, 5, 10, 11]
    assert b.ids.tolist() == [0, 1, 2, 3, 4, 5, 20]


def test_growth_keeps_the_content_and_counts_its_bytes() -> None:
    slab = filled(60)
    before, size = slab.checksum(), slab.nbytes
    added = slab.reserve(100)
    assert slab.checksum() == before
    assert slab.nbytes == size + added == slab.capacity * SHAPE.token_bytes
    assert slab.capacity >= 100


def test_a_slab_never_outgrows_the_context() -> None:
    slab = filled(3)
    with pytest.raises(SlabError, match="context of 512"):
        slab.reserve(513)


def test_a_forward_that_dies_half_way_leaves_the_slab_as_it_was() -> None:
    slab = filled(5)
    before = slab.checksum()
    slab.write(0, torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4))  # layer 1 never comes, nothing is committed
    assert slab.length == 5
    assert slab.checksum() == before


def test_a_prefix_goes_only_into_an_empty_slab_of_the_same_shape() -> None:
    slab = filled(5)
    with pytest.raises(SlabError, match="empty slab"):
        filled(1).copy_prefix(slab, 2)
    with pytest.raises(SlabError, match="cannot copy"):
        Slab(SHAPE, capacity=64, limit=512).copy_prefix(slab, 6)
    other = SlabShape(3, 2, 4, 4, torch.float32, torch.device("cpu"))
    with pytest.raises(SlabError, match="shape"):
        Slab(other, capacity=64, limit=512).copy_prefix(slab, 2)


def test_a_slab_made_in_inference_mode_can_be_written_outside() -> None:
    with torch.inference_mode():
        slab = Slab(SHAPE, capacity=64, limit=512)
    extend(slab, [1, 2])
    assert slab.length == 2
