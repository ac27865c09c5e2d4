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

from collections.abc import Callable, Mapping, Sequence
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

_BLOCK = 512
"""Tokens that are turned at once on a CPU."""

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
        move, pairs = self._move(segment), zip(segment.keys, segment.values, strict=True)
        if move is None:
            return list(pairs)
        made: list[tuple[torch.Tensor, torch.Tensor]] = []
        for (keys, values), kind in zip(pairs, self.kinds, strict=True):
            if kind is not None and self.family.rotated == "keys":
                keys = move.write(keys, torch.empty_like(keys), kind)
            elif kind is not None:
                values = move.write(values, torch.empty_like(values), kind)
            made.append((keys, values))
        return made

    def write(self, segment: KVSegment, buffers: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Writes what `layers` gives, and nothing in between is copied.

        Args:
            segment: It stays as it is.
            buffers: Of each layer keys and values to be written, (heads, tokens, dim).
        """
        move = self._move(segment)
        rows = zip(buffers, segment.keys, segment.values, self.kinds, strict=True)
        for (to_keys, to_values), keys, values, kind in rows:
            for name, have, to in (("keys", keys, to_keys), ("values", values, to_values)):
                if move is None or kind is None or name != self.family.rotated:
                    to.copy_(have)
                else:
                    move.write(have, to, kind)

    def _move(self, segment: KVSegment) -> _Move | None:
        """What to do with the tokens of a segment that do not stand where they were written."""
        moved = np.flatnonzero(segment.written != segment.positions)
        if not len(moved):
            return None
        first, last = int(moved[0]), int(moved[-1]) + 1
        old, new = (
            self._positions(segment, positions, first, last) for positions in (segment.written, segment.positions)
        )
        turns: dict[str, Turn] = {
            kind: _ratio(self._table(new, kind), self._table(old, kind)) for kind in set(self.kinds) if kind is not None
        }
        return _Move(first, last, turns, self.family.layout)

    def _positions(self, segment: KVSegment, positions: TokenIds, first: int, last: int) -> torch.Tensor:
        """(1, 1, tokens), or (3, 1, tokens) of a segment with images."""
        if segment.images:
            return on_device(segment.planes(positions)[:, None, first:last], self.device)
        return on_device(positions[None, None, first:last], self.device)

    def _table(self, positions: torch.Tensor, kind: str) -> torch.Tensor:
        return _pairs(self.rotary(positions[0] if len(positions) == 1 else positions, kind), self.family.table)


@dataclass(frozen=True, slots=True, eq=False)
class _Move:
    """How the tokens of a segment turn.

    Attributes:
        first: The first that does not stand where it was written.
        last: One behind the last such token.
        turns: Of these, by kind of layer.
        layout: Which two numbers are a pair.
    """

    first: int
    last: int
    turns: Mapping[str, Turn]
    layout: Layout

    def write(self, old: torch.Tensor, new: torch.Tensor, kind: str) -> torch.Tensor:
        """Writes (heads, tokens, dim) into another tensor of that shape, and returns it."""
        new[:, : self.first].copy_(old[:, : self.first])
        new[:, self.last :].copy_(old[:, self.last :])
        # Tokens between them that stand where they were written turn by nothing: by 1 + 0i, which changes no number.
        turn_into(old[:, self.first : self.last], self.turns[kind], self.layout, new[:, self.first : self.last])
        return new


def turn(numbers: torch.Tensor, by: Turn, layout: Layout) -> torch.Tensor:
    """Turns the pairs of each head by each token's angles, in float32.

    Args:
        numbers: (heads, tokens, dim); only the first `2 * pairs` of `dim` turn.
        by: Unit tables.
        layout: Which two numbers are a pair.

    Returns:
        A new tensor of the same shape and type.
    """
    return turn_into(numbers, by, layout, torch.empty_like(numbers))


def turn_into(numbers: torch.Tensor, by: Turn, layout: Layout, into: torch.Tensor) -> torch.Tensor:
    """The same, written into a tensor that shares no memory with `numbers`; returns it."""
    cos, sin = by
    rotated = 2 * cos.shape[-1]
    if rotated < numbers.shape[-1]:
        into[..., rotated:].copy_(numbers[..., rotated:])
    # On a CPU in blocks that stay in its cache between the four steps.
    step = _BLOCK if numbers.device.type == "cpu" else max(1, numbers.shape[1])
    for start in range(0, numbers.shape[1], step):
        block = slice(start, start + step)
        old, to = numbers[:, block, :rotated].float(), into[:, block, :rotated]
        new = to if to.dtype == torch.float32 else torch.empty_like(old)
        (left, right), (to_left, to_right) = _halves(old, layout), _halves(new, layout)
        torch.mul(left, cos[block], out=to_left).addcmul_(right, sin[block], value=-1)
        torch.mul(right, cos[block], out=to_right).addcmul_(left, sin[block])
        if new is not to:
            to.copy_(new)
    return into


def _halves(numbers: torch.Tensor, layout: Layout) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and the second number of each pair, as views."""
    if layout == "half":
        left, right = numbers.chunk(2, dim=-1)
        return left, right
    return numbers[..., 0::2], numbers[..., 1::2]


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
