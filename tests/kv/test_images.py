"""Images: prefilled once, moved and spliced without being looked at again, held to the model itself in float32."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv import (
    EXACT,
    Composed,
    DiskStore,
    FieldSpan,
    Images,
    ImageSpan,
    KVSegment,
    SegmentModel,
    Slab,
    SlabShape,
    edit,
    splice,
)
from tests.kv.zoo import some_ids, tiny

NAMES = ["qwen2_5_vl_text", "qwen3_vl_text"]
IMAGE, VIDEO, BEGIN, END = 63, 62, 61, 60
GRIDS = ((4, 6), (8, 4))
"""Patches down and across; merged two by two they are 6 and 8 tokens, and take 3 and 4 positions."""
ONE = [5, 6, BEGIN, *[IMAGE] * 6, END, 7]
TWO = [*ONE, 8, BEGIN, *[IMAGE] * 8, END, 9, 10]
HEAD, QUERY = some_ids(9), some_ids(4, 4)


def pictures(*grids: tuple[int, int], seed: int = 0) -> Images:
    """Random patches of 4 by 4 pixels, two frames deep, three colours."""
    count = sum(down * across for down, across in grids)
    pixels = torch.randn(count, 3 * 2 * 4 * 4, generator=torch.Generator().manual_seed(seed))
    return Images(pixels, torch.tensor([[1, down, across] for down, across in grids]))


def both() -> Images:
    """The image of ONE, and another behind it."""
    return pictures(*GRIDS)


def first() -> Images:
    return Images(both().pixels[:24], both().grid[:1])


@cache
def engine(name: str) -> SegmentModel:
    return SegmentModel(tiny(name))


@cache
def seen(name: str, start: int = 0) -> KVSegment:
    return engine(name).prefill(TWO, start=start, images=both()).segment


@contextlib.contextmanager
def blind(name: str) -> Generator[None]:
    """The vision tower must not be called."""
    seen(name)  # made before, once

    def called(*_: object) -> None:
        raise AssertionError("an image was looked at again")

    hook = tiny(name).model.visual.register_forward_hook(called)
    try:
        yield
    finally:
        hook.remove()


def errors(name: str, have: KVSegment, want: KVSegment) -> list[float]:
    pairs = zip(engine(name).rule.layers(have), engine(name).rule.layers(want), strict=True)
    return [max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*pair, strict=True)) for pair in pairs]


@pytest.mark.parametrize("name", NAMES)
def test_a_prefill_is_what_the_model_itself_does(name: str) -> None:
    """It finds the positions itself when it is given none."""
    ids = torch.tensor([TWO])
    with torch.inference_mode():
        want = tiny(name)(
            input_ids=ids,
            pixel_values=both().pixels,
            image_grid_thw=both().grid,
            mm_token_type_ids=(ids == IMAGE).int(),
            use_cache=False,
        ).logits[0, -1]
    done = engine(name).prefill(TWO, images=both())
    assert done.logits is not None
    torch.testing.assert_close(done.logits, want, atol=1e-5, rtol=1e-5)
    segment = done.segment
    assert segment.positions.tolist()[:12] == [0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7, 8]
    assert [dataclasses.replace(image, digest="") for image in segment.images] == [
        ImageSpan(3, 9, 3, ""),
        ImageSpan(13, 21, 2, ""),
    ]
    assert [image.extent for image in segment.images] == [3, 4]
    assert segment.stop == len(TWO) - 14 + 7 and segment.origin == EXACT
    index = tiny(name).model.get_rope_index(ids, (ids == IMAGE).int(), image_grid_thw=both().grid)[0]
    assert segment.planes(segment.positions).tolist() == index[:, 0].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_images_turned_are_images_computed_there(name: str) -> None:
    """The oracle of the family table; and it sees a missing rotation and one place too far."""
    for position in (1, 17, 500):
        with blind(name):
            moved = engine(name).rule.reposition(seen(name), position)
            engine(name).rule.layers(moved)
        first_layer, *deeper = errors(name, moved, seen(name, position))
        assert first_layer < 1e-6 and max(deeper) < 5e-5
    there = seen(name, 17)
    still = dataclasses.replace(seen(name), written=there.written, start=17)
    assert errors(name, still, there)[0] > 1e-2
    assert errors(name, dataclasses.replace(seen(name).moved(18), start=18), there.moved(17))[0] > 1e-2


@pytest.mark.parametrize("name", NAMES)
def test_an_image_segment_is_spliced_unseen_with_its_keys_in_place(name: str) -> None:
    """In layer 0 keys depend on token, patch and place alone: there a splice is exact. The query goes on behind."""
    model = engine(name)
    truth = model.prefill([*HEAD, *TWO, *ONE, *QUERY], images=pictures_of_three()).segment
    again = model.prefill(ONE, images=first()).segment
    with blind(name):
        done = splice(model, model.prefill(HEAD).segment, [seen(name), again], query=QUERY, seam=2)
    assert done.segment.ids.tolist() == truth.ids.tolist() and done.logits is not None
    assert done.segment.positions.tolist() == truth.positions.tolist() and done.segment.stop == truth.stop
    assert done.segment.images == truth.images
    assert errors(name, done.segment, truth)[0] < 1e-5
    assert isinstance(done.segment.origin, Composed)


def pictures_of_three() -> Images:
    return Images(torch.cat([both().pixels, first().pixels]), torch.cat([both().grid, first().grid]))


@pytest.mark.parametrize("name", NAMES)
def test_text_behind_and_between_images_is_computed_as_in_one_go(name: str) -> None:
    model = engine(name)
    whole = model.prefill([*TWO, *QUERY], images=both())
    slots = [1, 11, 22]
    with blind(name):
        behind = model.forward(seen(name), QUERY)
        spoilt = [tensor.clone() for tensor in (*behind.segment.keys, *behind.segment.values)]
        for tensor in spoilt:
            tensor[:, slots] = 7.0
        half = len(spoilt) // 2
        bad = dataclasses.replace(behind.segment, keys=tuple(spoilt[:half]), values=tuple(spoilt[half:]))
        inside = model.recompute(bad, slots, [11], origin=EXACT).segment
    assert behind.logits is not None and whole.logits is not None
    torch.testing.assert_close(behind.logits, whole.logits, atol=1e-4, rtol=1e-4)
    assert behind.segment.positions.tolist() == whole.segment.positions.tolist()
    longer = model.prefill([*TWO, *QUERY, 11], images=both()).segment
    # Images behind slot 1 were computed with it as it was, so all is as it should be again.
    assert max(errors(name, inside, longer)) < 1e-4


@pytest.mark.parametrize("value", [[40], [40, 41, 42, 43]])
def test_a_field_before_an_image_may_change_its_length(value: list[int]) -> None:
    name = "qwen3_vl_text"
    model = engine(name)
    segment = seen(name).with_fields(FieldSpan("tier", 0, 2), FieldSpan("note", 22, 24))
    with blind(name):
        done = edit(model, segment, "tier", value, mode="in_place").segment
        done = edit(model, done, "note", value, mode="in_place").segment
    truth = model.prefill([*value, *TWO[2:22], *value, *TWO[24:]], images=both()).segment
    assert done.ids.tolist() == truth.ids.tolist() and done.images == truth.images
    assert done.positions.tolist() == truth.positions.tolist()
    assert errors(name, done, truth)[0] < 1e-5


def test_segments_are_cut_between_images_and_joined_again() -> None:
    segment = seen("qwen3_vl_text")
    left, right = segment.slice(0, 11), segment.slice(11, len(segment))
    assert (left.stop, right.start) == (8, 8) and len(left.images) == len(right.images) == 1
    joined = splice(engine("qwen3_vl_text"), left, [right]).segment
    assert joined.checksum() == segment.checksum() and joined.images == segment.images
    assert segment.slice(9, 11).positions.tolist() == [6, 7]
    with pytest.raises(SegmentError, match="tokens 3 to 9 are an image, which cannot be cut"):
        segment.slice(0, 5)


def test_another_picture_is_another_segment_though_its_tokens_are_the_same() -> None:
    model = engine("qwen3_vl_text")
    other = model.prefill(TWO, images=pictures(*GRIDS, seed=1)).segment
    assert other.ids.tolist() == seen("qwen3_vl_text").ids.tolist()
    assert other.digest != seen("qwen3_vl_text").digest
    head = model.prefill(HEAD).segment
    origins = {splice(model, head, [one]).segment.origin for one in (other, seen("qwen3_vl_text"))}
    assert len(origins) == 2
    assert other.slice(2, 24).origin != seen("qwen3_vl_text").slice(2, 24).origin


BAD: dict[str, tuple[list[int], Images, str]] = {
    "too few tokens": ([5, *[IMAGE] * 5], first(), r"runs of \[6\] tokens, but the ids have runs of \[5\]"),
    "no token": ([5], first(), r"runs of \[6\] tokens, but the ids have runs of \[\]"),
    "two as one": ([5, *[IMAGE] * 14], both(), r"runs of \[6, 8\]"),
    "another order": ([*[IMAGE] * 8, 5, *[IMAGE] * 6], both(), r"runs of \[6, 8\]"),
    "a video": ([5, VIDEO, *[IMAGE] * 6], first(), "only images of one frame"),
    "frames": (ONE, Images(both().pixels[:48], torch.tensor([[2, 4, 6]])), "only images of one frame"),
    "an id": ([64, *ONE], first(), "0 to 63"),
    "nothing": ([], first(), "0 to 63"),
}


@pytest.mark.parametrize("case", BAD)
def test_images_that_do_not_fit_are_refused_before_they_are_seen(case: str) -> None:
    ids, images, message = BAD[case]
    with blind("qwen3_vl_text"), pytest.raises(SegmentError, match=message):
        engine("qwen3_vl_text").prefill(ids, images=images)


def test_what_images_cannot_do_is_refused(tmp_path: Path) -> None:
    model, segment = engine("qwen3_vl_text"), seen("qwen3_vl_text")
    before = segment.checksum()
    with pytest.raises(SegmentError, match="takes no images"):
        SegmentModel(tiny("llama")).prefill(ONE, images=first())
    with pytest.raises(SegmentError, match="cannot be computed anew"):
        model.recompute(segment, [4], origin=EXACT)
    with pytest.raises(SegmentError, match="place of an image"):
        model.prefill(ONE)
    with pytest.raises(SegmentError, match="only text"):
        DiskStore(tmp_path).save(model, segment)
    for start in (-1, 1024 - 10):
        with pytest.raises(ContextLengthError):
            model.prefill(TWO, start=start, images=both())
    assert model.prefill(ONE, start=1024 - 8, images=first()).segment.stop == 1024
    shape = SlabShape(4, 2, 8, 8, torch.float32, torch.device("cpu"))
    with pytest.raises(SegmentError, match="segment of text"):
        model.fill(Slab(shape, capacity=64, limit=1024), segment)
    assert segment.checksum() == before


def test_seams_leave_images_out() -> None:
    model, segment = engine("qwen3_vl_text"), seen("qwen3_vl_text")
    with blind("qwen3_vl_text"):
        done = splice(model, model.prefill(HEAD).segment, [segment], query=QUERY, seam=99)
    assert done.computed == len(TWO) - 14 + len(QUERY) and isinstance(done.segment.origin, Composed)
    reused: Any = done.segment.values[1][:, len(HEAD) + 3 : len(HEAD) + 9]
    assert torch.equal(reused, segment.values[1][:, 3:9])
