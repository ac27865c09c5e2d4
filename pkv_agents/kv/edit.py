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
from typing import Literal, get_args

from pkv_agents.errors import SegmentError
from pkv_agents.kv.edit_runs import TokenRun, moved_fields, rewrite
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.segment import FieldSpan, KVSegment

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
    if mode not in get_args(EditMode):
        raise SegmentError(f"mode must be one of {', '.join(get_args(EditMode))}")
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
    return rewrite(
        model,
        segment,
        [TokenRun(path, span.start, span.stop, tuple(ids))],
        erratum if mode == "field_erratum" else (),
        query=query,
        keep=keep if mode == "selective" else 0,
    )


def _full(model: SegmentModel, segment: KVSegment, span: FieldSpan, ids: Sequence[int]) -> Forwarded:
    whole = [*segment.ids[: span.start].tolist(), *ids, *segment.ids[span.stop :].tolist()]
    done = model.prefill(whole, start=segment.start)
    fields = moved_fields(segment.fields, TokenRun(span.path, span.start, span.stop, tuple(ids)))
    return replace(done, segment=done.segment.with_fields(*fields))
