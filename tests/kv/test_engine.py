"""Forwards over segments: behind one, at scattered places inside one, with windows; what is stored stays."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import Any

import pytest
import torch

from pkv_agents.errors import ContextLengthError, SegmentError, UnsupportedModelError
from pkv_agents.kv import EXACT, KVSegment, SegmentModel, _proof, splice, support_table
from pkv_agents.kv._attention import AttentionRecorder
from pkv_agents.kv._hf import layers_of
from tests.kv.zoo import VOCABULARY, build, config_of, some_ids, tiny

SUPPORTED = [family.name for family in support_table() if not family.refusal]
IDS = some_ids(20)


@cache
def engine(name: str) -> SegmentModel:
    return SegmentModel(tiny(name))


def assert_equal(have: KVSegment, want: KVSegment, *, tolerance: float = 1e-4) -> None:
    assert have.ids.tolist() == want.ids.tolist()
    for left, right in zip((*have.keys, *have.values), (*want.keys, *want.values), strict=True):
        torch.testing.assert_close(left, right, atol=tolerance, rtol=1e-4)


def spoilt(segment: KVSegment, slots: list[int]) -> KVSegment:
    """The segment with nonsense at some places."""
    keys, values = [k.clone() for k in segment.keys], [v.clone() for v in segment.values]
    for tensor in (*keys, *values):
        tensor[:, slots] = 7.0
    return dataclasses.replace(segment, keys=tuple(keys), values=tuple(values))


@pytest.mark.parametrize("name", SUPPORTED)
def test_behind_a_segment_and_inside_it_as_in_one_go(name: str) -> None:
    """Longer than the window of 8, where a family has one (report R35)."""
    model = engine(name)
    whole = model.prefill(IDS)
    behind = model.forward(model.prefill(IDS[:11]).segment, IDS[11:])
    assert_equal(behind.segment, whole.segment)
    assert whole.logits is not None and behind.logits is not None
    torch.testing.assert_close(behind.logits, whole.logits, atol=2e-4, rtol=1e-4)

    slots = [3, 4, 11, 19]
    inside = model.recompute(spoilt(whole.segment, slots), slots, origin=EXACT)
    assert_equal(inside.segment, whole.segment)
    assert inside.computed == 4 and inside.logits is not None
    torch.testing.assert_close(inside.logits, whole.logits, atol=2e-4, rtol=1e-4)
    untouched = [slot for slot in range(20) if slot not in slots]
    for have, want in zip(inside.segment.keys, whole.segment.keys, strict=True):
        assert torch.equal(have[:, untouched], want[:, untouched])


@pytest.mark.parametrize("name", ["gemma3_text", "mistral", "gpt_oss"])
@pytest.mark.parametrize("length", [7, 8, 9, 20])
def test_a_window_is_kept_by_the_mask_and_every_key_is_there(name: str, length: int) -> None:
    """Against transformers' own cache, which keeps window - 1 keys."""
    from transformers import DynamicCache

    model, config = engine(name), tiny(name).config
    own = DynamicCache(config=config)
    with torch.inference_mode():
        tiny(name)(input_ids=torch.tensor([IDS[:length]]), cache=own, use_cache=True)
        want = tiny(name)(input_ids=torch.tensor([[5]]), cache=own, use_cache=True).logits[0, -1]
    stored = model.prefill(IDS[:length]).segment
    assert all(keys.shape[1] == length for keys in stored.keys)
    for forward in (
        model.forward(stored, [5]),
        model.recompute(model.forward(stored, [5]).segment, [length - 1, length], origin=EXACT),
    ):
        assert forward.logits is not None
        torch.testing.assert_close(forward.logits, want, atol=1e-4, rtol=1e-4)


def test_a_cache_that_has_forgotten_keys_is_refused_with_the_reason() -> None:
    from transformers import DynamicCache

    own = DynamicCache(config=tiny("mistral").config)
    with torch.inference_mode():
        tiny("mistral")(input_ids=torch.tensor([IDS]), cache=own, use_cache=True)
    with pytest.raises(UnsupportedModelError, match="DynamicSlidingWindowLayer"):
        layers_of(own)
    with pytest.raises(UnsupportedModelError, match="tuple is not a cache"):
        layers_of(())


def test_continuations_interleaved_leave_the_stored_segment_alone() -> None:
    """Report R33: A, B, A from one stored segment."""
    model = engine("llama")
    stored = model.prefill(IDS).segment
    before = stored.checksum()
    a = model.forward(stored, [1, 2]).segment
    b = model.forward(stored, [3]).segment
    kept = a.checksum()
    a2 = model.forward(a, [4]).segment
    model.recompute(stored, [0, 5], [9], origin=EXACT)
    moved = model.forward(model.rule.reposition(stored, 100), [3]).segment
    assert (stored.checksum(), a.checksum()) == (before, kept)
    assert a2.ids.tolist() == [*IDS, 1, 2, 4]
    assert b.ids.tolist() == [*IDS, 3]
    assert_equal(a2, model.prefill([*IDS, 1, 2, 4]).segment)
    assert_equal(b, model.prefill([*IDS, 3]).segment)
    assert moved.start == 100 and moved.written[:20].tolist() == list(range(20))


