"""Planning a request: what stands in the head, which errata are replayed, what is told now.

`plan` decides and changes nothing; `commit` (in `recording`) records what was sent; `wire` is what goes out. All
are pure, so a call that fails, is retried or resumed never happened: the next plan starts from the same ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from . import _reasons
from ._decide import Decision, decide
from ._locate import Place, locate
from ._rebase import DEFAULT_POLICY, RebasePolicy
from ._request import Request, read_request
from ._restate import restated
from ._slots import choose_carrier
from ._ttl import aged
from ._walk import snapshot
from .anchors import ROOT
from .diff import Change, diff, fold
from .errata import DEFAULT_STYLE, ErrataStyle, check_tag, new_tag, render_baseline, render_erratum
from .errors import SchemaError
from .ledger import Epoch, Erratum, Ledger, Sent
from .messages import Message
from .notices import Notice
from .profiles import Profile, minimum_notice
from .snapshots import PLAIN, Snapshot
from .state import TrackedState
from .tokens import estimate_tokens
from .turnplan import Insertion, Previous, TurnPlan


def plan(
    ledger: Ledger | None,
    state: TrackedState | Snapshot,
    messages: Sequence[Message],
    *,
    profile: Profile,
    instructions: str = "",
    rebase: str | None = None,
    tag: str | None = None,
    policy: RebasePolicy = DEFAULT_POLICY,
    style: ErrataStyle = DEFAULT_STYLE,
    clock: datetime | None = None,
    confirmed: Mapping[str, datetime] | None = None,
    model: str = "",
) -> TurnPlan:
    """Decide what a request says about the state.

    Args:
        ledger: What was sent so far; None in a new session.
        state: What is true now.
        messages: The request's messages. System messages at its front count as instructions.
        profile: What the provider allows.
        instructions: The text above the baseline.
        rebase: A reason to begin a new epoch now.
        tag: The tag of a new session (random when left out); a ledger's own tag is kept.
        policy: When errata are folded into a new baseline.
        style: The wording of what is new.
        clock: The time, with a zone; None lets no field with a `ttl` grow stale and no cache expire.
        confirmed: When the application last set paths, be it to the same value.
        model: Whose cache this request fills; the profile's name when left out.

    Returns:
        The plan; nothing is changed.

    Raises:
        StateError: The state holds a value that cannot be rendered.
        MessageError: A message is not plain data.
    """
    request = read_request(ledger, messages, instructions, profile=profile, model=model, clock=clock, style=style)
    place = _place(ledger, request)
    told = _told(place.epoch) if place is not None else Snapshot()
    seen: Mapping[str, datetime] = place.epoch.observed if place is not None else {}
    now, observed = aged(_as_snapshot(state), told, seen, confirmed or {}, clock)
    changes = diff(told, now) if place is not None else ()
    decision = decide(place, told, changes, now, request, rebase, policy)
    if place is None or decision.reason is not None:
        epoch = kept = _begin(ledger, now, request, decision.reason, _used_tag(ledger, tag))
        again: Sequence[Change] = ()
    else:
        epoch, kept = place.epoch, place.kept
        again = restated(epoch, told, changes, now, request.history.messages, policy.restate_after_tokens)
    if dict(observed) != dict(kept.observed):
        kept = replace(kept, observed=observed)
    return _fill(ledger, place, now, request, epoch, kept, decision, again)


def _as_snapshot(state: TrackedState | Snapshot) -> Snapshot:
    if isinstance(state, Snapshot):
        return state
    if not isinstance(state, TrackedState):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise SchemaError(f"the state is a {type(state).__name__}; derive its class from TrackedState")
    return snapshot(state)


def _place(ledger: Ledger | None, request: Request) -> Place | None:
    """Where the request stands, with those errata that its provider takes where they were told."""
    if ledger is None or not ledger.epochs:
        return None
    place = locate(ledger, request.history)
    if request.is_held:
        return place.held(ledger.epochs[-1])
    profile, messages = request.profile, request.history.messages
    return place.where(lambda sent: choose_carrier(profile, messages, sent.anchor.after) is not None)


def _used_tag(ledger: Ledger | None, tag: str | None) -> str:
    if ledger is not None and ledger.epochs:
        return ledger.epochs[-1].tag
    return check_tag(tag) if tag is not None else new_tag()


def _told(epoch: Epoch) -> Snapshot:
    return fold(epoch.baseline, (change for erratum in epoch.errata for change in erratum.changes))


def _begin(ledger: Ledger | None, now: Snapshot, request: Request, reason: str | None, tag: str) -> Epoch:
    """A new epoch, whose baseline is the state as it is now."""
    numbers = (known.number for known in ledger.epochs) if ledger is not None else ()
    return Epoch(
        number=max(numbers, default=-1) + 1,
        start=ROOT if reason in (None, _reasons.HISTORY_REWRITTEN) else request.history.end,
        first=request.history.first,
        tag=tag,
        baseline=now.without_volatile(),
        baseline_text=render_baseline(now, tag=tag, style=request.style),
        reason=reason or "start",
        head=request.head_hash,
    )


def _fill(
    ledger: Ledger | None,
    place: Place | None,
    now: Snapshot,
    request: Request,
    epoch: Epoch,
    kept: Epoch,
    decision: Decision,
    again: Sequence[Change],
) -> TurnPlan:
    """The plan of a request in its epoch: replay what was sent, tell what is new where there is a place for it."""
    rest, profile = request.history.messages, request.profile
    revision = (ledger.revision if ledger is not None else 0) + 1
    told = _told(epoch)
    changes = diff(told, now)
    insertions = _replayed(epoch, request)
    erratum = None
    begins = place is None or epoch is not place.epoch
    carrier = choose_carrier(profile, rest, len(rest)) if changes or again else None
    if carrier is None:
        again = ()
    else:
        changes = (*changes, *again)
        text = render_erratum(changes, tag=epoch.tag, style=request.style)
        erratum = Erratum(request.history.end, text, carrier, changes, revision)
        insertions.append(Insertion(request.leading + len(rest), text, carrier, is_new=True, revision=revision))
        kept = replace(kept, errata=(*kept.errata, erratum))
        told = fold(told, changes)
    previous = _previous(place, request)
    notices = [*decision.notices, *([] if begins else _reformed(epoch, previous, request))]
    if begins:
        short = minimum_notice(estimate_tokens(request.system(epoch)), profile)
        notices += [short] if short is not None else []
    if carrier is None and any(rest or not now.meta.get(change.path, PLAIN).volatile for change in changes):
        notices.append(_reasons.waits(changes, rest))
    if request.orphans:
        notices.append(_reasons.orphaned(request.orphans))
    is_known = ledger is not None and any(known is kept for known in ledger.epochs)
    base = ledger.last if ledger is not None else ""
    return TurnPlan(
        system=request.system(epoch),
        insertions=tuple(insertions),
        erratum=erratum,
        changes=changes,
        restated=tuple(change.path for change in again),
        notices=tuple(notices),
        rebased=decision.reason,
        quote=decision.quote,
        epoch=kept,
        told=told,
        appended_tokens=estimate_tokens(erratum.text) if erratum is not None else 0,
        leading=request.leading,
        dropped=tuple(request.leading + at for at in request.orphans),
        profile=request.given,
        sent=Sent(
            request.history.end, kept.number, request.model, revision - 1 if is_known else revision, request.clock
        ),
        previous=previous,
        base=base,
        id=base if is_known else _plan_id(base, kept, erratum),
    )


def _replayed(epoch: Epoch, request: Request) -> list[Insertion]:
    rest, profile = request.history.messages, request.profile
    replayed: list[Insertion] = []
    for sent in epoch.errata:
        after = sent.anchor.after
        if not request.history.has(sent.anchor):
            continue  # only in a history that the provider's server holds: our copy was trimmed
        carrier = choose_carrier(profile, rest, after, sent_as=sent.carrier) or profile.carrier
        replayed.append(Insertion(request.leading + after, sent.text, carrier, revision=sent.revision))
    return replayed


def _reformed(epoch: Epoch, previous: Previous | None, request: Request) -> list[Notice]:
    """What this model was sent in another form, before something followed that lets the form no longer stand."""
    profile, rest = request.profile, request.history.messages
    for sent in epoch.errata if previous is not None else ():
        after = sent.anchor.after
        if previous is None or after != previous.after or after == len(rest) or sent.revision > previous.revision:
            continue
        if choose_carrier(profile, rest[:after], after, sent.carrier) != choose_carrier(
            profile, rest, after, sent.carrier
        ):
            return [_reasons.reformed(sent, request.leading + after)]
    return []


def _previous(place: Place | None, request: Request) -> Previous | None:
    """What this model's cache holds of the request that this one continues."""
    if place is None:
        return None
    system = request.system(place.epoch) if place.epoch.head == request.head_hash else ""
    sent = max((s for s in place.before if s.model == request.model), key=lambda s: s.end.after, default=None)
    if sent is None:
        return None
    return Previous(sent.end.after, system, sent.revision, sent.at)


def _plan_id(base: str, epoch: Epoch, erratum: Erratum | None) -> str:
    parts = [base, str(epoch.number), str(epoch.start), str(epoch.first), epoch.reason, epoch.baseline_text]
    parts += [str(erratum.anchor), erratum.carrier, erratum.text] if erratum is not None else []
    parts += [f"{path}@{at.isoformat()}" for path, at in epoch.observed.items()]
    joined = "\0".join(parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:24]
