"""The reasons of a plan, each as a notice with its cost and mend."""

from __future__ import annotations

from collections.abc import Sequence

from ._locate import REWRITTEN as HISTORY_REWRITTEN
from ._locate import SLIDING, Place
from ._slots import calls_pending
from .diff import Change
from .ledger import Epoch
from .messages import Message
from .notices import Notice
from .paths import is_below
from .snapshots import PLAIN, Snapshot
from .tokens import estimate_message_tokens, estimate_tokens

INSTRUCTIONS_CHANGED = "instructions_changed"
PINNED_CHANGED = "pinned_changed"
ERRATA_LIMIT = "errata_limit"


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


def pinned_path(changes: Sequence[Change], baseline: Snapshot, now: Snapshot) -> str | None:
    """The first changed path that is pinned, if any."""
    for change in changes:
        if now.meta.get(change.path, PLAIN).pinned or baseline.meta.get(change.path, PLAIN).pinned:
            return change.path
        if change.kind == "remove" and any(
            meta.pinned and is_below(path, change.path) for path, meta in baseline.meta.items()
        ):
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


def too_much(epoch: Epoch, rest: Sequence[Message], used: int, limit: int, changes: Sequence[Change]) -> Notice:
    """The errata outgrew the policy."""
    return Notice(
        ERRATA_LIMIT,
        path=changes[0].path if changes else "",
        cost=_reread(epoch, rest),
        mend="mark a field that changes every turn as Volatile(resolution=...), or raise RebasePolicy.ratio",
        message=f"about {used:,} tokens of errata exceed the limit of {limit:,}; they are folded into a new baseline",
    )


def rewritten(epoch: Epoch, rest: Sequence[Message], lost: int) -> Notice:
    """The front of the history is another, and errata went with it."""
    return Notice(
        HISTORY_REWRITTEN,
        path="messages[0]",
        cost=_reread(epoch, rest),
        mend="trim seldom and by much, not a little every turn",
        message=f"the front of the history was trimmed or edited and {lost} errata are gone; a new epoch begins",
    )


def history(place: Place, rest: Sequence[Message]) -> list[Notice]:
    """What happened to the history, where the epoch goes on."""
    if place.kind == "same":
        return []
    if place.kind == "forked":
        message = f"the history branched off or was edited; {len(place.lost)} errata are not in it, current values are"
        return [Notice("history_forked", path="messages", cost="current values are told again", message=message)]
    cost = f"about {estimate_message_tokens(rest):,} tokens are read again ({len(rest)} messages); the head is kept"
    if place.kind == "moved":
        message = "the front of the history was trimmed or edited; no erratum was lost"
        return [Notice(HISTORY_REWRITTEN, path="messages[0]", cost=cost, message=message)]
    if place.kind == "sliding" and place.is_news:
        return [
            Notice(
                SLIDING,
                path="messages[0]",
                cost=f"on every move of the window, {cost}",
                mend="trim seldom and by much, not a little every turn",
                message="the front of the history moves again and again; current values are told at the tail",
            )
        ]
    return []


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
