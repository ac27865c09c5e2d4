"""Where a request stands: which epoch its history belongs to, and which errata are still in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .anchors import ROOT, Anchor, History, digest
from .ledger import Epoch, Erratum, Ledger, Sent

REWRITTEN = "history_rewritten"
SLIDING = "sliding_window"

Kind = Literal["same", "forked", "edited", "moved", "rewritten", "sliding"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands.

    Attributes:
        epoch: The epoch, with only those errata that are still in the history (at their positions, in order).
        kept: The epoch as the ledger should keep it: a fork does not lose the other branch's errata.
        lost: Errata of the epoch that are not in this history.
        kind: `same` history going on; `forked`; `edited` further down, which lost no erratum; or its front changed:
            `moved` (nothing was lost), `rewritten` (errata were lost), `sliding` (rewritten again and again).
        before: The recorded requests of this epoch that this one continues, oldest first.
        is_news: The last request did not find the history in this way.
        keeps: The latest request of this branch is a prefix of this one, as far as the history decides it.
    """

    epoch: Epoch
    kept: Epoch
    lost: tuple[Erratum, ...]
    kind: Kind
    before: tuple[Sent, ...] = ()
    is_news: bool = True
    keeps: bool = True

    def latest(self, model: str | None = None) -> Sent | None:
        """The request that reached furthest into this history; of several with one end, the latest.

        Args:
            model: Only requests to this model; None: to any.
        """
        sent = [one for one in self.before if model is None or one.model == model]
        return max(reversed(sent), key=lambda one: one.end.after, default=None)

    def where(self, fits: Callable[[Erratum], bool]) -> Place:
        """The place without those errata that this request's provider does not take where they were told.

        They stay in the ledger, for the provider that took them; what they say is told again, at the end.
        """
        here = tuple(erratum for erratum in self.epoch.errata if fits(erratum))
        return self if len(here) == len(self.epoch.errata) else replace(self, epoch=replace(self.epoch, errata=here))

    def held(self, current: Epoch, history: History) -> Place:
        """The place in a conversation that the provider's server holds: what was told there stays told.

        Where the application's own copy was trimmed or edited, the server's was not; nor does a copy with another front
        branch off, though a request was sent from it before.
        """
        if self.kind in ("same", "forked", "edited") and self.epoch.first in (None, history.first):
            return self
        return Place(current, current, (), "same")


def places_of(ledger: Ledger) -> Iterator[int]:
    """The places at which a history has to be read to be found in this ledger."""
    for epoch in ledger.epochs:
        yield epoch.start.after
        for erratum in epoch.errata:
            yield erratum.anchor.after
    for sent in ledger.sent:
        yield sent.end.after


def locate(ledger: Ledger, history: History) -> Place:
    """Find a history in the ledger.

    Args:
        ledger: A ledger with at least one epoch.
        history: The history, read at least at the ledger's places.

    Returns:
        The place. Of the epochs whose start lies in this history, the one is meant that reached furthest into it.
    """
    current, first = ledger.epochs[-1], history.first
    matching = [
        epoch
        for epoch in ledger.epochs
        if history.has(epoch.start) and _has_front(epoch, ledger, history) and _is_continued(epoch, ledger, history)
    ]
    if not matching:
        return _moved(ledger, history)
    reached = {sent.epoch: sent.end.after for sent in sorted(ledger.sent, key=_end) if history.has(sent.end)}
    found = max(matching, key=lambda epoch: (max(epoch.start.after, reached.get(epoch.number, 0)), epoch.number))
    kept = found if found.first is not None or first is None else replace(found, first=first)
    before = tuple(sent for sent in ledger.sent if sent.epoch == found.number and history.has(sent.end))
    asked = _asked(ledger)
    here = [
        erratum
        for erratum in found.errata
        if history.has(erratum.anchor)
        and not _came_later(erratum, before)
        and not _of_another_answer(erratum, asked.get(erratum.anchor, ()), history)
    ]
    here.sort(key=lambda erratum: erratum.anchor.after)
    lost = tuple(erratum for erratum in found.errata if erratum not in here) if len(here) < len(found.errata) else ()
    goes_on = bool(ledger.sent) and history.has(ledger.sent[-1].end)
    is_other = found.number != current.number
    kind: Kind = "forked" if lost or is_other else "same"
    place = Place(replace(kept, errata=tuple(here)), kept, lost, kind, before, is_news=is_other or not goes_on)
    if not goes_on and _skips_an_answer(ledger, history, place.latest()):
        last = place.latest()
        if lost and (last is None or 2 * last.end.after < len(history.messages)):
            return _moved(ledger, history)  # next to nothing of the old history is left, by chance or at its front
        return replace(place, kind="edited" if kind == "same" else kind, keeps=False)
    return place


