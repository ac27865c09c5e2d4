"""Learns a model's rotary rule and its limits from its own modules and configuration."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import cast

import torch

from pkv_agents.kv import capability
from pkv_agents.kv._loaded import Config, LoadedModel, Model
from pkv_agents.kv.families import Family
from pkv_agents.kv.rotary import RotaryRule


def learn_limit(config: Config) -> int:
    """Most tokens of a sequence whose keys can be moved.

    Chunked attention and temperatures by position (Llama 4) depend on absolute positions, but not before the first
    chunk, or the first step of the temperature, ends.
    """
    limits = [config.max_position_embeddings]
    kinds: Sequence[str] = getattr(config, "layer_types", None) or ()
    if "chunked_attention" in kinds:
        limits.append(int(getattr(config, "attention_chunk_size", 0) or limits[0]))
    if getattr(config, "attn_temperature_tuning", False):
        limits.append(int(getattr(config, "floor_scale", limits[0] + 1)) - 1)
    return min(limits)


def learn_rule(
    loaded: LoadedModel, family: Family, kinds: Sequence[str], device: torch.device, limit: int
) -> RotaryRule:
    """Binds a family's row to the rotary module of a loaded model."""
    module, takes_kind = _rotary_module(loaded.model)
    width = torch.zeros(1, dtype=torch.float32, device=device)  # tells the module to answer in float32

    def rotary(positions: torch.Tensor, kind: str) -> object:
        with torch.inference_mode():
            return module(width, positions, kind) if takes_kind else module(width, positions)

    with_position: tuple[str | None, ...] = tuple(
        None if _without_position(loaded.config, family, index, kind) else (kind if takes_kind else "")
        for index, kind in enumerate(kinds)
    )
    parameters = json.dumps(getattr(loaded.config, "rope_parameters", None), sort_keys=True, default=str)
    return RotaryRule(family, with_position, rotary, device, limit, parameters)


def _rotary_module(model: Model) -> tuple[Callable[..., object], bool]:
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last == "rotary_emb" and "vision" not in name and "visual" not in name:
            forward = inspect.signature(cast("Callable[..., object]", getattr(module, "forward", module)))
            return cast("Callable[..., object]", module), "layer_type" in forward.parameters
    raise capability.refused("it has no module named rotary_emb")


def _without_position(config: Config, family: Family, index: int, kind: str) -> bool:
    if family.without_position == "no_rope_layers":
        # The list says where the rotation *is* used: 1 rotates, 0 does not.
        marks = cast("Sequence[int]", getattr(config, "no_rope_layers", ()))
        return not marks[index]
    return bool(family.without_position) and kind == family.without_position
