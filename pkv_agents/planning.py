"""Planning a request: what stands in the head, which errata are replayed, what is told now.

`plan` decides and changes nothing; `commit` (in `recording`) records what was sent; `wire` is what goes out. All
are pure, so a call that fails, is retried or resumed never happened: the next plan starts from the same ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from . import _reasons
from ._decide import Decision, decide, leaks
from ._draft import Draft, changed_carrier, new_insertion, replayed, tell
from ._locate import Place, locate
from ._rebase import DEFAULT_POLICY, RebasePolicy
from ._request import Request, read_request
from ._restate import restated
from ._slots import choose_carrier
from ._ttl import aged
from ._walk import snapshot
from .anchors import ROOT
from .diff import diff, fold
from .errata import check_tag, new_tag, render_baseline
from .errors import SchemaError
from .ledger import Epoch, Erratum, Ledger, Sent
from .messages import Message
from .notices import Notice
from .profiles import Profile, minimum_notice
from .snapshots import PLAIN, Snapshot
from .state import TrackedState
from .styles import DEFAULT_STYLE, ErrataStyle
from .tokens import estimate_tokens
from .turnplan import Previous, TurnPlan


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
    key: str = "",
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
        key: The session, by whose name the plan goes.

    Returns:
        The plan; nothing is changed.

    Raises:
        StateError: The state holds a value that cannot be rendered.
        MessageError: A message is not plain data.
        SessionError: The clock has no zone, or the tag is none.
    """
    request = read_request(ledger, messages, instructions, profile=profile, model=model, clock=clock, style=style)
    place = _place(ledger, request)
    told = _told(place.epoch) if place is not None else Snapshot()
    seen: Mapping[str, datetime] = place.epoch.observed if place is not None else {}
    now, observed = aged(_as_snapshot(state), told, seen, confirmed or {}, clock)
    changes = diff(told, now, edits=style.edits) if place is not None else ()
    decision = decide(ledger, place, told, changes, now, request, rebase, policy)
    if place is None or decision.reason is not None:
        begun = _begin(ledger, now, request, decision, _used_tag(ledger, tag))
        draft = Draft(begun, begun, begun.baseline, diff(begun.baseline, now, edits=style.edits))
    else:
        again = restated(place.epoch, told, changes, now, request.history.messages, policy.restate_after_tokens)
        draft = Draft(place.epoch, place.kept, told, changes, again)
    if dict(observed) != dict(draft.kept.observed):
        draft = replace(draft, kept=replace(draft.kept, observed=observed))
    return replace(_fill(ledger, place, now, request, decision, draft), key=key)


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
        return place.held(ledger.epochs[-1], request.history)
    profile, messages = request.profile, request.history.messages
    return place.where(lambda sent: choose_carrier(profile, messages, sent.anchor.after) is not None)


def _used_tag(ledger: Ledger | None, tag: str | None) -> str:
    if ledger is not None and ledger.epochs:
        return ledger.epochs[-1].tag
    return check_tag(tag) if tag is not None else new_tag()


def _told(epoch: Epoch) -> Snapshot:
    return fold(epoch.baseline, (change for erratum in epoch.errata for change in erratum.changes))


def _begin(ledger: Ledger | None, now: Snapshot, request: Request, decision: Decision, tag: str) -> Epoch:
    """A new epoch, whose baseline is the state as it is now."""
    numbers = (known.number for known in ledger.epochs) if ledger is not None else ()
    return Epoch(
        number=max(numbers, default=-1) + 1,
        start=ROOT if decision.fresh else request.history.end,
        first=request.history.first,
        tag=tag,
        baseline=now.without_volatile(),
        baseline_text=render_baseline(now, tag=tag, style=request.style),
        reason=decision.reason or "start",
        head=request.head_hash,
    )


def _fill(
    ledger: Ledger | None, place: Place | None, now: Snapshot, request: Request, decision: Decision, draft: Draft
) -> TurnPlan:
    """The plan of a request in its epoch: replay what was sent, tell what is new where there is a place for it."""
    revision = (ledger.revision if ledger is not None else 0) + 1
    insertions = replayed(draft.epoch, request)
    draft = tell(draft, request, revision)
    if draft.erratum is not None:
        insertions.append(new_insertion(draft.erratum, request))
    moved = changed_carrier(place, request) if place is not None and decision.reason is None else None
    is_known = ledger is not None and any(known is draft.kept for known in ledger.epochs)
    base = ledger.last if ledger is not None else ""
    return TurnPlan(
        system=request.system(draft.epoch),
        insertions=tuple(insertions),
        erratum=draft.erratum,
        changes=tuple(draft.changes),
        restated=tuple(change.path for change in draft.again),
        notices=tuple(_notices(place, now, request, decision, draft, moved)),
        rebased=decision.reason,
        quote=decision.quote,
        epoch=draft.kept,
        told=draft.told,
        appended_tokens=estimate_tokens(draft.erratum.text) if draft.erratum is not None else 0,
        kept=None if place is None else place.keeps and decision.reason is None and moved is None,
        forgets=leaks(ledger, now),
        count=len(request.messages),
        leading=request.leading,
        dropped=tuple(request.leading + at for at in request.orphans),
        profile=request.given,
        sent=Sent(
            end=request.history.end,
            epoch=draft.kept.number,
            model=request.model,
            revision=revision - 1 if is_known else revision,
            at=request.clock,
        ),
        previous=_previous(ledger, place, request),
        base=base,
        id=base if is_known else _plan_id(base, draft.kept, draft.erratum),
    )


def _notices(
    place: Place | None,
    now: Snapshot,
    request: Request,
    decision: Decision,
    draft: Draft,
    moved: Notice | None,
) -> Iterator[Notice]:
    """Everything that there is to say about this request."""
    yield from decision.notices
    if moved is not None:
        yield moved
    rest, profile = request.history.messages, request.profile
    if place is None or decision.reason is not None:
        short = minimum_notice(estimate_tokens(request.system(draft.epoch)), profile)
        if short is not None:
            yield short
    waiting = draft.changes if draft.erratum is None else ()
    if any(rest or not now.meta.get(change.path, PLAIN).volatile for change in waiting):
        yield _reasons.waits(waiting, rest)
    if request.late_systems and profile.carrier != "system":
        yield _reasons.misplaced(request.leading + request.late_systems[0], profile)
    if request.orphans:
        yield _reasons.orphaned([request.leading + at for at in request.orphans])


def _previous(ledger: Ledger | None, place: Place | None, request: Request) -> Previous | None:
    """What this model's cache holds of the request that this one continues."""
    if ledger is None or place is None:
        return None
    sent = [one for one in ledger.sent if one.model == request.model and one.epoch == place.epoch.number]
    if not sent:
        return None
    latest = place.latest(request.model)
    used_at = max((one.at for one in sent if one.at is not None), default=None)  # also by another branch
    system = request.system(place.epoch) if place.epoch.head == request.head_hash else ""
    if latest is None:
        return Previous(0, system, 0, used_at)
    return Previous(latest.end.after, system, latest.revision, used_at)


def _plan_id(base: str, epoch: Epoch, erratum: Erratum | None) -> str:
    parts = [base, str(epoch.number), str(epoch.start), str(epoch.first), epoch.reason, epoch.baseline_text]
    parts += [str(erratum.anchor), erratum.carrier, erratum.text] if erratum is not None else []
    parts += [f"{path}@{at.isoformat()}" for path, at in epoch.observed.items()]
    joined = "\0".join(parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:24]
