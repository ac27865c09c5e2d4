"""A sequence in one buffer a layer, with room for new tokens: written once from its parts.

    parts      [ head ][ skill, moved ][ blanks ]
    buffer     [ head    turned keys     blanks   room ]      the forward reads and writes this
    segment    [ head    keys as computed ...          ]      what is kept of it

Keys and values are as large as the time to read them counts, so nothing between is copied: a part's values go to their
place and stay, its keys are turned on the way there, and put back as they were computed when the forward is done, so
that a later move starts from that again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from pkv_agents.kv.rotary import RotaryRule
from pkv_agents.kv.segment import KVSegment
from pkv_agents.kv.slab import TokenIds

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Of each layer keys and values, (1, heads, tokens, dim)."""


def buffers_of(rule: RotaryRule, parts: Sequence[KVSegment], total: int) -> Layers:
    """Parts one behind the other, each as it must be where it stands, with room for `total` tokens in all."""
    first = parts[0]
    layers = [(_room(keys, total), _room(values, total)) for keys, values in zip(first.keys, first.values, strict=True)]
    for part, start in _placed(parts):
        stop = start + len(part)
        rule.write(part, [(keys[0, :, start:stop], values[0, :, start:stop]) for keys, values in layers])
    return layers


def restore(rule: RotaryRule, parts: Sequence[KVSegment], layers: Layers, anew: Sequence[int]) -> TokenIds:
    """Puts keys that were only turned back to what was computed.

    Args:
        rule: What turned them.
        parts: What the buffers were written from.
        layers: The buffers.
        anew: Places of the tokens that were computed anew.

    Returns:
        The position at which each token of the parts is written now, (tokens,).
    """
    written: list[TokenIds] = []
    which = 0 if rule.family.rotated == "keys" else 1
    for part, start in _placed(parts):
        turned = part.written != part.positions
        turned[[slot - start for slot in anew if start <= slot < start + len(part)]] = False
        written.append(np.where(turned, part.written, part.positions))
        olds = (part.keys, part.values)[which]
        for left, right in _runs(turned):
            for layer, old, kind in zip(layers, olds, rule.kinds, strict=True):
                if kind is not None:
                    layer[which][0, :, start + left : start + right].copy_(old[:, left:right])
    return np.concatenate(written)


def _placed(parts: Sequence[KVSegment]) -> Iterator[tuple[KVSegment, int]]:
    start = 0
    for part in parts:
        yield part, start
        start += len(part)


def _runs(marks: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Iterator[tuple[int, int]]:
    """Where marked tokens stand side by side: first, and one behind the last."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marks, [False]))))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _room(like: torch.Tensor, total: int) -> torch.Tensor:
    heads, _, dim = like.shape
    return torch.empty((1, heads, total, dim), dtype=like.dtype, device=like.device)
