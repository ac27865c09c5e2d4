"""The reasons of a plan, each as a notice with its cost and mend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ._locate import REWRITTEN as HISTORY_REWRITTEN
from ._locate import SLIDING, Place
from ._rebase import COLD, LIMIT, PAYBACK, RebaseQuote
from ._request import Request
from ._slots import calls_pending
from .diff import Change
from .ledger import Epoch
from .messages import Message
from .notices import Notice
from .paths import is_below
from .profiles import Profile
from .snapshots import PLAIN, Snapshot
from .tokens import estimate_message_tokens, estimate_tokens

INSTRUCTIONS_CHANGED = "instructions_changed"
PINNED_CHANGED = "pinned_changed"
FIELD_HIDDEN = "field_hidden"
STYLE_CHANGED = "style_changed"
CODES = frozenset(
    {
        "start",
        INSTRUCTIONS_CHANGED,
        PINNED_CHANGED,
        FIELD_HIDDEN,
        STYLE_CHANGED,
        HISTORY_REWRITTEN,
        SLIDING,
        COLD,
        LIMIT,
        PAYBACK,
    }
)
"""Every reason of ours for which an epoch begins."""


def _reread(epoch: Epoch, rest: Sequence[Message]) -> str:
    tokens = estimate_tokens(epoch.baseline_text) + estimate_message_tokens(rest)
    return f"about {tokens:,} tokens are read again (baseline and {len(rest)} messages)"


def requested(epoch: Epoch, rest: Sequence[Message], reason: str) -> Notice:
    """A rebase that the caller asked for."""
    return Notice("rebase_requested", cost=_reread(epoch, rest), message=f"a new epoch begins: {reason}")


def instructions(epoch: Epoch, rest: Sequence[Message]) -> Notice:
    """The text above the baseline is another."""
    return Notice(
        INSTRUCTIONS_CHANGED,
        path="instructions",
        cost=f"the whole prompt is read again: {_reread(epoch, rest)}, and the instructions",
        mend="keep the instructions constant in a session and put what changes into the state",
        message="the text above the baseline changed; its errata are folded into a new baseline",
    )


def style(epoch: Epoch, rest: Sequence[Message]) -> Notice:
    """The head does not declare the markers that new errata would have."""
    return Notice(
        STYLE_CHANGED,
        path="style",
        cost=_reread(epoch, rest),
        mend="keep one form of markers in a session; other words may change at any time",
        message="the style's markers are not those that the head declares, so a new epoch begins",
    )


def misplaced(at: int, profile: Profile) -> Notice:
    """A system message of the application's where this provider takes none."""
    return Notice(
        "system_misplaced",
        path=f"messages[{at}]",
        mend="put it at the front, into the instructions, or into the state",
        message=f"the profile {profile.name!r} knows of no system messages behind the head; it goes out as it is",
    )


def in_words(reason: str) -> str:
    """A reason in the user's words, which is never taken for one of ours."""
    return f"requested: {reason}" if reason in CODES else reason


def carrier_changed(after: int, tokens: int) -> Notice:
    """An erratum cannot be replayed in the form in which this model was sent it."""
    return Notice(
        "carrier_changed",
        path=f"messages[{after}]",
        cost=f"about {tokens:,} tokens are read again (everything behind it)",
        mend="keep the model's answer in the history, or send the request again before going on",
        message="an erratum was sent as a system message, and what follows it now allows none there",
    )


def hidden_path(told: Snapshot, now: Snapshot) -> str | None:
    """The first path that was told and is Hidden by now, if any."""
    if not now.hidden:
        return None
    for known in told:  # each told path once: a keyed list of secrets hides as many paths as it has items
        if known in now.hidden:
            return known
        for at, char in enumerate(known):
            if char in ".[" and known[:at] in now.hidden:
                return known[:at]
    return None


def pinned_path(changes: Sequence[Change], told: Snapshot, baseline: Snapshot, now: Snapshot) -> str | None:
    """The first changed path that is pinned, if any; what was never told has not changed."""
    for change in changes:
        is_pinned = now.meta.get(change.path, PLAIN).pinned or baseline.meta.get(change.path, PLAIN).pinned
        if is_pinned and change.path in told:
            return change.path
        # Gone with what it stood in, be that removed or something else now: `config: null`, `items: []`.
        if any(meta.pinned and path in told and is_below(path, change.path) for path, meta in baseline.meta.items()):
            return change.path
    return None


def pinned(epoch: Epoch, rest: Sequence[Message], path: str) -> Notice:
    """A Pinned field moved."""
    return Notice(
        PINNED_CHANGED,
        path=path,
        cost=_reread(epoch, rest),
        mend="change it only between sessions, or drop Pinned() to have it told by an erratum",
        message="a pinned field changed, so a new epoch begins",
    )


def hidden(epoch: Epoch, rest: Sequence[Message], path: str) -> Notice:
    """A field that the head or an erratum shows is Hidden by now."""
    return Notice(
        FIELD_HIDDEN,
        path=path,
        cost=_reread(epoch, rest),
        message="the field is Hidden now and was shown before, so a new epoch begins and the older ones are forgotten",
    )