def test_a_moved_segment_is_continued_where_it_stands() -> None:
    model = engine("llama")
    moved = model.forward(model.rule.reposition(model.prefill(IDS).segment, 300), [5, 6])
    truth = model.prefill([*IDS, 5, 6], start=300)
    assert moved.logits is not None and truth.logits is not None
    torch.testing.assert_close(moved.logits, truth.logits, atol=1e-4, rtol=1e-4)
    for (keys, _), want in zip(model.rule.layers(moved.segment), truth.segment.keys, strict=True):
        torch.testing.assert_close(keys, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("slots", "ids", "message"),
    [
        ([], [], "ids must be"),
        ([20], [], "not inside a segment"),
        ([-1], [], "not inside a segment"),
        ([], [VOCABULARY], "0 to 63"),
        ([], [-1], "0 to 63"),
    ],
)
def test_what_cannot_be_computed_is_refused(slots: list[int], ids: list[int], message: str) -> None:
    model = engine("llama")
    with pytest.raises(SegmentError, match=message):
        model.recompute(model.prefill(IDS).segment, slots, ids, origin=EXACT)


def test_the_context_is_not_left() -> None:
    model = engine("llama")
    with pytest.raises(ContextLengthError):
        model.prefill(IDS, start=1010)
    with pytest.raises(ContextLengthError):
        model.forward(model.prefill(IDS).segment.moved(1004), [1])
    with pytest.raises(SegmentError, match="context ends at 1024"):
        model.recompute(model.prefill(IDS).segment.moved(1010), [1], origin=EXACT)


@pytest.mark.parametrize("batch", [[[1, 2], [3, 4]], torch.tensor([[1, 2], [0, 4]]), [torch.tensor([1, 2])]])
def test_a_batch_is_refused_also_with_padding(batch: Any) -> None:
    model = engine("llama")
    for forward in (model.prefill, partial(model.forward, model.prefill(IDS).segment)):
        with pytest.raises(SegmentError, match="one call for each, unpadded"):
            forward(batch)
    segment = model.prefill(IDS).segment
    with pytest.raises(SegmentError, match=r"\(heads, 20, dim\)"):
        dataclasses.replace(segment, keys=tuple(keys[None] for keys in segment.keys))


def test_a_segment_of_another_type_or_place_is_refused_before_it_is_used() -> None:
    model = engine("llama")
    segment = model.prefill(IDS).segment
    before = segment.checksum()
    half = dataclasses.replace(segment, values=tuple(values.half() for values in segment.values))
    meta = dataclasses.replace(segment, keys=tuple(keys.to("meta") for keys in segment.keys))

    def forwarded(one: KVSegment) -> object:
        return model.forward(one, [1])

    def spliced(one: KVSegment) -> object:
        return splice(model, None, [one], query=[1])

    for other, message in ((half, r"torch\.float16 on cpu.*torch\.float32 on cpu"), (meta, "on meta")):
        for use in (model.check, forwarded, spliced):
            with pytest.raises(SegmentError, match=message):
                use(other)
    with pytest.raises(ContextLengthError, match="position -1"):
        model.prefill(IDS, start=-1)
    assert segment.checksum() == before


def test_a_type_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(_proof.TOLERANCES, torch.float16)
    with pytest.raises(UnsupportedModelError, match=r"caches keys and values as torch\.float16"):
        SegmentModel(build(config_of("llama")).half())


def test_the_place_of_an_image_is_refused() -> None:
    with pytest.raises(SegmentError, match="image"):
        engine("qwen2_5_vl_text").prefill([1, 63])


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "gemma2", "deepseek_v3", "gptj"])
def test_the_attention_read_is_the_attention_paid(name: str) -> None:
    eager = build(tiny(name).config)
    eager.set_attn_implementation("eager")
    with torch.inference_mode():
        told = eager(input_ids=torch.tensor([[*IDS, 5, 6]]), output_attentions=True).attentions
    want = sum(layer[0, :, 20:, :20].sum(dim=(0, 1)) for layer in told)
    model = engine(name)
    recorder = AttentionRecorder(20)
    model.recompute(model.prefill(IDS).segment, (), [5, 6], origin=EXACT, recorder=recorder)
    assert recorder.paid is not None
    torch.testing.assert_close(recorder.paid, want, atol=1e-4, rtol=1e-4)


def test_llama4_ends_where_absolute_positions_begin_to_count() -> None:
    config = config_of("llama4_text", attention_chunk_size=64, floor_scale=32)
    assert SegmentModel(build(config)).context_limit == 31


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft 0.21 asks for it
def test_the_fingerprint_tells_adapters_apart() -> None:
    peft = pytest.importorskip("peft")
    model = build(config_of("llama"))
    plain = SegmentModel(model).fingerprint
    lora = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    wrapped = peft.get_peft_model(model, lora, adapter_name="shop").eval()
    assert SegmentModel(wrapped).fingerprint.endswith("+shop")
    assert plain not in SegmentModel(wrapped).fingerprint
