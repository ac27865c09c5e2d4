"""Repositioning: keys computed at one position, as the model would have computed them at another.

A rotary embedding multiplies each pair of a key's numbers, seen as a complex number, by t(p) = s * exp(i * p * f). So a
key of position `old` becomes one of position `new` by multiplying with t(new) / t(old). Three things go wrong easily:

- the tables t must be the model's own, at both positions: one rotation by `new - old` drifts from what the model
  computes in float32 at the larger positions (1e-4 at 4000 against 1e-6);
- `s` (`attention_scaling`, 1.14 with yarn) must cancel; turning back and forth without dividing scales keys by its
  square;
- the start must be what was computed, not what an earlier move left: in bfloat16 a chain of moves loses 5 % in a
  hundred.

An oracle for each family holds this, and `SegmentModel` repeats it on the loaded model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from pkv_agents.errors import SegmentError
from pkv_agents.kv._device import on_device
from pkv_agents.kv.families import Family, Layout, Table
from pkv_agents.kv.segment import KVSegment
from pkv_agents.kv.slab import TokenIds

Turn = tuple[torch.Tensor, torch.Tensor]
"""cos and sin of each token's and pair's angle, each (tokens, pairs), float32."""

Rotary = Callable[[torch.Tensor, str], object]
"""The model's own tables: of positions (1, tokens), or (3, 1, tokens), and a kind of layer what its module returns."""


@dataclass(frozen=True, slots=True, eq=False)
class RotaryRule:
    """How a loaded model's cached keys carry their position.

    Attributes:
        family: The row of the family table.
        kinds: Of each layer the kind that chooses its frequencies, None if it has no position.
        rotary: The model's own tables.
        device: Where its tensors are.
        limit: Most tokens of a sequence.
        parameters: The configuration's rotary parameters, as canonical JSON: part of a stored segment's key.
    """

    family: Family
    kinds: tuple[str | None, ...]
    rotary: Rotary
    device: torch.device
    limit: int
    parameters: str = "{}"

    def reposition(self, segment: KVSegment, by: int) -> KVSegment:
        """The segment `by` positions further on, or back if negative.

        Nothing is computed yet: keys are turned when they are used (`layers`), from what was computed at first.

        Raises:
            SegmentError: If it would leave the model's context.
        """
        start = segment.start + by
        if start < 0 or segment.stop + by > self.limit:
            raise SegmentError(f"{len(segment)} tokens at position {start} are not inside a context of {self.limit}")
        return segment.moved(start)

    def layers(self, segment: KVSegment) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of each layer, (heads, tokens, dim), as they must be where the segment stands.

        Tokens that stand where they were written are handed out bit for bit.
        """
        moved = np.flatnonzero(segment.written != segment.positions)
        if not len(moved):
            return list(zip(segment.keys, segment.values, strict=True))
        first, last = int(moved[0]), int(moved[-1]) + 1
        old, new = (
            self._positions(segment, positions, first, last) for positions in (segment.written, segment.positions)
        )
        turns: dict[str, Turn] = {
            kind: _ratio(self._table(new, kind), self._table(old, kind)) for kind in set(self.kinds) if kind is not None
        }
        still = (old == new)[0, 0].unsqueeze(-1)
        return [
            self._turned(keys, values, turns, kind, slice(first, last), still)
            for keys, values, kind in zip(segment.keys, segment.values, self.kinds, strict=True)
        ]

    def _turned(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        turns: Mapping[str, Turn],
        kind: str | None,
        part: slice,
        still: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if kind is None:
            return keys, values
        old = keys if self.family.rotated == "keys" else values
        new = old.clone()
        new[:, part] = torch.where(still, old[:, part], turn(old[:, part], turns[kind], self.family.layout))
        return (new, values) if self.family.rotated == "keys" else (keys, new)

    def _positions(self, segment: KVSegment, positions: TokenIds, first: int, last: int) -> torch.Tensor:
        """(1, 1, tokens), or (3, 1, tokens) of a segment with images."""
        if segment.images:
            return on_device(segment.planes(positions)[:, None, first:last], self.device)
        return on_device(positions[None, None, first:last], self.device)

    def _table(self, positions: torch.Tensor, kind: str) -> torch.Tensor:
        return _pairs(self.rotary(positions[0] if len(positions) == 1 else positions, kind), self.family.table)


def turn(numbers: torch.Tensor, by: Turn, layout: Layout) -> torch.Tensor:
    """Turns the pairs of each head by each token's angles, in float32.

    Args:
        numbers: (heads, tokens, dim); only the first `2 * pairs` of `dim` turn.
        by: Unit tables.
        layout: Which two numbers are a pair.

    Returns:
        A new tensor of the same shape and type.
    """
    cos, sin = by
    rotated = 2 * cos.shape[-1]
    head, rest = numbers[..., :rotated].float(), numbers[..., rotated:]
    if layout == "half":
        left, right = head.chunk(2, dim=-1)
    else:
        left, right = head[..., 0::2], head[..., 1::2]
    both = (left * cos - right * sin, right * cos + left * sin)
    turned = torch.cat(both, dim=-1) if layout == "half" else torch.stack(both, dim=-1).flatten(-2)
    return torch.cat((turned.to(numbers.dtype), rest), dim=-1)


def _ratio(new: torch.Tensor, old: torch.Tensor) -> Turn:
    """The quotient new / old, of unit length, so that no scale is left."""
    ratio = new * old.conj()
    ratio = ratio / ratio.abs()
    return ratio.real.float(), ratio.imag.float()


def _pairs(found: object, table: Table) -> torch.Tensor:
    """What a rotary module returned, as one complex number a token and pair, (tokens, pairs).

    In double precision: the tables are the model's, what is made of them should add no error of its own.
    """
    if table == "complex":
        assert isinstance(found, torch.Tensor)
        return found[0].to(torch.complex128)
    first, second = (part[0].double() for part in cast("tuple[torch.Tensor, torch.Tensor]", found))
    if table == "sincos":
        first, second = second, first
    if table == "doubled":
        first, second = (part[..., : part.shape[-1] // 2] for part in (first, second))
    if table == "repeated":
        first, second = first[..., ::2], second[..., ::2]
    return torch.complex(first, second)
