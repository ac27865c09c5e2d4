"""Planning a request: what stands in the head, which errata are replayed, what is told now.

`plan` decides and changes nothing; `commit` records what was sent; `wire` (in `wire`) is what goes out. All are pure,
so a call that fails, is retried or resumed simply never happened: the next plan starts from the same ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import _reasons
from ._locate import Place, locate
from ._slots import calls_pending, choose_carrier
from ._walk import snapshot
from .diff import Change, diff, fold
from .errata import DEFAULT_STYLE, ErrataStyle, check_tag, new_tag, render_baseline, render_erratum
from .errors import ConflictError, SchemaError
from .ledger import MAX_EPOCHS, ROOT, Anchor, Carrier, Epoch, Erratum, Ledger, chain
from .messages import Message
from .notices import Notice
from .profiles import Profile
from .snapshot import Snapshot
from .state import TrackedState
from .tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class RebasePolicy:
    """When errata are folded into a new baseline without being asked.

    A rebase costs the baseline and every message after it, once; errata cost their own length on every request. The
    limit is therefore proportional to the baseline, with a floor under which folding would never pay.

    Attributes:
        floor_tokens: Errata below this never cause a rebase.
        ratio: Nor do errata below this multiple of the baseline's tokens.
    """

    floor_tokens: int = 512
    ratio: float = 1.0

    def limit(self, baseline_tokens: int) -> int:
        """How many tokens of errata an epoch may hold."""
        return max(self.floor_tokens, int(self.ratio * baseline_tokens))


DEFAULT_POLICY = RebasePolicy()


@dataclass(frozen=True, slots=True)
class Insertion:
    """A block and its place.

    Attributes:
        after: How many of the request's messages precede it.
        text: The block.
        carrier: Its form on this request.
        is_new: Told for the first time now, not replayed.
    """

    after: int
    text: str
    carrier: Carrier
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """What one request will look like, and why.

    Attributes:
        system: The whole system text: instructions, a blank line, the baseline.
        insertions: All errata of this history, replayed and new, in order.
        erratum: The new one, if there is news and a place for it.
        changes: What is told now; what would be told, if the erratum waits.
        notices: What the user should know.
        rebased: Why a new epoch begins with this request, or None.
        epoch: The epoch as `commit` records it.
        told: What the model believes after reading this request.
        appended_tokens: An estimate of the new erratum's length.
        leading: How many system messages at the front of the request went into `system`.
        profile: The profile that the plan was made for.
        base: The state of the ledger that the plan was made from.
        id: The plan's own name; equal to `base` when there is nothing to record.
    """

    system: str
    insertions: tuple[Insertion, ...]
    erratum: Erratum | None
    changes: tuple[Change, ...]
    notices: tuple[Notice, ...]
    rebased: str | None
    epoch: Epoch
    told: Snapshot
    appended_tokens: int
    leading: int
    profile: Profile
    base: str
    id: str

    def explain(self) -> str:
        """The plan in words."""
        from .explain import explain

        return explain(self)


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

    Returns:
        The plan; nothing is changed.

    Raises:
        StateError: The state holds a value that cannot be rendered.
        MessageError: A message is not plain data.
    """
    now = _as_snapshot(state)
    leading = _leading(messages)
    rest = messages[leading:]
    head = "\n\n".join(text for text in (instructions, *(message.text for message in messages[:leading])) if text)
    anchors = chain(rest)
    index = {anchor: count for count, anchor in enumerate(anchors)}
    first = anchors[1] if rest else ""
    used_tag = _used_tag(ledger, tag)

    place = locate(ledger, index, first) if ledger is not None and ledger.epochs else None
    told = _told(place.epoch) if place is not None else Snapshot()
    changes = diff(told, now)
    reason, notices = _decide(place, changes, now, rest, head, rebase, policy)
    if place is None or reason is not None:
        is_whole = place is None or reason == _reasons.HISTORY_REWRITTEN
        epoch = Epoch(
            number=max((known.number for known in ledger.epochs), default=-1) + 1 if ledger is not None else 0,
            start=ROOT if is_whole else anchors[-1],
            first=first,
            tag=used_tag,
            baseline=now.without_volatile(),
            baseline_text=render_baseline(now, tag=used_tag, style=style),
            reason=reason or "start",
            head=_head_hash(head),
        )
        kept, told = epoch, epoch.baseline
        changes = diff(told, now)
    else:
        epoch, kept = place.epoch, place.kept

    insertions = [_replay(erratum, index, leading, profile, rest) for erratum in epoch.errata]
    carrier = choose_carrier(profile, rest, len(rest)) if changes else None
    erratum = None
    if carrier is not None:
        text = render_erratum(changes, tag=epoch.tag, style=style)
        erratum = Erratum(anchors[-1], text, carrier, changes)
        kept = replace(kept, errata=(*kept.errata, erratum))
        told = fold(told, changes)
        insertions.append(Insertion(len(messages), text, carrier, is_new=True))
    elif changes and rest:
        notices.append(_reasons.waits(changes, calls_pending(rest, len(rest))))

    base = ledger.last if ledger is not None else ""
    is_same = place is not None and reason is None and erratum is None and _is_known(ledger, kept)
    return TurnPlan(
        system=f"{head}\n\n{epoch.baseline_text}" if head else epoch.baseline_text,
        insertions=tuple(insertions),
        erratum=erratum,
        changes=changes,
        notices=tuple(notices),
        rebased=reason,
        epoch=kept,
        told=told,
        appended_tokens=estimate_tokens(erratum.text) if erratum is not None else 0,
        leading=leading,
        profile=profile,
        base=base,
        id=base if is_same else _plan_id(base, kept, erratum),
    )


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


def _leading(messages: Sequence[Message]) -> int:
    return next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))


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
    rest: Sequence[Message],
    head: str,
    rebase: str | None,
    policy: RebasePolicy,
) -> tuple[str | None, list[Notice]]:
    """Whether to begin a new epoch, and what to say about the history."""
    if place is None:
        return None, []
    epoch = place.epoch
    if rebase is not None:
        return rebase, [_reasons.requested(epoch, rest, rebase)]
    if epoch.head != _head_hash(head):
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


def _replay(
    erratum: Erratum, index: dict[Anchor, int], leading: int, profile: Profile, rest: Sequence[Message]
) -> Insertion:
    after = index[erratum.anchor]
    carrier = choose_carrier(profile, rest, after, sent_as=erratum.carrier)
    return Insertion(leading + after, erratum.text, carrier or erratum.carrier)


def _is_known(ledger: Ledger | None, epoch: Epoch) -> bool:
    return ledger is not None and any(known is epoch for known in ledger.epochs)


def _head_hash(head: str) -> str:
    return hashlib.sha256(head.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plan_id(base: str, epoch: Epoch, erratum: Erratum | None) -> str:
    parts = [base, str(epoch.number), epoch.start, epoch.first, epoch.reason, epoch.baseline_text]
    parts += [erratum.anchor, erratum.carrier, erratum.text] if erratum is not None else []
    joined = "\0".join(parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:24]
