"""A request in the making: its epoch, what is replayed, and what is told now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import _reasons
from ._locate import Place
from ._request import Request
from ._slots import choose_carrier
from .diff import Change, fold
from .errata import render_erratum
from .ledger import Epoch, Erratum
from .notices import Notice
from .snapshots import Snapshot
from .turnplan import Insertion


@dataclass(frozen=True, slots=True)
class Draft:
    """A request in the making.

    Attributes:
        epoch: The epoch as this request shows it.
        kept: The epoch as the ledger keeps it, with other branches' errata.
        told: What the model believes after reading as much of the request as is made.
        changes: What is not told yet; after `tell`, what is told, or waits.
        again: Lines about critical fields that are only said again.
        erratum: The new erratum.
    """

    epoch: Epoch
    kept: Epoch
    told: Snapshot
    changes: Sequence[Change]
    again: Sequence[Change] = ()
    erratum: Erratum | None = None


def tell(draft: Draft, request: Request, revision: int) -> Draft:
    """Word what is new, if there is news and a place for it.

    Args:
        draft: The draft.
        request: The request.
        revision: The ledger's revision that would record it.

    Returns:
        The draft with its erratum; without one, its changes wait.
    """
    rest = request.history.messages
    carrier = choose_carrier(request.profile, rest, len(rest)) if draft.changes or draft.again else None
    if carrier is None:
        return replace(draft, again=())
    changes = (*draft.changes, *draft.again)
    text = render_erratum(changes, tag=draft.epoch.tag, style=request.style)
    erratum = Erratum(request.history.end, text, carrier, changes, revision)
    kept = replace(draft.kept, errata=(*draft.kept.errata, erratum))
    return replace(draft, kept=kept, told=fold(draft.told, changes), changes=changes, erratum=erratum)


def replayed(epoch: Epoch, request: Request) -> list[Insertion]:
    """The errata of this history, in the form in which they were sent wherever that is still legal.

    In a conversation that the provider's server holds, those that the application's copy no longer has a place for
    are with the server, and are not sent again.
    """
    rest, profile = request.history.messages, request.profile
    insertions: list[Insertion] = []
    for sent in epoch.errata:
        if request.history.has(sent.anchor):
            after = sent.anchor.after
            carrier = choose_carrier(profile, rest, after, sent_as=sent.carrier) or profile.carrier
            insertions.append(Insertion(request.leading + after, sent.text, carrier, revision=sent.revision))
    return insertions


def new_insertion(erratum: Erratum, request: Request) -> Insertion:
    """The new erratum in its place."""
    after = request.leading + erratum.anchor.after
    return Insertion(after, erratum.text, erratum.carrier, is_new=True, revision=erratum.revision)


def changed_carrier(place: Place, request: Request) -> Notice | None:
    """The notice that this model was sent an erratum in another form, in the request that this one continues."""
    latest, rest = place.latest(request.model), request.history.messages
    if latest is None or latest.end.after == len(rest):
        return None
    for erratum in place.epoch.errata:
        if erratum.anchor == latest.end and erratum.revision <= latest.revision:
            after = erratum.anchor.after
            then = choose_carrier(request.profile, rest[:after], after, sent_as=erratum.carrier)
            if choose_carrier(request.profile, rest, after, sent_as=erratum.carrier) != then:
                tokens = request.history.tokens_before(len(rest)) - request.history.tokens_before(after)
                return _reasons.carrier_changed(request.leading + after, tokens)
    return None
