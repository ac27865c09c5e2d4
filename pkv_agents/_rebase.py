"""When errata are folded into a new baseline without being asked: the numbers, and the decision.

A rebase costs the baseline and every message after it, once, at the price of fresh input instead of cached input.
Errata cost their own length on every request, at the price of cached input. Nobody knows how long a conversation will
go on, so the rule is that of renting skis: rebase when re-reading the errata has cost as much as the rebase would cost
now. That is never more than twice what the best decision in hindsight would have cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ._locate import Place
from ._marks import markers
from ._request import Request
from .anchors import History
from .diff import Change, diff
from .errata import render_erratum
from .errors import SessionError
from .snapshots import Snapshot
from .tokens import estimate_tokens

COLD = "cache_cold"
PAYBACK = "payback"
LIMIT = "errata_limit"

_HOUR = 3600  # the longest lifetime that a marker can ask for
_NOTABLE = 8

_USUAL_READ = 0.1
"""The price of a cached token where the profile does not know it: most providers' by November 2026."""


@dataclass(frozen=True, slots=True)
class RebasePolicy:
    """When errata are folded into a new baseline without being asked.

    Attributes:
        payback: Rebase when re-reading the errata has cost this many times the price of a rebase; None: never for that.
        floor_tokens: Errata below this are never too many.
        ratio: Nor are errata below this multiple of the tokens of baseline and messages. (These two bound the
            transcript where reading from the cache is free.)
        statements: One field may be stated so often in an epoch, where errata are an eighth of the prompt or more.
        when_cold: Rebase when the provider's cache has certainly expired, since everything is read again anyway.
        restate_after_tokens: A `critical` field is told again when so many tokens follow its last erratum.
    """

    payback: float | None = 1.0
    floor_tokens: int = 1024
    ratio: float = 1.0
    statements: int = 64
    when_cold: bool = True
    restate_after_tokens: int = 4096

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing; infinity means "no limit".

        Raises:
            SessionError: A number is negative, or none.
        """
        for name in ("payback", "floor_tokens", "ratio", "statements", "restate_after_tokens"):
            value = getattr(self, name)
            if value is None and name == "payback":
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
                raise SessionError(
                    f"RebasePolicy.{name} ({type(value).__name__}): a number from 0 on, inf for no limit"
                )

    def limit(self, prompt_tokens: int) -> float:
        """How many tokens of errata an epoch may hold beside so many tokens of baseline and messages."""
        return max(self.floor_tokens, self.ratio * prompt_tokens)


DEFAULT_POLICY = RebasePolicy()


@dataclass(frozen=True, slots=True)
class RebaseQuote:
    """What a rebase was considered at; prices are in full-priced input tokens, all counts are estimates.

    Attributes:
        errata_tokens: The errata of this history, the new one included: what a rebase would save on each request.
        limit_tokens: How many there may be.
        statements: How often the field that was stated most often was.
        cost: The price of a rebase now, above that of going on.
        paid: What re-reading the errata has cost in this epoch so far.
        idle_seconds: How long ago the last request of this session was sent; None where that is not known.
        decision: Why a new epoch begins (`cache_cold`, `payback`, `errata_limit`), or None.
    """

    errata_tokens: int = 0
    limit_tokens: float = 0
    statements: int = 0
    cost: float = 0.0
    paid: float = 0.0
    idle_seconds: float | None = None
    decision: str | None = None


def quote(
    place: Place,
    changes: Sequence[Change],
    now: Snapshot,
    request: Request,
    policy: RebasePolicy,
    used_at: datetime | None,
) -> RebaseQuote:
    """Weigh a rebase.

    Args:
        place: Where the request stands.
        changes: What would be told now.
        now: The state.
        request: The request, for its history and its provider's prices.
        policy: The user's policy.
        used_at: When the session last sent a request, on whatever branch: a prefix that it shares was read then.

    Returns:
        The numbers and the decision.
    """
    history, profile, clock = request.history, request.given, request.clock
    epoch, last = place.epoch, place.latest()
    sizes = [estimate_tokens(erratum.text) for erratum in epoch.errata]
    used = sum(sizes) + _size(changes, epoch.tag)
    read = _USUAL_READ if profile.read_multiplier is None else profile.read_multiplier
    write = 1.0 if profile.write_multiplier is None else profile.write_multiplier
    baseline = estimate_tokens(epoch.baseline_text)
    warm = history.tokens_before(last.end.after) if last is not None else 0
    cost = max(0.0, write - read) * (baseline + warm)
    prompt = baseline + history.tokens_before(len(history.messages))
    limit = policy.limit(prompt)
    idle = (clock - used_at).total_seconds() if clock is not None and used_at is not None else None
    paid = _paid(place, history, sizes, read) if sizes else 0.0
    most = _most_stated(place, changes)
    # What would be told beside a new baseline anyway is no reason for one.
    volatile = _size(diff(now.without_volatile(), now), epoch.tag) if used > limit else 0
    decision = None
    if not used or profile.holds_history:
        pass
    elif sizes and policy.when_cold and idle is not None and _is_cold(request, idle):
        decision = COLD
    elif used > limit + volatile or (most > policy.statements and used * _NOTABLE > prompt):
        decision = LIMIT
    elif policy.payback is not None and sizes and paid >= policy.payback * cost:
        decision = PAYBACK
    return RebaseQuote(used, limit, most, round(cost, 1), round(paid, 1), idle, decision)


def _size(changes: Sequence[Change], tag: str) -> int:
    return estimate_tokens(render_erratum(changes, tag=tag)) if changes else 0


def _paid(place: Place, history: History, sizes: Sequence[int], read: float) -> float:
    """The price of all re-readings: an erratum has been read again once for each answer since, but for its own."""
    positions = [erratum.anchor.after for erratum in place.epoch.errata]
    start = positions[0]
    answers = [at for at, message in enumerate(history.messages[start:], start) if message.role == "assistant"]
    total, index = 0, 0
    for position, size in zip(positions, sizes, strict=True):
        while index < len(answers) and answers[index] < position:
            index += 1
        total += size * max(0, len(answers) - index - 1)
    return total * read


def _most_stated(place: Place, changes: Sequence[Change]) -> int:
    counts = Counter(change.path for erratum in place.epoch.errata for change in erratum.changes)
    counts.update(change.path for change in changes)
    return max(counts.values(), default=0)


def _is_cold(request: Request, idle: float) -> bool:
    """Whether nothing of the last request can be in the cache any more."""
    after = request.given.cold_after_seconds
    if after is None or idle <= after:
        return False
    return idle > _HOUR or not any("1h" in markers(message).values() for message in request.messages)
