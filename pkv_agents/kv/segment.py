"""KV segments: the keys and values of a run of tokens, as a value that never changes.

A segment remembers two things about place: where its keys were computed (`written`) and where it stands now (`start`).
Moving it changes only `start`; `RotaryRule` turns the keys from the one to the other when they are needed, always from
what was computed, so moving a hundred times costs no more precision than moving once.

The tensors of a slice are views of the whole segment's. Nothing in this package writes into them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from pkv_agents.errors import SegmentError
from pkv_agents.kv.image_span import ImageSpan
from pkv_agents.kv.origin import EXACT, Composed, Origin, digest_of
from pkv_agents.kv.slab import Slab, TokenIds


@dataclass(frozen=True, slots=True)
class FieldSpan:
    """Where the value of one field stands.

    Attributes:
        path: The field, as the baseline names it (`orders[4471].status`).
        start: Its first token, counted from the start of the segment.
        stop: One behind its last token.
    """

    path: str
    start: int
    stop: int

    def moved(self, by: int) -> FieldSpan:
        """The same span `by` tokens further on."""
        return FieldSpan(self.path, self.start + by, self.stop + by)


@dataclass(frozen=True, slots=True, eq=False)
class KVSegment:
    """Keys and values of consecutive tokens.

    Attributes:
        ids: Token ids, (tokens,), read-only.
        written: The position at which each key was computed, (tokens,), read-only.
        start: Position of the first token now.
        keys: Of each layer (heads, tokens, dim), rotated for `written`.
        values: Of each layer (heads, tokens, dim).
        fingerprint: Of the model, its weights and its adapter.
        origin: How they came about.
        fields: Which tokens are the value of which field.
        images: Which tokens are images. Each has a place on a plane (`planes`); as its position counts the first's.
    """

    ids: TokenIds
    written: TokenIds
    start: int
    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    fingerprint: str
    origin: Origin = EXACT
    fields: tuple[FieldSpan, ...] = ()
    images: tuple[ImageSpan, ...] = ()

    def __post_init__(self) -> None:
        for name in ("ids", "written"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        count = len(self.ids)
        if len(self.written) != count or len(self.keys) != len(self.values) or self.start < 0:
            raise SegmentError(
                "a segment has one written position a token, as many keys as values, and no negative start"
            )
        if any(tensor.dim() != 3 or tensor.shape[1] != count for tensor in (*self.keys, *self.values)):
            raise SegmentError(f"every layer of a segment of {count} tokens is (heads, {count}, dim)")
        _check_fields(self.fields, count)

    @classmethod
    def from_slab(
        cls, slab: Slab, *, fingerprint: str, start: int = 0, stop: int | None = None, fields: Sequence[FieldSpan] = ()
    ) -> KVSegment:
        """Copies tokens out of a slab.

        Args:
            slab: Its committed tokens stand at the positions 0, 1, 2 ...
            fingerprint: Of the model that filled it.
            start: First token.
            stop: One behind the last token; None for all that are committed.
            fields: Spans counted from the slab's start; those inside are kept.

        Raises:
            SegmentError: If the range is not inside the committed tokens.
        """
        end = slab.length if stop is None else stop
        if not 0 <= start <= end <= slab.length:
            raise SegmentError(f"no tokens {start} to {end} in a slab that holds {slab.length}")
        with torch.inference_mode(mode=False), torch.no_grad():
            layers = [slab.layer(index, end) for index in range(slab.shape.layers)]
            whole = cls(
                ids=slab.ids[:end],
                written=np.arange(end, dtype=np.int32),
                start=0,
                keys=tuple(keys[0].clone() for keys, _ in layers),
                values=tuple(values[0].clone() for _, values in layers),
                fingerprint=fingerprint,
                origin=slab.origin,
                fields=tuple(span for span in fields if span.stop <= end),
            )
        return whole.slice(start, end)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def stop(self) -> int:
        """Position behind the last token."""
        return self.start + len(self.ids) - sum(image.stop - image.start - image.extent for image in self.images)

    @property
    def positions(self) -> TokenIds:
        """Where each token stands now, (tokens,)."""
        positions = np.arange(self.start, self.start + len(self.ids), dtype=np.int32)
        for image in self.images:
            positions[image.start : image.stop] = positions[image.start]
            positions[image.stop :] -= image.stop - image.start - image.extent
        return positions

    def planes(self, positions: TokenIds) -> TokenIds:
        """Of each token the position in time, down and across, (3, tokens): they differ in images alone.

        Args:
            positions: Of each token, (tokens,); of an image's tokens that of the first.
        """
        planes = np.stack([positions] * 3)
        for image in self.images:
            down, across = np.divmod(np.arange(image.stop - image.start, dtype=np.int32), image.across)
            planes[1, image.start : image.stop] += down
            planes[2, image.start : image.stop] += across
        return planes

    @property
    def nbytes(self) -> int:
        """Bytes of its keys and values."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (*self.keys, *self.values))

    @property
    def digest(self) -> str:
        """Identifies its tokens and how they were computed, not where they stand now."""
        return digest_of(self.ids, self.written.tolist(), self.origin, *(image.digest for image in self.images))

    def slice(self, start: int, stop: int) -> KVSegment:
        """The tokens `start` to `stop`, counted from the segment's start; views, nothing is copied.

        What does not begin with the segment's first token was computed behind tokens that it no longer holds, so it is
        not exact any more.

        Raises:
            SegmentError: If the range is not inside the segment, or cuts through an image.
        """
        if not 0 <= start <= stop <= len(self):
            raise SegmentError(f"no tokens {start} to {stop} in a segment of {len(self)}")
        for image in self.images:
            if any(image.start < edge < image.stop for edge in (start, stop)):
                raise SegmentError(f"tokens {image.start} to {image.stop} are an image, which cannot be cut")
        origin = self.origin
        if start:
            seen = (image.digest for image in self.images)
            origin = Composed((digest_of(self.ids[start:stop], digest_of(self.ids[:start], origin), *seen),))
        return KVSegment(
            ids=self.ids[start:stop],
            written=self.written[start:stop],
            start=int(self.positions[start]) if start < len(self) else self.stop,
            keys=tuple(keys[:, start:stop] for keys in self.keys),
            values=tuple(values[:, start:stop] for values in self.values),
            fingerprint=self.fingerprint,
            origin=origin,
            fields=tuple(s.moved(-start) for s in self.fields if start <= s.start and s.stop <= stop),
            images=tuple(s.moved(-start) for s in self.images if start <= s.start and s.stop <= stop),
        )

    def moved(self, start: int) -> KVSegment:
        """The same segment at another position (its keys are turned when they are used)."""
        return replace(self, start=start)

    def with_fields(self, *fields: FieldSpan) -> KVSegment:
        """The same segment with these fields instead of its own.

        Raises:
            SegmentError: If a span is empty, outside, or cuts through another.
        """
        return replace(self, fields=fields)

    def field(self, path: str) -> FieldSpan:
        """The span of a field.

        Raises:
            SegmentError: If the segment has no such field.
        """
        for span in self.fields:
            if span.path == path:
                return span
        raise SegmentError(f"this segment has no field {path!r}: name its tokens with with_fields() first")

    def checksum(self) -> str:
        """A hash of ids, positions, keys and values (for integrity checks and tests)."""
        digest = hashlib.sha256(self.ids.tobytes() + self.written.tobytes() + self.start.to_bytes(8, "little"))
        for tensor in (*self.keys, *self.values):
            digest.update(tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes())
        return digest.hexdigest()


