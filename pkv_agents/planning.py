"""Planning a request: what stands in the head, which errata are replayed, what is told now.

`plan` decides and changes nothing; `commit` records what was sent; `wire` (in `wire`) is what goes out. All are pure,
so a call that fails, is retried or resumed simply never happened: the next plan starts from the same ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from . import _reasons
from ._locate import Place, locate
from ._restate import restated
from ._slots import choose_carrier
from ._ttl import aged
from ._walk import snapshot
from .diff import Change, diff, fold
from .errata import DEFAULT_STYLE, ErrataStyle, check_tag, new_tag, render_baseline, render_erratum
from .errors import ConflictError, MessageError, SchemaError
from .ledger import MAX_EPOCHS, ROOT, Anchor, Epoch, Erratum, Ledger, chain
from .messages import Message
from .notices import Notice
from .profiles import Profile
from .snapshots import PLAIN, Snapshot
from .state import TrackedState
from .tokens import estimate_tokens
from .turnplan import DEFAULT_POLICY, Insertion, RebasePolicy, TurnPlan


@dataclass(frozen=True, slots=True)
class _Request:
    """A request's messages, read once.

    Attributes:
        leading: How many system messages stand at the front.
        rest: The messages after them.
        head: The text above the baseline.
        index: Each anchor of `rest`, with the number of messages before it.
        first: The anchor after the first message; empty when there is none.
        end: The anchor after the last.
    """

    leading: int
    rest: Sequence[Message]
    head: str
    index: Mapping[Anchor, int]
    first: str
    end: Anchor


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
        clock: The time, with a zone, for fields with a `ttl`; None lets nothing grow stale.
        confirmed: When the application last set paths, be it to the same value.

    Returns:
        The plan; nothing is changed.

    Raises:
        StateError: The state holds a value that cannot be rendered.
        MessageError: A message is not plain data.
    """
    request = _read(messages, instructions)
    place = locate(ledger, request.index, request.first) if ledger is not None and ledger.epochs else None
    if place is not None:
        place = place.where(lambda sent: choose_carrier(profile, request.rest, request.index[sent.anchor]) is not None)
    told = _told(place.epoch) if place is not None else Snapshot()
    seen: Mapping[str, datetime] = place.epoch.observed if place is not None else {}
    now, observed = aged(_as_snapshot(state), told, seen, confirmed or {}, clock)
    changes = diff(told, now) if place is not None else ()
    reason, notices = _decide(place, changes, now, request, rebase, policy)
    if place is None or reason is not None:
        epoch = kept = _begin(ledger, now, request, reason, _used_tag(ledger, tag), style)
        again: Sequence[Change] = ()
    else:
        epoch, kept = place.epoch, place.kept
        again = restated(epoch, told, changes, now, request.rest, request.index, policy.restate_after_tokens)
    if dict(observed) != dict(kept.observed):
        kept = replace(kept, observed=observed)
    return _fill(ledger, now, request, epoch, kept, reason, notices, profile, style, again)


def commit(ledger: Ledger | None, plan: TurnPlan) -> Ledger:
    """Record what was sent, after the call succeeded.

    Args:
        ledger: The ledger that the plan was made from.
        plan: The plan.

    Returns:
        A new ledger; the same one when the plan is recorded already or there is nothing to record.

    Raises:
        ConflictError: Another plan was committed in between.
    """
    current = ledger if ledger is not None else Ledger()
    if ledger is not None and plan.id in (current.last, plan.base):
        return current
    if plan.base != current.last:
        raise ConflictError("another turn was recorded between plan and commit; plan again from the current ledger")
    epochs = (*(epoch for epoch in current.epochs if epoch.number != plan.epoch.number), plan.epoch)
    return Ledger(current.version, current.revision + 1, plan.id, epochs[-MAX_EPOCHS:])


def _as_snapshot(state: TrackedState | Snapshot) -> Snapshot:
    if isinstance(state, Snapshot):
        return state
    if not isinstance(state, TrackedState):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise SchemaError(f"the state is a {type(state).__name__}; derive its class from TrackedState")
    return snapshot(state)


def _read(messages: Sequence[Message], instructions: str) -> _Request:
    for message in messages:
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise MessageError(
                f"messages holds a {type(message).__name__}; planning takes pkv_agents.Message "
                "(for LangChain's messages: langchain_pkv.to_core(messages))"
            )
    leading = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    rest = messages[leading:]
    anchors = chain(rest)
    return _Request(
        leading=leading,
        rest=rest,
        head="\n\n".join(text for text in (instructions, *(message.text for message in messages[:leading])) if text),
        index={anchor: count for count, anchor in enumerate(anchors)},
        first=anchors[1] if rest else "",
        end=anchors[-1],
    )


def _used_tag(ledger: Ledger | None, tag: str | None) -> str:
    if ledger is not None and ledger.epochs:
        return ledger.epochs[-1].tag
    return check_tag(tag) if tag is not None else new_tag()


def _told(epoch: Epoch) -> Snapshot:
    return fold(epoch.baseline, (change for erratum in epoch.errata for change in erratum.changes))


