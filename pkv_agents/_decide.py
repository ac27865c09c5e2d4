"""Whether a request begins a new epoch, and what there is to say about its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import _reasons
from ._locate import Place
from ._rebase import RebasePolicy, RebaseQuote, quote
from ._request import Request
from .diff import Change
from .notices import Notice
from .snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a new epoch begins, why, and what there is to say."""

    reason: str | None = None
    notices: Sequence[Notice] = ()
    quote: RebaseQuote | None = None


def decide(
    place: Place | None,
    told: Snapshot,
    changes: Sequence[Change],
    now: Snapshot,
    request: Request,
    rebase: str | None,
    policy: RebasePolicy,
) -> Decision:
    """Whether to begin a new epoch, and what to say about the history."""
    if place is None:
        return Decision()
    why = _must(place, told, changes, now, request, rebase)
    if why is not None:
        reason, notice = why
        return Decision(None, [_reasons.held(notice)]) if request.is_held else Decision(reason, [notice])
    epoch, rest = place.epoch, request.history.messages
    considered = quote(place, changes, now, request.history, request.profile, policy, request.clock)
    if considered.decision is not None:
        return Decision(considered.decision, [_reasons.folded(epoch, rest, considered, changes)], considered)
    return Decision(None, _reasons.history(place, rest), considered)


def _must(
    place: Place, told: Snapshot, changes: Sequence[Change], now: Snapshot, request: Request, rebase: str | None
) -> tuple[str, Notice] | None:
    """What makes a new epoch necessary, whatever it costs."""
    epoch, rest = place.epoch, request.history.messages
    if rebase is not None:
        return rebase, _reasons.requested(epoch, rest, rebase)
    hidden = _reasons.hidden_path(told, now)
    if hidden is not None:
        return _reasons.FIELD_HIDDEN, _reasons.hidden(epoch, rest, hidden)
    if epoch.head != request.head_hash:
        return _reasons.INSTRUCTIONS_CHANGED, _reasons.instructions(epoch, rest)
    if request.style.update_marker.replace("{tag}", epoch.tag) not in epoch.baseline_text:
        return _reasons.STYLE_CHANGED, _reasons.style(epoch, rest)
    pinned = _reasons.pinned_path(changes, epoch.baseline, now)
    if pinned is not None:
        return _reasons.PINNED_CHANGED, _reasons.pinned(epoch, rest, pinned)
    if place.kind == "rewritten":
        return _reasons.HISTORY_REWRITTEN, _reasons.rewritten(epoch, rest, len(place.lost))
    return None
