"""The ledger: what was sent, and where in the history it stands.

The ledger is private, plain data, and the only thing that is believed about the past: errata are never read back from
messages. Each erratum is anchored to the *content* of the history before it (see `anchors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from .anchors import Anchor
from .diff import Change
from .snapshots import Snapshot

Carrier = Literal["system", "user_suffix"]

LEDGER_VERSION = 1
MAX_EPOCHS = 16
"""Older epochs are dropped: a fork from before them begins a new epoch, as if its history had been rewritten."""
MAX_SENT = 64
"""Older requests are forgotten: they only serve to see what a cache still holds."""


@dataclass(frozen=True, slots=True)
class Erratum:
    """An erratum that was sent; it is replayed byte for byte.

    Attributes:
        anchor: The history before it.
        text: The block.
        carrier: The form in which it was sent.
        changes: What it says.
        revision: The ledger's revision that recorded it.
    """

    anchor: Anchor
    text: str
    carrier: Carrier
    changes: tuple[Change, ...]
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """One request that succeeded.

    Attributes:
        end: The place behind its last message.
        epoch: The number of the epoch whose head stood before it.
        model: Whose cache it filled.
        revision: The ledger's revision behind it: errata of later revisions were not in it.
        at: When it was sent; None where no clock was given.
        answer: What it was answered with (`anchors.digest`); empty where that is not known.
    """

    end: Anchor
    epoch: int
    model: str
    revision: int
    at: datetime | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Epoch:
    """From one baseline to the next.

    Attributes:
        number: Counts up in a session.
        start: The history at which this epoch began; the root for one whose whole history was new.
        first: The anchor after the first message (None while there was none): it tells a fork from a rewritten front.
        tag: The tag of the blocks.
        baseline: What the baseline says.
        baseline_text: The block that was sent.
        errata: What was told since, in order of their commits.
        reason: Why the epoch began: `start`, or the code or words of the rebase.
        head: A hash of the instructions above the baseline.
        observed: When each value with a `ttl` was first told or last confirmed.
    """

    number: int
    start: Anchor
    first: Anchor | None
    tag: str
    baseline: Snapshot
    baseline_text: str
    errata: tuple[Erratum, ...] = ()
    reason: str = "start"
    head: str = ""
    observed: Mapping[str, datetime] = field(default_factory=dict[str, datetime])


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything that was sent in a session, most recently used epoch last.

    Attributes:
        version: The format of the stored form.
        revision: Counts the commits.
        last: The id of the last committed plan; a plan made from another state of the ledger is stale.
        epochs: At least one.
        sent: The latest requests, oldest first.
        refused: Models that take no system turns behind the head, as their answers showed.
    """

    version: int = LEDGER_VERSION
    revision: int = 0
    last: str = ""
    epochs: tuple[Epoch, ...] = ()
    sent: tuple[Sent, ...] = ()
    refused: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The ledger as plain JSON data, the same for equal ledgers."""
        from ._codec import encode

        return encode(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Ledger:
        """Read a ledger back.

        Args:
            data: What `to_dict` made, perhaps through JSON.

        Raises:
            LedgerError: Damaged data, or a version that this library does not know; `data` is not changed.
        """
        from ._codec import decode

        return decode(data)
