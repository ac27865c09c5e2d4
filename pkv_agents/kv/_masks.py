"""Attention masks for a forward whose tokens stand at any places of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pkv_agents.kv._loaded import Config


def layer_kinds(config: Config, layers: int) -> tuple[str, ...]:
    """The kind of each layer, also where the configuration names none."""
    named: Sequence[str] = getattr(config, "layer_types", None) or ()
    whole = "sliding_attention" if getattr(config, "sliding_window", None) else "full_attention"
    return tuple(named[:layers]) or (whole,) * layers


def scattered_mask(config: Config, kinds: Sequence[str], slots: torch.Tensor, total: int, dtype: torch.dtype) -> object:
    """Lets each token see what stands before it, and itself.

    Args:
        config: The model's; it has the window.
        kinds: Of each layer.
        slots: Places of the forward's tokens, (new,).
        total: Tokens of the sequence.
        dtype: The model's.

    Returns:
        An additive mask (1, 1, new, total), or one for each kind of layer where they differ.
    """
    window = getattr(config, "sliding_window", None)
    places = torch.arange(total, device=slots.device)
    seen = places <= slots.unsqueeze(-1)
    masks: dict[str, torch.Tensor] = {}
    for kind in set(kinds):
        # A chunked layer needs no mask of its own: its sequences end with the first chunk (see SegmentModel).
        near = places > slots.unsqueeze(-1) - window if kind == "sliding_attention" and window else seen
        mask = torch.zeros((len(slots), total), dtype=dtype, device=slots.device)
        masks[kind] = mask.masked_fill(~(seen & near), torch.finfo(dtype).min)[None, None]
    return masks if len(masks) > 1 else next(iter(masks.values()))
