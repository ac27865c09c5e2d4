"""Where a request stands: which epoch its history belongs to, and which errata are still in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from .ledger import ROOT, Anchor, Epoch, Erratum, Ledger

REWRITTEN = "history_rewritten"
SLIDING = "sliding_window"

Kind = Literal["same", "forked", "moved", "rewritten", "sliding"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands.

    Attributes:
        epoch: The epoch, with only those errata that are still in the history (at their positions, in order).
        kept: The epoch as the ledger should keep it: a fork does not lose the other branch's errata.
        lost: Errata of the epoch that are not in this history.
        kind: `same` history going on; `forked`; or its front changed: `moved` (nothing was lost), `rewritten` (errata
            were lost), `sliding` (rewritten again and again).
        is_news: For `sliding`: it was not known before.
    """

    epoch: Epoch
    kept: Epoch
    lost: tuple[Erratum, ...]
    kind: Kind
    is_news: bool = True

    def where(self, fits: Callable[[Erratum], bool]) -> Place:
        """The place without those errata that this request's provider does not take where they were told.

        They stay in the ledger, for the provider that took them; what they say is told again, at the end.
        """
        here = tuple(erratum for erratum in self.epoch.errata if fits(erratum))
        return self if len(here) == len(self.epoch.errata) else replace(self, epoch=replace(self.epoch, errata=here))


def locate(ledger: Ledger, index: Mapping[Anchor, int], first: str) -> Place:
    """Find a history in the ledger.

    Args:
        ledger: A ledger with at least one epoch.
        index: The history's anchors, with the number of messages before each.
        first: The anchor after the first message; empty when there is none.

    Returns:
        The place. Of the epochs whose start lies in this history, the one that started furthest in is meant.
    """
    current = ledger.epochs[-1]
    matching = [
        epoch
        for epoch in ledger.epochs
        if epoch.start in index and (not epoch.first or not first or epoch.first == first)
    ]
    if matching:
        found = max(matching, key=lambda epoch: (index[epoch.start], epoch.number))
        kept = found if found.first or not first else replace(found, first=first)
        here = [erratum for erratum in found.errata if erratum.anchor in index]
        here.sort(key=lambda erratum: index[erratum.anchor])
        lost = tuple(erratum for erratum in found.errata if erratum.anchor not in index)
        kind: Kind = "forked" if lost or found.number != current.number else "same"
        return Place(replace(kept, errata=tuple(here)), kept, lost, kind)
    # The front is new, so no erratum is left, and nothing of the old history will be continued under this head.
    fresh = replace(current, start=ROOT, first=first, errata=())
    if current.reason in (REWRITTEN, SLIDING):
        fresh = replace(fresh, reason=SLIDING)
        return Place(fresh, fresh, current.errata, "sliding", is_news=current.reason != SLIDING)
    return Place(fresh, fresh, current.errata, "rewritten" if current.errata else "moved")
