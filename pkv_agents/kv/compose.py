"""A prompt with skills in it: what is compiled is put in place, and only what stands between is computed.

    ids       [ i i i | s s s s s | j j | t t t | b b ]
    placed              ^ 3: S            ^ 10: T
    computed  [ I I I | S s s s s | J J | T t t | B B ]        seam=1
              prefill   ...... one forward ..........

`splice` puts segments one behind the other behind a head; here the text between and behind them is known too. A segment
that was compiled behind just the tokens that stand before it here is what a prefill gives: no seam, and still exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pkv_agents.errors import SegmentError
from pkv_agents.kv.edit_runs import blank
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.origin import EXACT, Composed, Origin, digest_of
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
        starts: The position of each segment, but for those that are exact in their place.
        digests: Of each of these segments (`KVSegment.digest`).
        seam: How many tokens at the start of each are computed anew.
    """
    return Composed(tuple(f"{start}:{digest}" for start, digest in zip(starts, digests, strict=True)), seam)


def compiled_digest(ids: Sequence[int], preamble: Sequence[int]) -> str:
    """The digest of what `compile_segment` gives for these tokens."""
    written = list(range(len(preamble), len(preamble) + len(ids)))
    return digest_of(ids, written, compiled_origin(ids, preamble))


def compose(
    model: SegmentModel,
    ids: Sequence[int],
    placed: Sequence[Placed],
    *,
    seam: int = 0,
    base: KVSegment | None = None,
) -> Forwarded:
    """Computes a sequence from position 0, reusing compiled segments where they stand in it.

    Args:
        model: The model that computed the segments.
        ids: All token ids.
        placed: At least one segment, in order, apart from one another; each holds the ids that stand in its place.
        seam: How many tokens at the start of each segment to compute anew, but of those that are exact in their place.
        base: What the sequence begins with, if that is there already: exact, or composed with the same seam.

    Returns:
        The sequence: composed, or exact if the base is and every segment is in its place. No logits if a segment
        stands at its end.

    Raises:
        SegmentError: If there is no segment, `seam` is negative, segments overlap or hold other ids than the sequence
            in their place, one is another model's, or nothing can be composed behind this base.
        ContextLengthError: If the sequence does not fit the context.
    """
    if not placed or seam < 0:
        raise SegmentError("compose with at least one segment, and a seam of 0 or more tokens")
    model.check_ids(ids, 0)
    before = 0
    if base is None and (before := placed[0].start):  # without a mask over all that stands behind it
        base = model.prefill(ids[:before]).segment
    parts = [] if base is None else [_checked(model, base, ids, seam)]
    fresh: list[int] = []
    loose: list[Placed] = []
    exact, at = base is None or base.origin == EXACT, 0 if base is None else len(base)
    for one in placed:
        model.check(one.segment)
        stop = one.start + len(one.segment)
        if one.segment.images:
            raise SegmentError("a segment with images is put in place by splice()")
        if one.start < at or one.segment.ids.tolist() != list(ids[one.start : stop]):
            raise SegmentError(f"the segment at {one.start} overlaps another, or its tokens do not stand there")
        moved = one.segment.moved(one.start)
        parts += [blank(moved, ids[at : one.start], at), moved]
        fresh += range(at, one.start)
        exact = exact and _is_in_its_place(moved, ids)
        if not exact:
            loose.append(one)
            fresh += range(one.start, min(one.start + seam, stop))
        at = stop
    parts.append(blank(parts[0], ids[at:], at))
    fresh += range(at, len(ids))
    origin = _origin(loose, seam, base)
    if not fresh:
        return Forwarded(replace(concat(parts), origin=origin), None, before)
    done = model.recompute_joined(parts, fresh, origin=origin)
    return replace(done, computed=before + done.computed)


def _checked(model: SegmentModel, base: KVSegment, ids: Sequence[int], seam: int) -> KVSegment:
    model.check(base)
    if base.start or base.images or base.ids.tolist() != list(ids[: len(base)]):
        raise SegmentError("the base is text from position 0, and the sequence begins with its tokens")
    if not (base.origin == EXACT or (isinstance(base.origin, Composed) and base.origin.seam == seam)):
        raise SegmentError("compose behind a base that is exact, or was composed with the same seam")
    return base


def _is_in_its_place(segment: KVSegment, ids: Sequence[int]) -> bool:
    """Whether a segment was computed at these positions behind just the tokens that stand before it."""
    computed = compiled_origin(segment.ids.tolist(), ids[: segment.start])
    return segment.origin == computed and np.array_equal(segment.written, segment.positions)


def _origin(loose: Sequence[Placed], seam: int, base: KVSegment | None) -> Origin:
    before = base.origin if base is not None else EXACT
    if not loose:
        return before
    made = placed_origin([one.start for one in loose], [one.segment.digest for one in loose], seam=seam)
    return replace(made, parts=(*before.parts, *made.parts)) if isinstance(before, Composed) else made
