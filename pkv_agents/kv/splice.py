"""Composable prompts: a skill is prefilled once, alone, and put into any context.

    compile_segment(model, skill, preamble=p)      [ p p | s s s s ]  ->  [ s s s s ], p dropped

    splice(model, head, [a, b], query=q, seam=2)   [ head | A A a a | B B b b b | q q ]
                                                             ^ seam   ^ seam      ^ forwarded
                                                     reused  reused   reused

One forward computes the seams and the query; everything else is reused, its keys turned to their new places. That is an
approximation of a clean prefill: a reused token has not read what stands before its segment. A short preamble at
compilation repairs more of that than seam tokens do, and costs nothing per request: the first tokens of any text become
attention sinks, and the preamble takes that part. (Measured on one text: divergence from a clean prefill 0.001 behind a
preamble against 0.006 with 4 to 64 seam tokens and 0.028 with neither.)

If seams cover everything the result *is* a prefill, and that is the oracle of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.origin import EXACT, Composed, Origin, digest_of
from pkv_agents.kv.segment import FieldSpan, KVSegment, concat


def compile_segment(
    model: SegmentModel, ids: Sequence[int], *, preamble: Sequence[int] = (), fields: Sequence[FieldSpan] = ()
) -> KVSegment:
    """Prefills tokens alone, behind a short preamble that is dropped.

    Args:
        model: The model that will read them.
        ids: Token ids of the skill.
        preamble: A few token ids to stand before it while it is computed: what such text usually follows.
        fields: Spans of fields in `ids`.

    Returns:
        The segment. Its origin is exact only without a preamble.

    Raises:
        SegmentError: If there is no id, one is not in the vocabulary, or a span does not fit.
        ContextLengthError: If they do not fit the context.
    """
    if not ids:
        raise SegmentError("a segment is compiled of at least one token")
    whole = model.prefill([*preamble, *ids]).segment
    return whole.slice(len(preamble), len(whole)).with_fields(*fields)


def compiled_origin(ids: Sequence[int], preamble: Sequence[int]) -> Origin:
    """The origin of what `compile_segment` gives for these tokens."""
    return Composed((digest_of(ids, digest_of(preamble, EXACT)),)) if preamble else EXACT


def splice(
    model: SegmentModel,
    head: KVSegment | None,
    segments: Sequence[KVSegment],
    *,
    query: Sequence[int] = (),
    seam: int = 0,
) -> Forwarded:
    """Puts segments behind a head, one after the other, and forwards a query behind them.

    Args:
        model: The model that computed all of them.
        head: What stands first; it stays as it is. None: the first segment stands at position 0.
        segments: What follows, wherever each stands now.
        query: New token ids behind them.
        seam: How many tokens at the start of each segment to compute anew in their new place; images never are.

    Returns:
        The whole sequence, composed; exact if the head is and nothing behind it was reused. No logits without a query,
        unless the last segment was computed anew to its end.

    Raises:
        SegmentError: If there is nothing to splice, `seam` is negative, or a segment is another model's.
        ContextLengthError: If the whole does not fit the context.
    """
    if seam < 0 or not segments:
        raise SegmentError("splice at least one segment, with a seam of 0 or more tokens")
    placed = [head] if head is not None else []
    fresh: list[int] = []
    start, before = (head.stop, len(head)) if head is not None else (0, 0)
    for segment in segments:
        placed.append(segment.moved(start))
        seen = {slot for image in segment.images for slot in range(image.start, image.stop)}
        fresh += [before + slot for slot in range(min(seam, len(segment))) if slot not in seen]
        before += len(segment)
        start = placed[-1].stop
    if start + len(query) > model.context_limit:
        raise ContextLengthError(f"{start + len(query)} tokens do not fit a context of {model.context_limit}")
    for segment in placed:
        model.check(segment)
    if any(len(segment) > seam or segment.images for segment in segments):
        origin: Origin = Composed(tuple(part.digest for part in placed), seam)
    else:
        origin = head.origin if head is not None else EXACT
    if not fresh and not query:
        return Forwarded(replace(concat(placed), origin=origin), None, 0)
    return model.recompute_joined(placed, fresh, query, origin=origin)
