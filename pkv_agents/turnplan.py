"""The records of planning: what one request will look like, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ._rebase import RebaseQuote
from .diff import Change
from .ledger import Carrier, Epoch, Erratum, Sent
from .messages import Message
from .notices import Notice
from .profiles import Profile
from .snapshots import Snapshot

if TYPE_CHECKING:
    from .explain import Explanation


@dataclass(frozen=True, slots=True)
class Insertion:
    """A block and its place.

    Attributes:
        after: How many of the request's messages precede it.
        text: The block.
        carrier: Its form on this request.
        is_new: Told for the first time now, not replayed.
        revision: The ledger's revision that recorded it; for a new one, that which would.
    """

    after: int
    text: str
    carrier: Carrier
    is_new: bool = False
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Previous:
    """What the same model's cache was filled with by the latest request that this one continues.

    Attributes:
        after: How many of this request's messages were in it, unchanged.
        system: Its whole system text.
        revision: Errata of later revisions were not in it.
        at: When it was sent, where that is known.
    """

    after: int
    system: str
    revision: int
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """What one request will look like, and why.

    Attributes:
        system: The whole system text: instructions, a blank line, the baseline.
        insertions: All errata of this history, replayed and new, in order.
        erratum: The new one, if there is news and a place for it.
        changes: What is told now; what would be told, if the erratum waits.
        restated: Which of their paths are critical fields that are only told again.
        notices: What the user should know.
        rebased: Why a new epoch begins with this request, or None.
        quote: What a rebase was considered at; None where there was nothing to decide.
        epoch: The epoch as `commit` records it.
        told: What the model believes after reading this request.
        appended_tokens: An estimate of the new erratum's length.
        kept: The prefix of this branch's last request is kept; None when there was none.
        forgets: Older epochs showed what is Hidden by now, and are forgotten when this is recorded.
        key: The session that made it; empty for a plan made without one.
        count: How many messages it was made for.
        leading: How many system messages at their front went into `system`.
        dropped: The indexes of messages that are not sent: tool results without their calls.
        profile: The profile that the plan was made for.
        sent: How the request will be known in the ledger.
        previous: The latest recorded request to the same model that this one continues, if there is one.
        base: The state of the ledger that the plan was made from.
        id: The plan's own name; equal to `base` when there is nothing to record.
    """

    system: str
    insertions: tuple[Insertion, ...]
    erratum: Erratum | None
    changes: tuple[Change, ...]
    restated: tuple[str, ...]
    notices: tuple[Notice, ...]
    rebased: str | None
    quote: RebaseQuote | None
    epoch: Epoch
    told: Snapshot
    appended_tokens: int
    kept: bool | None
    forgets: bool
    count: int
    leading: int
    dropped: tuple[int, ...]
    profile: Profile
    sent: Sent
    previous: Previous | None
    base: str
    id: str
    key: str = ""

    def explain(self, messages: Sequence[Message] | None = None) -> Explanation:
        """The plan as data, and in words with `str` or `print`; see `pkv_agents.explain`."""
        from .explain import explain

        return explain(self, messages)
