"""Reads the attention of one forward, without changing the model.

Attention implementations hand out no weights (sdpa) or are chosen in the model's configuration (eager), which is not
ours to change. A torch function mode sees the calls of this thread alone: of `scaled_dot_product_attention` it computes
the weights beside it, of eager attention it reads the softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_SOFTMAX = frozenset({functional.softmax, torch.softmax, torch.Tensor.softmax})


class AttentionRecorder(TorchFunctionMode):
    """Sums the attention that a forward's tokens pay to each place of a sequence.

    Args:
        total: Tokens of the sequence.

    Attributes:
        paid: Of each place, summed over layers, heads and the forward's tokens, (total,); None before a forward.
    """

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total
        self.paid: torch.Tensor | None = None

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        named = dict(kwargs or {})
        result = func(*args, **named)
        if func is functional.scaled_dot_product_attention:
            self._add(_weights(*args, **named))  # pyright: ignore[reportArgumentType] -- whatever torch was given
        elif func in _SOFTMAX and isinstance(result, torch.Tensor) and result.dim() == 4:
            self._add(result)
        return result

    def _add(self, weights: torch.Tensor) -> None:
        # A model with attention sinks has one column more than there are places.
        if weights.shape[-1] < self._total:
            return
        paid = weights[..., : self._total].float().sum(dim=tuple(range(weights.dim() - 1)))
        self.paid = paid if self.paid is None else self.paid + paid


def _weights(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """The weights that scaled_dot_product_attention uses inside, (batch, heads, queries, keys), float32."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query.float() @ key.float().transpose(-1, -2) * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    return cast("torch.Tensor", scores.softmax(dim=-1))