def concat(parts: Sequence[KVSegment]) -> KVSegment:
    """Joins segments that stand one behind the other into one, composed of them.

    Args:
        parts: At least one; each begins where the one before ends (`KVSegment.moved` puts it there).

    Raises:
        SegmentError: If there is none, they leave a gap or overlap, or they belong to different models.
    """
    if not parts:
        raise SegmentError("there is nothing to join")
    first = parts[0]
    if len(parts) == 1:
        return first
    fields: list[FieldSpan] = []
    images: list[ImageSpan] = []
    before = 0
    for index, part in enumerate(parts):
        if part.fingerprint != first.fingerprint or len(part.keys) != len(first.keys):
            raise SegmentError(f"part {index} was computed by another model or adapter than part 0")
        if index and part.start != parts[index - 1].stop:
            raise SegmentError(
                f"part {index} begins at position {part.start}, but part {index - 1} ends at {parts[index - 1].stop}: "
                "move it there first"
            )
        fields += [span.moved(before) for span in part.fields]
        images += [span.moved(before) for span in part.images]
        before += len(part)
    layers = range(len(first.keys))
    with torch.no_grad():
        return KVSegment(
            ids=np.concatenate([part.ids for part in parts]),
            written=np.concatenate([part.written for part in parts]),
            start=first.start,
            keys=tuple(torch.cat([part.keys[layer] for part in parts], dim=1) for layer in layers),
            values=tuple(torch.cat([part.values[layer] for part in parts], dim=1) for layer in layers),
            fingerprint=first.fingerprint,
            origin=Composed(tuple(part.digest for part in parts)),
            fields=tuple(fields),
            images=tuple(images),
        )


def joined(parts: Sequence[KVSegment]) -> KVSegment:
    """What `concat` gives, with no layers: ids, positions, fields and images, for which nothing is copied.

    Raises:
        SegmentError: As `concat`.
    """
    return concat([replace(part, keys=(), values=()) for part in parts])


def _frozen(numbers: npt.ArrayLike) -> TokenIds:
    array = np.array(numbers, dtype=np.int32)
    array.setflags(write=False)
    return array


def _check_fields(fields: Sequence[FieldSpan], tokens: int) -> None:
    paths: set[str] = set()
    for span in fields:
        if not 0 <= span.start < span.stop <= tokens:
            raise SegmentError(f"field {span.path!r} stands at tokens {span.start} to {span.stop} of {tokens}")
        if span.path in paths:
            raise SegmentError(f"field {span.path!r} is named twice")
        paths.add(span.path)
        for other in fields:
            if span.start < other.start < span.stop < other.stop:
                raise SegmentError(f"field {span.path!r} cuts through field {other.path!r}")