def _decide(
    place: Place | None,
    changes: Sequence[Change],
    now: Snapshot,
    request: _Request,
    rebase: str | None,
    policy: RebasePolicy,
) -> tuple[str | None, list[Notice]]:
    """Whether to begin a new epoch, and what to say about the history."""
    if place is None:
        return None, []
    epoch, rest = place.epoch, request.rest
    if rebase is not None:
        return rebase, [_reasons.requested(epoch, rest, rebase)]
    if epoch.head != _head_hash(request.head):
        return _reasons.INSTRUCTIONS_CHANGED, [_reasons.instructions(epoch, rest)]
    pinned = _reasons.pinned_path(changes, epoch.baseline, now)
    if pinned is not None:
        return _reasons.PINNED_CHANGED, [_reasons.pinned(epoch, rest, pinned)]
    if place.kind == "rewritten":
        return _reasons.HISTORY_REWRITTEN, [_reasons.rewritten(epoch, rest, len(place.lost))]
    used = sum(estimate_tokens(erratum.text) for erratum in epoch.errata) + _size(changes)
    limit = policy.limit(estimate_tokens(epoch.baseline_text))
    # What would be told beside a new baseline anyway (Volatile fields) is no reason for one.
    if used > limit and used > limit + _size(diff(now.without_volatile(), now)):
        return _reasons.ERRATA_LIMIT, [_reasons.too_much(epoch, rest, used, limit, changes)]
    return None, _reasons.history(place, rest)


def _size(changes: Sequence[Change]) -> int:
    return estimate_tokens(render_erratum(changes, tag="aaaa")) if changes else 0


def _begin(
    ledger: Ledger | None, now: Snapshot, request: _Request, reason: str | None, tag: str, style: ErrataStyle
) -> Epoch:
    """A new epoch, whose baseline is the state as it is now."""
    numbers = (known.number for known in ledger.epochs) if ledger is not None else ()
    return Epoch(
        number=max(numbers, default=-1) + 1,
        start=ROOT if reason in (None, _reasons.HISTORY_REWRITTEN) else request.end,
        first=request.first,
        tag=tag,
        baseline=now.without_volatile(),
        baseline_text=render_baseline(now, tag=tag, style=style),
        reason=reason or "start",
        head=_head_hash(request.head),
    )


def _fill(
    ledger: Ledger | None,
    now: Snapshot,
    request: _Request,
    epoch: Epoch,
    kept: Epoch,
    reason: str | None,
    notices: Sequence[Notice],
    profile: Profile,
    style: ErrataStyle,
    again: Sequence[Change],
) -> TurnPlan:
    """The plan of a request in its epoch: replay what was sent, tell what is new where there is a place for it."""
    rest, count = request.rest, len(request.rest)
    told = _told(epoch)
    changes = diff(told, now)
    insertions: list[Insertion] = []
    for sent in epoch.errata:
        after = request.index[sent.anchor]
        carrier = choose_carrier(profile, rest, after, sent_as=sent.carrier) or profile.carrier
        insertions.append(Insertion(request.leading + after, sent.text, carrier))
    erratum = None
    carrier = choose_carrier(profile, rest, count) if changes or again else None
    if carrier is None:
        again = ()
    else:
        changes = (*changes, *again)
        erratum = Erratum(request.end, render_erratum(changes, tag=epoch.tag, style=style), carrier, changes)
        insertions.append(Insertion(request.leading + count, erratum.text, carrier, is_new=True))
        kept = replace(kept, errata=(*kept.errata, erratum))
        told = fold(told, changes)
    if carrier is None and any(rest or not now.meta.get(change.path, PLAIN).volatile for change in changes):
        notices = [*notices, _reasons.waits(changes, rest)]
    base = ledger.last if ledger is not None else ""
    return TurnPlan(
        system=f"{request.head}\n\n{epoch.baseline_text}" if request.head else epoch.baseline_text,
        insertions=tuple(insertions),
        erratum=erratum,
        changes=changes,
        restated=tuple(change.path for change in again),
        notices=tuple(notices),
        rebased=reason,
        epoch=kept,
        told=told,
        appended_tokens=estimate_tokens(erratum.text) if erratum is not None else 0,
        leading=request.leading,
        profile=profile,
        base=base,
        id=base if _is_known(ledger, kept) else _plan_id(base, kept, erratum),
    )


def _is_known(ledger: Ledger | None, epoch: Epoch) -> bool:
    return ledger is not None and any(known is epoch for known in ledger.epochs)


def _head_hash(head: str) -> str:
    return hashlib.sha256(head.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plan_id(base: str, epoch: Epoch, erratum: Erratum | None) -> str:
    parts = [base, str(epoch.number), epoch.start, epoch.first, epoch.reason, epoch.baseline_text]
    parts += [erratum.anchor, erratum.carrier, erratum.text] if erratum is not None else []
    parts += [f"{path}@{at.isoformat()}" for path, at in epoch.observed.items()]
    joined = "\0".join(parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:24]