def folded(epoch: Epoch, rest: Sequence[Message], quote: RebaseQuote, changes: Sequence[Change]) -> Notice:
    """The policy decided on a rebase."""
    told = f"about {quote.errata_tokens:,} tokens of errata are folded into a new baseline"
    if quote.decision == COLD:
        why = f"the last request was {quote.idle_seconds or 0:,.0f} seconds ago and the cache has expired"
        return Notice(COLD, cost="none: everything is read again anyway", message=f"{why}; {told}")
    if quote.decision == LIMIT:
        return Notice(
            LIMIT,
            path=changes[0].path if changes else "",
            cost=_reread(epoch, rest),
            mend="mark a field that changes every turn as Volatile(resolution=...), or raise RebasePolicy's limits",
            message=f"{told}: the limits are {quote.limit_tokens:,} tokens, and how often one field is stated "
            f"({quote.statements} times here)",
        )
    return Notice(
        PAYBACK,
        cost=f"{quote.cost:,.0f} full-priced tokens now",
        message=f"{told}: reading them again has cost {quote.paid:,.0f} full-priced tokens so far",
    )


def rewritten(epoch: Epoch, request: Request, lost: int) -> Notice:
    """The front of the history is another, and errata went with it."""
    return Notice(
        HISTORY_REWRITTEN,
        path=f"messages[{request.leading}]",
        cost=_reread(epoch, request.history.messages),
        mend="trim seldom and by much, not a little every turn; leave in what was sent, reminders too",
        message=f"the front of the history was trimmed or edited and {_errata(lost)} gone; a new epoch begins",
    )


def _errata(count: int) -> str:
    return "1 erratum is" if count == 1 else f"{count} errata are"


def history(place: Place, request: Request) -> list[Notice]:
    """What happened to the history, where the epoch goes on."""
    rest = request.history.messages
    if place.kind == "same" or not place.is_news:
        return []
    if place.kind == "edited":
        return [_edited(place, request)]
    if place.kind == "forked":
        message = "the history branched off or was edited"
        if place.lost:
            message += f"; {_errata(len(place.lost))} not in it"
        again = "current values are told again"
        if not place.keeps:
            last = place.latest()
            after = last.end.after if last is not None else 0
            again += f", and about {estimate_message_tokens(rest[after:]):,} tokens are read again"
        mend = "" if place.keeps else "leave messages as they were sent; trim seldom and by much"
        return [Notice("history_forked", path="messages", cost=again, mend=mend, message=message)]
    cost = f"about {estimate_message_tokens(rest):,} tokens are read again ({len(rest)} messages); the head is kept"
    if place.kind == "moved":
        message = "the front of the history was trimmed or edited; no erratum was lost"
        return [Notice(HISTORY_REWRITTEN, path=f"messages[{request.leading}]", cost=cost, message=message)]
    return [
        Notice(
            SLIDING,
            path=f"messages[{request.leading}]",
            cost=f"on every move of the window, {cost}",
            mend="trim seldom and by much, not a little every turn; leave in what was sent, reminders too",
            message="the front of the history moves again and again; current values are told at the tail",
        )
    ]


def _edited(place: Place, request: Request) -> Notice:
    """Messages that were sent have changed, and no erratum stood behind them."""
    last, rest = place.latest(), request.history.messages
    after = last.end.after if last is not None else 0
    return Notice(
        "history_edited",
        path=f"messages[{request.leading + after}]",
        cost=f"about {estimate_message_tokens(rest[after:]):,} tokens are read again ({len(rest) - after} messages)",
        mend="leave messages as they were sent; append instead",
        message="the history was edited here or further down, or requests went past the ledger",
    )


def orphaned(indexes: Sequence[int]) -> Notice:
    """Tool results without their calls."""
    return Notice(
        "orphan_tool_result",
        path=f"messages[{indexes[0]}]",
        cost=f"{len(indexes)} tool results are not sent",
        mend="trim a tool call together with all of its results",
        message="a tool result stands without the call that it answers, which providers refuse",
    )


def held(reason: Notice) -> Notice:
    """There is a reason for a new epoch, but the head is the server's."""
    return replace(
        reason,
        cost="the provider's server holds the head, which stays as it was",
        mend="begin a new conversation (without the previous response's id) to have it changed",
        message="this would begin a new epoch; what changed in the state is told at the end of the request instead",
    )


def waits(changes: Sequence[Change], rest: Sequence[Message]) -> Notice:
    """There is no place for the erratum yet."""
    is_pending = calls_pending(rest, len(rest))
    why = "a tool call still lacks its result" if is_pending else "the request ends with the assistant's own words"
    if not rest:
        why = "the request has no message behind which it could stand"
    return Notice(
        "erratum_waits",
        path=changes[0].path,
        cost=f"this request does not say {len(changes)} changes",
        mend="" if is_pending else "end the request with a user message or a tool result",
        message=f"the erratum has no legal place: {why}",
    )
