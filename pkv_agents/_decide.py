"""Whether a request begins a new epoch, and what there is to say about its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import _reasons
from ._hidden import first_hidden, told_paths
from ._locate import Place
from ._rebase import RebasePolicy, RebaseQuote, quote
from ._request import Request
from .diff import Change
from .ledger import Ledger
from .notices import Notice
from .snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a new epoch begins, why, and what there is to say.

    Attributes:
        reason: Why a new epoch begins, or None.
        fresh: Its whole history is new to the provider.
        notices: What the user should know.
        quote: What a rebase was considered at.
    """

    reason: str | None = None
    fresh: bool = False
    notices: Sequence[Notice] = ()
    quote: RebaseQuote | None = None


def decide(
    ledger: Ledger | None,
    place: Place | None,
    told: Snapshot,
    changes: Sequence[Change],
    now: Snapshot,
    request: Request,
    rebase: str | None,
    policy: RebasePolicy,
) -> Decision:
    """Whether to begin a new epoch, and what to say about the history."""
    if ledger is None or place is None:
        return Decision(fresh=True)
    why = _must(place, told, changes, now, request, rebase)
    if why is not None:
        reason, notice = why
        if request.is_held:
            return Decision(notices=[_reasons.held(notice)])
        return Decision(reason, place.kind == "rewritten", [notice])
    epoch, rest = place.epoch, request.history.messages
    used_at = max((sent.at for sent in ledger.sent if sent.at is not None), default=None)
    considered = quote(place, changes, now, request, policy, used_at)
    if considered.decision is not None:
        notice = _reasons.folded(epoch, rest, considered, changes)
        return Decision(considered.decision, notices=[notice], quote=considered)
    return Decision(notices=_reasons.history(place, request), quote=considered)


def leaks(ledger: Ledger | None, now: Snapshot) -> bool:
    """Whether an epoch showed what the state's class hides now; such epochs must be forgotten."""
    epochs = ledger.epochs if ledger is not None else ()
    return any(first_hidden(now.schema, told_paths(epoch)) is not None for epoch in epochs)


def _must(
    place: Place, told: Snapshot, changes: Sequence[Change], now: Snapshot, request: Request, rebase: str | None
) -> tuple[str, Notice] | None:
    """What makes a new epoch necessary, whatever it costs."""
    epoch, rest = place.epoch, request.history.messages
    hidden = first_hidden(now.schema, told_paths(epoch)) or _reasons.hidden_path(told, now)
    if hidden is not None:
        return _reasons.FIELD_HIDDEN, _reasons.hidden(epoch, rest, hidden)
    if rebase is not None:
        return _reasons.in_words(rebase), _reasons.requested(epoch, rest, rebase)
    if epoch.head != request.head_hash:
        return _reasons.INSTRUCTIONS_CHANGED, _reasons.instructions(epoch, rest)
    if request.style.update_marker.replace("{tag}", epoch.tag) not in epoch.baseline_text:
        return _reasons.STYLE_CHANGED, _reasons.style(epoch, rest)
    pinned = _reasons.pinned_path(changes, told, epoch.baseline, now)
    if pinned is not None:
        return _reasons.PINNED_CHANGED, _reasons.pinned(epoch, rest, pinned)
    if place.kind == "rewritten":
        return _reasons.HISTORY_REWRITTEN, _reasons.rewritten(epoch, request, len(place.lost))
    return None
