"""A head with skills in it: what is compiled is put in place, what stands between is computed, in one forward.

    ids       [ i i i | s s s s s | j j | t t t | b b ]
    placed              ^ 3: S            ^ 10: T
    computed  [ I I I | S s s s s | J J | T t t | B B ]        seam=1

`splice` puts segments one behind the other behind a head; here the text between and behind them is known too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pkv_agents.errors import SegmentError
from pkv_agents.kv.edit_runs import blank
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.origin import Composed, digest_of
from pkv_agents.kv.segment import KVSegment, concat
from pkv_agents.kv.splice import compiled_origin


@dataclass(frozen=True, slots=True)
class Placed:
    """A compiled segment and its place.

    Attributes:
        start: The position of its first token.
        segment: The segment, wherever it stands now.
    """

    start: int
    segment: KVSegment


def placed_origin(starts: Sequence[int], digests: Sequence[str], *, seam: int) -> Composed:
    """The origin of what `compose` gives, known before anything is compiled.

    Args:
        starts: The position of each segment.
        digests: Of each segment (`KVSegment.digest`).
        seam: How many tokens at the start of each are computed anew.
    """
    return Composed(tuple(f"{start}:{digest}" for start, digest in zip(starts, digests, strict=True)), seam)


def compiled_digest(ids: Sequence[int], preamble: Sequence[int]) -> str:
    """The digest of what `compile_segment` gives for these tokens."""
    written = list(range(len(preamble), len(preamble) + len(ids)))
    return digest_of(ids, written, compiled_origin(ids, preamble))


def compose(model: SegmentModel, ids: Sequence[int], placed: Sequence[Placed], *, seam: int = 0) -> Forwarded:
    """Computes a sequence from position 0, reusing compiled segments where they stand in it.

    Args:
        model: The model that computed the segments.
        ids: All token ids.
        placed: At least one segment, in order, apart from one another; each holds the ids that stand in its place.
        seam: How many tokens at the start of each segment to compute anew.

    Returns:
        The sequence, composed; no logits if a segment stands at its end.

    Raises:
        SegmentError: If there is no segment, `seam` is negative, segments overlap or hold other ids than the sequence
            in their place, or one is another model's.
        ContextLengthError: If the sequence does not fit the context.
    """
    if not placed or seam < 0:
        raise SegmentError("compose with at least one segment, and a seam of 0 or more tokens")
    model.check_ids(ids, 0)
    parts: list[KVSegment] = []
    fresh: list[int] = []
    at = 0
    for one in placed:
        model.check(one.segment)
        stop = one.start + len(one.segment)
        if one.segment.images:
            raise SegmentError("a segment with images is put in place by splice()")
        if one.start < at or one.segment.ids.tolist() != list(ids[one.start : stop]):
            raise SegmentError(f"the segment at {one.start} overlaps another, or its tokens do not stand there")
        parts += [blank(one.segment, ids[at : one.start], at), one.segment.moved(one.start)]
        fresh += [*range(at, one.start), *range(one.start, min(one.start + seam, stop))]
        at = stop
    parts.append(blank(parts[0], ids[at:], at))
    fresh += range(at, len(ids))
    origin = placed_origin([one.start for one in placed], [one.segment.digest for one in placed], seam=seam)
    whole = replace(concat(parts), origin=origin)
    return model.recompute(whole, fresh, origin=origin) if fresh else Forwarded(whole, None, 0)
