"""Repositioning, held to the model itself, for every family of the support table (reports R34, R36).

The oracle, in float32: keys computed at 0 and turned to p equal the keys that the model computes at p, in layer 0 to a
millionth, and in every layer, since the whole sequence moves. Each mutation of the rule must fail it: an oracle that
passes everything shows nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from pkv_agents.errors import SegmentError, UnsupportedModelError
from pkv_agents.kv import Family, KVSegment, RotaryRule, SegmentModel, support_table
from pkv_agents.kv import engine as engine_module
from tests.kv.zoo import build, config_of, some_ids, tiny

SUPPORTED = [family.name for family in support_table() if not family.refusal]
REFUSED = [family.name for family in support_table() if family.refusal]
IDS = some_ids(20)
PLACES = (1, 17, 500)


@cache
def engine(name: str) -> SegmentModel:
    return SegmentModel(tiny(name))


@cache
def at(name: str, position: int) -> KVSegment:
    return engine(name).prefill(IDS, start=position).segment


def errors(name: str, position: int, rule: RotaryRule | None = None, *, off: int = 0) -> list[float]:
    """Of each layer the largest difference to the truth, relative to its largest number."""
    rule = rule or engine(name).rule
    truth, moved = at(name, position), rule.layers(rule.reposition(at(name, 0), position + off))
    found: list[float] = []
    for index, (keys, values) in enumerate(moved):
        pairs = ((keys, truth.keys[index]), (values, truth.values[index]))
        found.append(max(float((have - want).abs().max() / want.abs().max()) for have, want in pairs))
    return found


@pytest.mark.parametrize("name", SUPPORTED)
def test_keys_turned_are_keys_computed_there(name: str) -> None:
    for position in PLACES:
        first, *deeper = errors(name, position)
        assert first < 1e-6
        assert max(deeper) < 5e-5


@pytest.mark.parametrize("name", SUPPORTED)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.01), (torch.float16, 0.002)])
def test_half_precision_within_what_was_measured(name: str, dtype: torch.dtype, tolerance: float) -> None:
    """In layer 0, relative to its largest number: one rounding of a key, which the model makes too.

    Deeper layers differ by what roundings do to a whole forward; that a wrong row is seen there all the same, the
    model's own proof shows below.
    """
    model = SegmentModel(copy.deepcopy(tiny(name)).to(dtype))
    base = model.prefill(IDS).segment
    for position in PLACES:
        truth = model.prefill(IDS, start=position).segment
        (keys, values), *_ = model.rule.layers(model.rule.reposition(base, position))
        for have, want in ((keys, truth.keys[0]), (values, truth.values[0])):
            assert float((have - want).abs().max() / want.abs().max()) < tolerance


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_wrong_row_is_found_on_the_model_itself_in_every_type(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = copy.deepcopy(tiny("llama")).to(dtype)
    assert SegmentModel(model).dtype == dtype
    monkeypatch.setattr(engine_module, "family_of", partial(Family, layout="interleaved"))
    with pytest.raises(UnsupportedModelError, match="misses"):
        SegmentModel(model)


def mutate_theta(rule: RotaryRule) -> RotaryRule:
    def doubled(positions: torch.Tensor, kind: str) -> object:
        return rule.rotary(positions * 2, kind)

    return replace(rule, rotary=doubled)


def mutate_rotated(rule: RotaryRule) -> RotaryRule:
    other = "values" if rule.family.rotated == "keys" else "keys"
    return replace(rule, family=replace(rule.family, rotated=other))


def mutate_layout(rule: RotaryRule) -> RotaryRule:
    other = "interleaved" if rule.family.layout == "half" else "half"
    return replace(rule, family=replace(rule.family, layout=other))


MUTATIONS: dict[str, Callable[[RotaryRule], RotaryRule]] = {
    "no rotation": lambda rule: replace(rule, kinds=(None,) * len(rule.kinds)),
    "wrong theta": mutate_theta,
    "the other tensor rotated": mutate_rotated,
    "the other layout": mutate_layout,
}


@pytest.mark.parametrize("name", SUPPORTED)
def test_the_oracle_sees_every_mutation(name: str) -> None:
    rule = engine(name).rule
    for mutation, mutate in MUTATIONS.items():
        assert errors(name, 17, mutate(rule))[0] > 1e-3, mutation
    for off in (-1, 1):
        assert errors(name, 17, off=off)[0] > 1e-3, f"off by {off}"


@pytest.mark.parametrize("name", [f.name for f in support_table() if f.without_position and not f.refusal])
def test_a_layer_without_position_must_not_turn(name: str) -> None:
    rule = engine(name).rule
    still = [index for index, kind in enumerate(rule.kinds) if kind is None]
    turning = replace(rule, kinds=tuple(kind or "" for kind in rule.kinds))
    assert still and all(errors(name, 17, turning)[index] > 1e-3 for index in still)
    assert all(errors(name, 17)[index] < 5e-5 for index in still)


def test_frequencies_by_kind_of_layer_must_not_be_swapped() -> None:
    rule = engine("gemma3_text").rule
    swap: dict[str | None, str | None] = {"sliding_attention": "full_attention", "full_attention": "sliding_attention"}
    assert min(errors("gemma3_text", 17, replace(rule, kinds=tuple(swap[kind] for kind in rule.kinds)))) > 1e-3


ROPES: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
        "rope_theta": 1e4,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 256},
}


@pytest.mark.parametrize("kind", ROPES)
def test_scaled_frequencies(kind: str) -> None:
    model = SegmentModel(build(config_of("llama", rope_parameters=ROPES[kind])))
    base = model.prefill(IDS).segment
    for position in PLACES:
        truth, moved = model.prefill(IDS, start=position).segment, model.rule.reposition(base, position)
        for (keys, values), want_keys, want_values in zip(
            model.rule.layers(moved), truth.keys, truth.values, strict=True
        ):
            torch.testing.assert_close(keys, want_keys, atol=1e-4, rtol=0)
            torch.testing.assert_close(values, want_values, atol=1e-4, rtol=0)


def test_scaled_tables_do_not_scale_keys() -> None:
    model = SegmentModel(build(config_of("llama", rope_parameters=ROPES["yarn"])))
    base = model.prefill(IDS).segment
    cos, sin = model.rule.rotary(torch.tensor([[3]]), "")  # pyright: ignore[reportGeneralTypeIssues]
    assert float((cos**2 + sin**2).max()) > 1.2  # this model does scale them
    turned, _ = model.rule.layers(model.rule.reposition(base, 300))[0]
    torch.testing.assert_close(turned.norm(dim=-1), base.keys[0].norm(dim=-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_that_depend_on_the_length_are_refused(kind: str) -> None:
    rope: dict[str, Any] = {"rope_type": kind, "factor": 2.0, "rope_theta": 1e4}
    if kind == "longrope":
        factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 512}
        rope |= factors
    with pytest.raises(UnsupportedModelError, match="depend on the length"):
        SegmentModel(build(config_of("phi3" if kind == "longrope" else "llama", rope_parameters=rope)))


SMALL_REFUSED: dict[str, dict[str, Any]] = {
    "bloom": {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "gpt2": {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0},
    "mamba": {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
}


@pytest.mark.parametrize(
    ("name", "reason"), [("bloom", "ALiBi"), ("gpt2", "absolute and learnt"), ("mamba", "recurrent state")]
)
def test_what_has_no_rotary_keys_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedModelError, match=reason):
        SegmentModel(build(CONFIG_MAPPING[name](**SMALL_REFUSED[name])))


def test_a_model_that_takes_images_is_refused_unless_its_text_part_is_known() -> None:
    model = build(config_of("llama"))
    model.config.vision_config = {"depth": 1}
    with pytest.raises(UnsupportedModelError, match="images"):
        SegmentModel(model)


def test_a_hybrid_with_linear_attention_is_refused_with_the_reason() -> None:
    config = config_of(
        "qwen3_next",
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
    )
    with pytest.raises(UnsupportedModelError, match="recurrent state"):
        SegmentModel(build(config))


def test_a_family_that_is_not_known_is_refused() -> None:
    model = build(config_of("llama"))
    model.config.model_type = "llamoid"
    with pytest.raises(UnsupportedModelError, match="not known"):
        SegmentModel(model)


def test_a_quantised_cache_is_refused() -> None:
    model = build(config_of("llama"))
    model.generation_config.cache_implementation = "quantized"
    with pytest.raises(UnsupportedModelError, match="quantized cache"):
        SegmentModel(model)


def test_another_attention_is_refused_with_the_mend() -> None:
    model = build(config_of("llama"))
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(UnsupportedModelError, match="attn_implementation='sdpa'"):
        SegmentModel(model)


def test_a_wrong_row_is_found_on_the_model_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """HunYuan normalises keys after it has turned them: no row can be right, and the proof sees that."""
    torch.manual_seed(0)
    model = build(config_of("hunyuan_v1_dense"))
    for name, parameter in model.named_parameters():
        if "key_layernorm" in name:
            parameter.data.uniform_(0.2, 2.0)
    with pytest.raises(UnsupportedModelError, match="normalises keys"):
        SegmentModel(model)
    monkeypatch.setattr(engine_module, "family_of", Family)
    with pytest.raises(UnsupportedModelError, match=r"turned to position \d+, layer \d+ misses"):
        SegmentModel(model)
    monkeypatch.setattr(engine_module, "family_of", partial(Family, layout="interleaved"))
    with pytest.raises(UnsupportedModelError, match="misses"):
        SegmentModel(build(config_of("llama")))


def test_every_refusal_has_its_reason_and_the_table_is_sorted() -> None:
    names = [family.name for family in support_table()]
    assert names == sorted(set(names))
    assert REFUSED and len(SUPPORTED) >= 30
    assert set(names) <= set(CONFIG_MAPPING.keys())


def test_a_hundred_moves_cost_no_more_than_one() -> None:
    model = SegmentModel(build(config_of("llama")).bfloat16())
    base = model.prefill(IDS).segment
    moved = base
    for step in range(100):
        moved = model.rule.reposition(moved, -2 if step % 2 else 3)
    there = model.rule.reposition(base, moved.start)
    for have, want in zip(model.rule.layers(moved), model.rule.layers(there), strict=True):
        assert torch.equal(have[0], want[0])
    assert moved.start == 50


def test_a_segment_stays_inside_the_context() -> None:
    rule, base = engine("llama").rule, at("llama", 0)
    for by in (-1, 1024 - len(IDS) + 1):
        with pytest.raises(SegmentError, match="context"):
            rule.reposition(base, by)
    assert rule.reposition(base, 1024 - len(IDS)).stop == 1024


def test_what_does_not_move_is_handed_out_bit_for_bit() -> None:
    rule, base = engine("llama").rule, at("llama", 0)
    assert all(have[0] is want for have, want in zip(rule.layers(base), base.keys, strict=True))


@pytest.mark.parametrize("name", SUPPORTED)
def test_what_stands_still_among_what_moves_keeps_every_number(name: str) -> None:
    base = at(name, 0)
    layers = engine(name).rule.layers(replace(base, written=[*range(2), 1, *range(3, len(base) - 1), 0]))
    for have, want in zip(layers, zip(base.keys, base.values, strict=True), strict=True):
        for one, other in zip(have, want, strict=True):
            assert all(torch.equal(one[:, part], other[:, part]) for part in (slice(2), slice(3, -1)))