def _has_front(epoch: Epoch, ledger: Ledger, history: History) -> bool:
    """Whether the history begins like the epoch's, or goes on from a request of the epoch that began otherwise.

    A request without any message is continued by every history; only where it was the last is that no chance.
    """
    if epoch.first is None or history.first is None or epoch.first == history.first:
        return True
    sent = (one for one in ledger.sent if one.epoch == epoch.number and history.has(one.end))
    return any(one.end.after > 0 or one is ledger.sent[-1] for one in sent)


def _is_continued(epoch: Epoch, ledger: Ledger, history: History) -> bool:
    """Whether a request of the epoch is in this history, or none that was short enough to be; else the front moved."""
    sent = [one for one in ledger.sent if one.epoch == epoch.number]
    short = [one for one in sent if one.end.after <= len(history.messages)]
    return not short or any(history.has(one.end) for one in short)


def _end(sent: Sent) -> int:
    return sent.end.after


def _moved(ledger: Ledger, history: History) -> Place:
    """The front is new: no erratum is left, and nothing of the old history will be continued under this head."""
    current = ledger.epochs[-1]
    fresh = replace(current, start=ROOT, first=history.first, errata=())
    if current.reason in (REWRITTEN, SLIDING) and _slides(ledger, history):
        fresh = replace(fresh, reason=SLIDING)
        is_news = current.reason != SLIDING
        return Place(fresh, fresh, current.errata, "sliding", is_news=is_news, keeps=False)
    return Place(fresh, fresh, current.errata, "rewritten" if current.errata else "moved", keeps=False)


def _slides(ledger: Ledger, history: History) -> bool:
    """Whether about as much history is left as there was: a window that slides on, and no compaction."""
    return bool(ledger.sent) and 2 * len(history.messages) > ledger.sent[-1].end.after


def _asked(ledger: Ledger) -> dict[Anchor, list[Sent]]:
    """The requests whose answers are known, by their end."""
    asked: dict[Anchor, list[Sent]] = {}
    for sent in ledger.sent:
        if sent.answer:
            asked.setdefault(sent.end, []).append(sent)
    return asked


def _came_later(erratum: Erratum, before: Sequence[Sent]) -> bool:
    """Whether this history had gone on beyond an erratum's place before it was told there, for another answer."""
    beyond = (sent.revision for sent in before if sent.end.after > erratum.anchor.after)
    return min(beyond, default=erratum.revision) < erratum.revision


def _of_another_answer(erratum: Erratum, asked: Sequence[Sent], history: History) -> bool:
    """Whether an erratum was told when an answer was asked for again, and this history goes on from an earlier answer.

    Only an answer that was recorded proves that; without one, an erratum is taken to be in the history of its anchor.
    """
    after = erratum.anchor.after
    if after == len(history.messages) or all(erratum.revision <= sent.revision for sent in asked):
        return False
    answer = digest(history.messages[after])
    known = [sent.revision for sent in asked if sent.answer == answer]
    return bool(known) and erratum.revision > max(known)


def _skips_an_answer(ledger: Ledger, history: History, last: Sent | None) -> bool:
    """Whether this history holds answers whose requests are not known: it was edited before one of them."""
    if not ledger.sent or ledger.sent[-1].end.after > len(history.messages):
        return False  # a fork to an earlier place
    after = last.end.after if last is not None else 0
    return sum(message.role == "assistant" for message in history.messages[after:]) > 1
