"""What nothing can be faster than: a bare forward of new tokens on keys and values for which there is room already."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from typing import Any, cast

import torch
from transformers.cache_utils import Cache, DynamicLayer

_FORCE = "TRANSFORMERS_SDPA_FORCE_GQA"


class _Room(DynamicLayer):
    """One layer's keys and values, allocated once; the layer hands out views."""

    def __init__(self, shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] -- untyped **kwargs upstream
        self.all_keys, self.all_values = torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
        self.length, self.is_initialized = 0, True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        end = self.length + key_states.shape[2]
        self.all_keys[:, :, self.length : end] = key_states
        self.all_values[:, :, self.length : end] = value_states
        self.length = end
        self.keys, self.values = self.all_keys[:, :, :end], self.all_values[:, :, :end]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.length


@contextlib.contextmanager
def _grouped(wanted: bool) -> Generator[None]:
    before = os.environ.get(_FORCE)
    if wanted:
        os.environ[_FORCE] = "1"
    yield
    if wanted and before is None:
        del os.environ[_FORCE]


class Bare:
    """A model on a preallocated cache, called as transformers' users call it; nothing of this library is in it.

    Grouped attention is asked for where transformers would copy all keys for each query head: so the floor is low.

    Args:
        model: A causal language model.
        tokens: To have room for.
    """

    def __init__(self, model: object, tokens: int) -> None:
        self._model = cast("Any", model)
        config = self._model.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (1, config.num_key_value_heads, tokens, width)
        dtype = next(self._model.parameters()).dtype
        self.layers = [_Room(shape, dtype) for _ in range(config.num_hidden_layers)]

    def forward(self, ids: Sequence[int]) -> torch.Tensor:
        """The last token's logits, (vocab,)."""
        start = self.layers[0].length
        with torch.inference_mode(), _grouped(bool(start)):
            return self._model(
                input_ids=torch.tensor([list(ids)]),
                position_ids=torch.arange(start, start + len(ids)).unsqueeze(0),
                cache=Cache(layers=list(self.layers)),
                use_cache=True,
                logits_to_keep=1,
            ).logits[0, -1]

    def keep(self, tokens: int) -> None:
        """Forgets what stands behind the first tokens."""
        for layer in self.layers:
            layer.length = tokens

    def decode(self, ids: Sequence[int]) -> None:
        """Forwards tokens one by one, taking the likeliest after each as a program would."""
        for token in ids:
            int(self.forward([token]).argmax())
