"""Editing a value inside a prefilled prompt, six ways.

A model that has read a value has also written its conclusions about it onto later tokens. The modes differ in how much
of that they mend, and each is an approximation of the last:

| mode | computed | what the model then sees |
|---|---|---|
| stale | nothing | the old value: the control |
| in_place | the field's tokens | the new value, and old conclusions behind it |
| erratum | an erratum at the end | the old value, and an explicit correction; exact for its ids |
| field_erratum | both, in one forward | the new value, and the correction |
| selective | the field and `keep` later tokens that a query looks at | new value, new conclusions where they matter |
| full | everything | a clean prefill: exact, the oracle |

A field is edited by its own tokens (`KVSegment.fields`), never by searching for its text: a policy sentence that
happens to hold the same words stays. A value may become longer or shorter; what follows moves, with its keys turned.
Edits accumulate, and everything computed behind one inherits the origin `Edited`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from pkv_agents.errors import SegmentError
from pkv_agents.kv._attention import AttentionRecorder
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.origin import EXACT, Edited, FieldEdit, Origin, digest_of
from pkv_agents.kv.segment import FieldSpan, KVSegment, concat

EditMode = Literal["stale", "in_place", "erratum", "field_erratum", "selective", "full"]
"""How an edit mends what was concluded from the old value."""


def edit(
    model: SegmentModel,
    segment: KVSegment,
    path: str,
    ids: Sequence[int],
    *,
    mode: EditMode,
    erratum: Sequence[int] = (),
    query: Sequence[int] = (),
    keep: int = 64,
) -> Forwarded:
    """Gives a field of a prefilled prompt a new value.

    Args:
        model: The model that computed the segment.
        segment: The prompt; it stays as it is.
        path: The field; it must be one of `segment.fields`.
        ids: Token ids of the new value, tokenised as they would be in the prompt.
        mode: How much to compute; see the table above.
        erratum: Token ids of the erratum, for the two modes that have one.
        query: Token ids of a question, for `selective`; it is asked of the old prompt and not kept.
        keep: How many later tokens `selective` computes anew.

    Returns:
        The edited prompt. Spans behind the field have moved, spans inside it are gone, those round it have grown.

    Raises:
        SegmentError: If the field, an id, or what the mode needs is missing, or the segment is another model's.
        ContextLengthError: If the result does not fit the context.
    """
    span = segment.field(path)
    model.check(segment)
    if not ids:
        raise SegmentError(f"the new value of {path!r} has no token: say that it is gone in words")
    if mode in {"erratum", "field_erratum"} and not erratum:
        raise SegmentError(f"mode {mode!r} needs the erratum's token ids")
    if mode == "selective" and (not query or keep < 0):
        raise SegmentError("mode 'selective' needs a query's token ids, and 0 or more tokens to keep")
    if mode == "stale":
        return Forwarded(segment, None, 0)
    if mode == "erratum":
        return model.forward(segment, erratum)
    if mode == "full":
        return _full(model, segment, span, ids)
    # The last of the tokens that will be there, so that a value that has grown too long is refused before any work.
    model.check_ids([*ids, *erratum], segment.stop - (span.stop - span.start))
    chosen = _most_attended(model, segment, span, query, keep) if mode == "selective" else []
    fresh = [slot + len(ids) - (span.stop - span.start) for slot in chosen]
    changed = _replaced(segment, span, ids, fresh)
    field = range(span.start, span.start + len(ids))
    behind = erratum if mode == "field_erratum" else ()
    return model.recompute(changed, [*field, *fresh], behind, origin=changed.origin)


def _full(model: SegmentModel, segment: KVSegment, span: FieldSpan, ids: Sequence[int]) -> Forwarded:
    whole = [*segment.ids[: span.start].tolist(), *ids, *segment.ids[span.stop :].tolist()]
    done = model.prefill(whole, start=segment.start)
    fields = _moved_fields(segment.fields, span, len(ids))
    return replace(done, segment=done.segment.with_fields(*fields))


def _replaced(segment: KVSegment, span: FieldSpan, ids: Sequence[int], fresh: Sequence[int]) -> KVSegment:
    """The prompt with a blank where the new value will be computed, and what follows moved behind it."""
    head, tail = segment.slice(0, span.start), segment.slice(span.stop, len(segment))
    blank = replace(
        segment.slice(0, 0),
        ids=ids,
        written=range(head.stop, head.stop + len(ids)),
        start=head.stop,
        keys=tuple(keys.new_zeros((keys.shape[0], len(ids), keys.shape[2])) for keys in segment.keys),
        values=tuple(values.new_zeros((values.shape[0], len(ids), values.shape[2])) for values in segment.values),
    )
    joined = concat([head, blank, tail.moved(blank.stop)])
    return replace(
        joined,
        origin=_origin(segment, span, ids, fresh),
        fields=_moved_fields(segment.fields, span, len(ids)),
    )


def _origin(segment: KVSegment, span: FieldSpan, ids: Sequence[int], fresh: Sequence[int]) -> Origin:
    if segment.origin == EXACT and len(fresh) == len(segment) - span.stop:
        return EXACT  # nothing behind the field is old, so this is a prefill
    done = FieldEdit(
        path=span.path,
        start=segment.start + span.start,
        old=digest_of(segment.ids[span.start : span.stop]),
        new=digest_of(ids),
        recomputed=tuple(fresh),
    )
    if isinstance(segment.origin, Edited):
        return Edited((*segment.origin.edits, done), segment.origin.base)
    return Edited((done,), segment.origin)


def _moved_fields(fields: Sequence[FieldSpan], span: FieldSpan, size: int) -> tuple[FieldSpan, ...]:
    by = size - (span.stop - span.start)
    moved: list[FieldSpan] = []
    for other in fields:
        if other.stop <= span.start:
            moved.append(other)
        elif other.start >= span.stop:
            moved.append(other.moved(by))
        elif other.start <= span.start and other.stop >= span.stop:  # the field itself, and what holds it
            moved.append(replace(other, stop=other.stop + by))
    return tuple(moved)


def _most_attended(
    model: SegmentModel, segment: KVSegment, span: FieldSpan, query: Sequence[int], keep: int
) -> list[int]:
    """The places behind a field to which a query attends most, at most `keep` of them, in their order."""
    recorder = AttentionRecorder(len(segment))
    model.recompute(segment, (), query, origin=segment.origin, recorder=recorder)
    if recorder.paid is None:
        raise SegmentError("the attention of this model cannot be read: use another mode than 'selective'")
    paid = recorder.paid[span.stop :].cpu()
    # A stable order, so that equal weights give the same choice everywhere.
    ranked = torch.sort(paid, descending=True, stable=True).indices[:keep]
    return sorted(span.stop + int(index) for index in ranked)
