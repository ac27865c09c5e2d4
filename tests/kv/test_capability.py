"""Each property of a configuration that the engine cannot handle has its reason; asked without any model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pkv_agents.errors import UnsupportedModelError
from pkv_agents.kv import Family, capability

PLAIN: dict[str, Any] = {"rope_parameters": {"rope_type": "default"}, "_attn_implementation": "sdpa"}
FULL = frozenset({"DynamicLayer"})

SEGMENTS: list[tuple[dict[str, Any], str]] = [
    ({"is_encoder_decoder": True}, "attend to later ones"),
    ({"use_bidirectional_attention": True}, "attend to later ones"),
    ({"layer_types": ["full_attention", "linear_attention"]}, "layers of the kind linear_attention"),
    ({"num_kv_shared_layers": 2}, "share keys and values"),
    ({"alibi": True}, "ALiBi"),
    ({"_attn_implementation": "flash_attention_2"}, r"flash_attention_2; load it with attn_implementation='sdpa'"),
    ({"rope_parameters": None}, "no rotary positions"),
    ({"rope_parameters": {}}, "no rotary positions"),
    ({"rope_parameters": {"rope_type": "dynamic"}}, "'dynamic' its cached keys depend on the length"),
    ({"rope_parameters": {"rope_type": "longrope"}}, "'longrope' its cached keys depend on the length"),
    ({"rope_parameters": {"rope_type": "spiral"}}, "'spiral' is not known"),
    ({"rope_parameters": {"full_attention": {"rope_type": "dynamic"}}}, "'dynamic' its cached keys depend"),
]
SLABS: list[tuple[dict[str, Any], str]] = [
    ({"is_encoder_decoder": True}, "encoder-decoder"),
    ({"vision_config": {}}, "images or audio"),
    ({"audio_config": {}}, "images or audio"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "kind sliding_attention; only full attention"),
    ({"sliding_window": 8}, "sliding-window attention"),
    ({"kv_lora_rank": 16}, "compressed latents"),
    ({"num_kv_shared_layers": 2}, "share keys and values"),
    ({"alibi": True}, "ALiBi"),
    ({"rope_parameters": None}, "no rotary positions"),
    ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "differ by layer"),
    ({"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}}, "several axes"),
    ({"rope_parameters": {"rope_type": "longrope"}}, "'longrope' its cached keys depend on the length"),
    ({"rope_parameters": {"rope_type": "spiral"}}, "'spiral' is not known"),
]


def config(changes: dict[str, Any]) -> Any:
    return SimpleNamespace(**{**PLAIN, **changes})


def test_a_plain_model_is_not_refused() -> None:
    assert capability.segment_refusal(config({}), Family("llama"), FULL) is None
    assert capability.refusal(config({}), FULL) is None
    assert capability.input_refusal(config({}), Family("llama")) is None
    assert capability.refusal(config({"sliding_window": 8, "use_sliding_window": False}), FULL) is None


@pytest.mark.parametrize(
    ("ask", "changes", "reason"), [("segments", *one) for one in SEGMENTS] + [("slabs", *one) for one in SLABS]
)
def test_each_property_has_its_reason(ask: str, changes: dict[str, Any], reason: str) -> None:
    if ask == "segments":
        said = capability.segment_refusal(config(changes), Family("llama"), FULL)
    else:
        said = capability.refusal(config(changes), FULL)
    with pytest.raises(UnsupportedModelError, match=rf"this model cannot use the local engine: .*{reason}"):
        capability.require(said is None, str(said))


@pytest.mark.parametrize("layer", ["QuantizedLayer", "LinearAttentionLayer", "StaticLayer"])
def test_a_layer_that_does_not_keep_keys_is_named(layer: str) -> None:
    strange = FULL | {layer}
    assert layer in str(capability.segment_refusal(config({}), Family("llama"), strange))
    assert layer in str(capability.refusal(config({}), strange))


def test_a_windowed_layer_is_for_segments_only() -> None:
    windowed = FULL | {"DynamicSlidingWindowLayer"}
    assert capability.segment_refusal(config({}), Family("mistral"), windowed) is None
    assert "DynamicSlidingWindowLayer" in str(capability.refusal(config({}), windowed))
