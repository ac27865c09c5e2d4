"""Replacing runs of tokens inside a prefilled sequence: what every edit in place comes down to.

    segment    [ a a a | old | b b b | old old | c c ]
    rewritten  [ a a a | new new | b b b | new | c c | d d ]
                         computed          computed    computed, all in one forward

What stands behind a run moves, with its keys turned; it keeps the conclusions that were drawn from the old tokens. So
the result is an approximation of a prefill of the new tokens, and its origin says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from pkv_agents.errors import SegmentError
from pkv_agents.kv._attention import AttentionRecorder
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.origin import EXACT, Edited, FieldEdit, Origin, digest_of
from pkv_agents.kv.segment import FieldSpan, KVSegment, concat


@dataclass(frozen=True, slots=True)
class TokenRun:
    """Tokens that are replaced.

    Attributes:
        path: The field, or whatever tells a reader which tokens these are.
        start: The first of them, counted from the segment's start.
        stop: One behind the last; equal to `start` where something is only put in.
        ids: What stands there from now on; empty where something is only taken out.
    """

    path: str
    start: int
    stop: int
    ids: tuple[int, ...]

    @property
    def grows(self) -> int:
        """By how many tokens the sequence becomes longer."""
        return len(self.ids) - (self.stop - self.start)


def rewrite(
    model: SegmentModel,
    segment: KVSegment,
    runs: Sequence[TokenRun],
    behind: Sequence[int] = (),
    *,
    query: Sequence[int] = (),
    keep: int = 0,
) -> Forwarded:
    """Replaces runs of tokens, computes them, and forwards more tokens behind the sequence, all in one forward.

    Args:
        model: The model that computed the segment.
        segment: The sequence; it stays as it is.
        runs: At least one; in order, apart from one another.
        behind: Token ids to forward behind the sequence.
        query: Token ids of a question that chooses what else is computed anew; asked of the old sequence, not kept.
        keep: How many tokens behind the first run to compute anew: those to which the query attends most.

    Returns:
        The new sequence. Spans of fields behind a run have moved, those inside are gone, those round it have grown.

    Raises:
        SegmentError: If runs overlap, are not in order or outside, an id does not exist, or the segment is another
            model's; or if the attention of this model cannot be read and `keep` asks for it.
        ContextLengthError: If the result does not fit the context.
    """
    _check(segment, runs)
    model.check(segment)
    # The last of the tokens that will be there, so that what has grown too long is refused before any work.
    if fresh := [*(token for run in runs for token in run.ids), *behind]:
        model.check_ids(fresh, segment.stop + sum(run.grows for run in runs) + len(behind) - len(fresh))
    chosen = _most_attended(model, segment, runs, query, keep) if keep else []
    parts, blanks = _with_blanks(segment, runs)
    anew = [_place(runs, slot) for slot in chosen]
    origin, fields = _origin(segment, runs, anew), segment.fields
    for run in reversed(runs):
        fields = moved_fields(fields, run)
    if not blanks and not anew and not behind:
        return Forwarded(replace(concat(parts), origin=origin, fields=fields), None, 0)
    done = model.recompute_joined(parts, [*blanks, *anew], behind, origin=origin)
    return replace(done, segment=done.segment.with_fields(*fields))


def _check(segment: KVSegment, runs: Sequence[TokenRun]) -> None:
    if not runs:
        raise SegmentError("there is no run of tokens to replace")
    before = 0
    for run in runs:
        if not before <= run.start <= run.stop <= len(segment) or (run.start == run.stop and not run.ids):
            raise SegmentError(
                f"run {run.path!r} replaces tokens {run.start} to {run.stop}: runs are in order, apart, and inside a "
                f"segment of {len(segment)} tokens"
            )
        before = run.stop


def _with_blanks(segment: KVSegment, runs: Sequence[TokenRun]) -> tuple[list[KVSegment], list[int]]:
    """The parts of the sequence, with a blank where each run will be computed, and the places of the blanks."""
    parts: list[KVSegment] = []
    blanks: list[int] = []
    done, at, size = 0, segment.start, 0
    for run in runs:
        kept = segment.slice(done, run.start).moved(at)
        parts += [kept, blank(segment, run.ids, kept.stop)]
        size += len(kept)
        blanks += range(size, size + len(run.ids))
        done, at, size = run.stop, parts[-1].stop, size + len(run.ids)
    parts.append(segment.slice(done, len(segment)).moved(at))
    return parts, blanks


def blank(like: KVSegment, ids: Sequence[int], start: int) -> KVSegment:
    """Tokens whose keys and values are not computed yet.

    Args:
        like: A segment of the same model.
        ids: Their ids.
        start: Position of the first.
    """
    return replace(
        like.slice(0, 0),
        ids=ids,
        written=range(start, start + len(ids)),
        start=start,
        keys=tuple(keys.new_zeros((keys.shape[0], len(ids), keys.shape[2])) for keys in like.keys),
        values=tuple(values.new_zeros((values.shape[0], len(ids), values.shape[2])) for values in like.values),
    )


def moved_fields(fields: Sequence[FieldSpan], run: TokenRun) -> tuple[FieldSpan, ...]:
    """Where fields stand once a run is replaced; what lay inside it is gone."""
    moved: list[FieldSpan] = []
    for other in fields:
        if other.stop <= run.start:
            moved.append(other)
        elif other.start >= run.stop:
            moved.append(other.moved(run.grows))
        elif other.start <= run.start and other.stop >= run.stop and other.stop + run.grows > other.start:
            moved.append(replace(other, stop=other.stop + run.grows))  # the field itself, and what holds it
    return tuple(moved)


def _origin(segment: KVSegment, runs: Sequence[TokenRun], anew: Sequence[int]) -> Origin:
    behind_first = len(segment) - runs[0].stop - sum(run.stop - run.start for run in runs[1:])
    if segment.origin == EXACT and len(anew) == behind_first:
        return EXACT  # nothing behind the first run is old, so this is a prefill
    done = tuple(
        FieldEdit(
            path=run.path,
            start=segment.start + run.start,
            old=digest_of(segment.ids[run.start : run.stop]),
            new=digest_of(run.ids),
            recomputed=tuple(anew),
        )
        for run in runs
    )
    if isinstance(segment.origin, Edited):
        return Edited((*segment.origin.edits, *done), segment.origin.base)
    return Edited(done, segment.origin)


def _place(runs: Sequence[TokenRun], slot: int) -> int:
    """Where a token that no run replaces stands afterwards."""
    return slot + sum(run.grows for run in runs if run.stop <= slot)


def _most_attended(
    model: SegmentModel, segment: KVSegment, runs: Sequence[TokenRun], query: Sequence[int], keep: int
) -> list[int]:
    """The places behind the first run to which a query attends most, at most `keep` of them, in their order."""
    if not query:
        raise SegmentError("which tokens to compute anew is chosen by a question: give its token ids as query")
    recorder = AttentionRecorder(len(segment))
    model.recompute(segment, (), query, origin=segment.origin, recorder=recorder)
    if recorder.paid is None:
        raise SegmentError("the attention of this model cannot be read: use another mode than 'selective'")
    replaced = {slot for run in runs for slot in range(run.start, run.stop)}
    paid = recorder.paid[runs[0].stop :].cpu()
    # A stable order, so that equal weights give the same choice everywhere.
    ranked = torch.sort(paid, descending=True, stable=True).indices
    free = [slot for index in ranked if (slot := runs[0].stop + int(index)) not in replaced]
    return sorted(free[:keep])
