"""The records of planning: what one request will look like, and the policy behind it."""

from __future__ import annotations

from dataclasses import dataclass

from .diff import Change
from .ledger import Carrier, Epoch, Erratum
from .notices import Notice
from .profiles import Profile
from .snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class RebasePolicy:
    """When errata are folded into a new baseline without being asked.

    A rebase costs the baseline and every message after it, once; errata cost their own length on every request. The
    limit is therefore proportional to the baseline, with a floor under which folding would never pay.

    Attributes:
        floor_tokens: Errata below this never cause a rebase.
        ratio: Nor do errata below this multiple of the baseline's tokens.
        restate_after_tokens: A `critical` field is told again when so many tokens follow its last erratum.
    """

    floor_tokens: int = 512
    ratio: float = 1.0
    restate_after_tokens: int = 4096

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
        restated: Which of their paths are critical fields that are only told again.
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
    restated: tuple[str, ...]
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
