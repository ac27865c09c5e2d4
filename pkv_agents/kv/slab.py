"""Slabs: preallocated keys and values of one token sequence, for all layers of a model.

Why not a plain dynamic cache: `torch.cat` per decoded token copies the whole cache each time. A slab is allocated once,
with room; a forward writes behind the committed tokens, and the layers hand out views.

Rules that make interruption and sharing safe:

- A forward writes only at positions `>= length`; `commit` moves `length` after the forward has returned. A forward that
  dies half-way (Ctrl-C, out of memory) therefore leaves the slab as it was.
- One writer at a time holds `writer`. Others may *read* `[0, length)`: while a writer holds the slab it only appends.
- `crop` and `clone` are exact: n tokens or a `SlabError`, never a silent other length.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pkv_agents.errors import SlabError
from pkv_agents.kv.origin import EXACT, Origin

TokenIds = npt.NDArray[np.int32]

_ROUND = 64
"""Capacities are multiples of this many tokens."""
_GROWTH = 1.25
"""A slab that must grow takes this factor: copying is rare and at most a quarter stands idle."""


@dataclass(frozen=True, slots=True)
class SlabShape:
    """What one token costs in a model.

    Attributes:
        layers: Number of attention layers.
        heads: Number of key/value heads.
        key_dim: Width of a key head.
        value_dim: Width of a value head.
        dtype: Type of keys and values.
        device: Where they live.
    """

    layers: int
    heads: int
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def token_bytes(self) -> int:
        """Bytes of keys and values for one token."""
        return self.layers * self.heads * (self.key_dim + self.value_dim) * self.dtype.itemsize


class Slab:
    """Keys and values of one token sequence, each (layers, 1, heads, capacity, dim).

    Args:
        shape: What one token costs.
        capacity: Tokens to make room for at once.
        limit: The model's context limit; a slab never grows beyond it.
    """

    def __init__(self, shape: SlabShape, *, capacity: int, limit: int) -> None:
        self.shape = shape
        self.limit = limit
        self.origin: Origin = EXACT
        self.length = 0
        self.writer = threading.Lock()
        self.capacity = self._rounded(capacity)
        self._ids: TokenIds = np.zeros(self.capacity, dtype=np.int32)
        self._keys, self._values = self._allocate(self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes that the slab holds, used or not."""
        return self.capacity * self.shape.token_bytes

    @property
    def ids(self) -> TokenIds:
        """The committed token ids (a view)."""
        return self._ids[: self.length]

    def layer(self, index: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Views of one layer's keys and values, (1, heads, end, dim)."""
        return self._keys[index, :, :, :end], self._values[index, :, :, :end]

    def write(self, index: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes one layer's new tokens behind the committed ones; returns views of everything up to their end."""
        start, end = self.length, self.length + keys.shape[-2]
        assert end <= self.capacity, "reserve() comes before a forward"
        all_keys, all_values = self.layer(index, end)
        all_keys[:, :, start:].copy_(keys)
        all_values[:, :, start:].copy_(values)
        return all_keys, all_values

    def commit(self, ids: Sequence[int]) -> None:
        """Counts tokens that a finished forward has written as content."""
        end = self.length + len(ids)
        if end > self.capacity:
            raise SlabError(f"{len(ids)} tokens cannot follow {self.length} in a slab of {self.capacity}")
        self._ids[self.length : end] = ids
        self.length = end

    def reserve(self, tokens: int) -> int:
        """Makes room for `tokens` in all; copies the content once if it must grow. Returns the bytes added."""
        if tokens <= self.capacity:
            return 0
        if tokens > self.limit:
            raise SlabError(f"{tokens} tokens do not fit a context of {self.limit}")
        before = self.nbytes
        old_keys, old_values, old_ids = self._keys, self._values, self._ids
        capacity = self._rounded(max(tokens, int(self.capacity * _GROWTH)))
        keys, values = self._allocate(capacity)
        with torch.inference_mode():
            keys[:, :, :, : self.length].copy_(old_keys[:, :, :, : self.length])
            values[:, :, :, : self.length].copy_(old_values[:, :, :, : self.length])
        ids = np.zeros(capacity, dtype=np.int32)
        ids[: self.length] = old_ids[: self.length]
        self._keys, self._values, self._ids, self.capacity = keys, values, ids, capacity
        return self.nbytes - before

    def crop(self, length: int) -> None:
        """Keeps exactly the first `length` tokens. Nothing is copied."""
        if not 0 <= length <= self.length:
            raise SlabError(f"cannot keep {length} tokens of a slab that holds {self.length}")
        self.length = length

    def copy_prefix(self, source: Slab, length: int) -> None:
        """Fills this empty slab with the first `length` tokens of `source`, which stays as it is."""
        if self.length:
            raise SlabError(f"a prefix is copied into an empty slab, this one holds {self.length} tokens")
        if not 0 <= length <= min(source.length, self.capacity):
            raise SlabError(f"cannot copy {length} tokens from {source.length} into a slab of {self.capacity}")
        if source.shape != self.shape:
            raise SlabError("the two slabs belong to models of different shape")
        with torch.inference_mode():
            self._keys[:, :, :, :length].copy_(source._keys[:, :, :, :length])
            self._values[:, :, :, :length].copy_(source._values[:, :, :, :length])
        self._ids[:length] = source._ids[:length]
        self.origin = source.origin
        self.length = length

    def clone(self) -> Slab:
        """An independent slab with the same content."""
        twin = Slab(self.shape, capacity=self.capacity, limit=self.limit)
        twin.copy_prefix(self, self.length)
        return twin

    def __deepcopy__(self, memo: dict[int, object]) -> Slab:
        return self.clone()

    def checksum(self) -> str:
        """A hash of ids, keys and values of the committed tokens (for integrity checks and tests)."""
        digest = hashlib.sha256(self.ids.tobytes())
        for tensor in (self._keys, self._values):
            digest.update(tensor[:, :, :, : self.length].contiguous().view(torch.uint8).cpu().numpy().tobytes())
        return digest.hexdigest()

    def _rounded(self, tokens: int) -> int:
        return min(self.limit, -(-max(tokens, 1) // _ROUND) * _ROUND)

    def _allocate(self, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
        s = self.shape
        # Made outside inference mode whatever the caller's mode: an inference tensor could not be written later.
        with torch.inference_mode(mode=False):
            keys = torch.empty((s.layers, 1, s.heads, capacity, s.key_dim), dtype=s.dtype, device=s.device)
            values = torch.empty((s.layers, 1, s.heads, capacity, s.value_dim), dtype=s.dtype, device=s.device)
        return keys, values


def common_prefix(left: TokenIds, right: TokenIds) -> int:
    """Number of leading tokens that are equal."""
    size = min(len(left), len(right))
    different = left[:size] != right[:size]
    return int(different.argmax()) if different.any() else size
