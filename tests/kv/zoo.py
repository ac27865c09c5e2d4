"""Tiny random models of every family in the support table."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VOCABULARY = 64

_BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 1024,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_NO_HEAD_DIM = {name: value for name, value in _BASE.items() if name != "head_dim"}
_EXPERTS = {"num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
_MIXED = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 8}
_LATENT = {
    "kv_lora_rank": 16,
    "q_lora_rank": None,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "num_key_value_heads": 4,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 256}
_SPARSE = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
_HALF = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}
"""Two pairs of a head turn; with one pair all layouts are the same."""

_PLACES: dict[str, Any] = {
    "image_token_id": 63,
    "video_token_id": 62,
    "vision_start_token_id": 61,
    "vision_end_token_id": 60,
}

CHANGES: dict[str, dict[str, Any]] = {
    "cohere2": _MIXED,
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "gemma2": _MIXED,
    "gemma3_text": _MIXED,
    "glm": {"pad_token_id": 0},
    "glm4": {"pad_token_id": 0},
    "gpt_neox": _HALF,
    "gpt_oss": {**_MIXED, **_EXPERTS, "rope_parameters": _YARN},
    "llama4_text": {
        "no_rope_layers": [1, 1, 0, 1],
        "num_local_experts": 2,
        "intermediate_size_mlp": 32,
        "pad_token_id": 0,
    },
    "mistral": {"sliding_window": 8},
    "mixtral": {"num_local_experts": 2},
    "olmoe": {"num_experts": 2, "num_experts_per_tok": 1},
    "phi3": {"pad_token_id": 0},
    "qwen2_moe": {**_SPARSE, "shared_expert_intermediate_size": 16},
    "qwen3_moe": _SPARSE,
    "smollm3": {"no_rope_layers": [1, 0, 1, 1], "pad_token_id": 0},
    "stablelm": _HALF,
    "starcoder2": {"sliding_window": 8},
}
MECHANISMS = (
    "cohere2",  # interleaved; layers with a window turn, the others have no position
    "deepseek_v2",  # latents, complex tables
    "deepseek_v3",
    "gemma3_text",  # frequencies by kind of layer, windows
    "glm",  # interleaved and partial
    "gpt_oss",  # scaled tables, sinks, windows, eager attention
    "gptj",  # its own tables
    "llama",
    "llama4_text",  # complex tables, chunks, layers without position
    "mistral",  # a window in every layer
    "phi",  # partial
    "qwen2_5_vl_text",  # three axes
    "qwen3_vl_text",  # three axes, interleaved
    "smollm3",
)
"""A family for each mechanism: what is built on forwards and turning is tested on these, those two on all."""

_NO_HEAD_DIM_FAMILIES = {"falcon", "gptj", "gpt_neox", "phi", "stablelm", "persimmon", "deepseek_v2", "deepseek_v3"}


def config_of(name: str, **changes: Any) -> Any:
    """A tiny configuration of a family."""
    base: dict[str, Any] = _NO_HEAD_DIM if name in _NO_HEAD_DIM_FAMILIES else _BASE
    if name == "gptj":
        base = {"vocab_size": 64, "n_embd": 32, "n_layer": 4, "n_head": 4, "rotary_dim": 4, "n_positions": 1024}
        base = base | {"initializer_range": 0.3, "bos_token_id": None, "eos_token_id": None}
    settings: dict[str, Any] = {**base, **CHANGES.get(name, {}), **changes}
    return CONFIG_MAPPING[name](**settings)


def build(config: Any, seed: int = 0) -> Any:
    """A random model in evaluation mode, float32."""
    torch.manual_seed(seed)
    if isinstance(config, Qwen2_5_VLConfig):
        return Qwen2_5_VLForConditionalGeneration(config).eval()
    if isinstance(config, Qwen3VLConfig):
        return Qwen3VLForConditionalGeneration(config).eval()
    return AutoModelForCausalLM.from_config(config).eval()


@cache
def tiny(name: str) -> Any:
    """The tiny model of a family (made once)."""
    if name == "qwen2_5_vl_text":
        text = {**_BASE, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
        vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
        return build(Qwen2_5_VLConfig(text_config=text, vision_config={**vision, "patch_size": 4}, **_PLACES))
    if name == "qwen3_vl_text":
        axes = {"mrope_section": [2, 1, 1], "mrope_interleaved": True}
        text = {**_BASE, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, **axes}}
        vision = {"depth": 2, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
        deep = {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 16, "patch_size": 4}
        return build(Qwen3VLConfig(text_config=text, vision_config={**vision, **deep}, **_PLACES))
    return build(config_of(name))


def some_ids(count: int, seed: int = 1) -> list[int]:
    """Random token ids."""
    return torch.randint(1, 60, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
