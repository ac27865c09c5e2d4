"""What the provider's cache will serve of a planned request: the simulator's answer, before anything is sent.

Within an epoch a request begins with the one before it. So the cache is filled with that one, as it was, and then
asked about the new one. Tools are not counted: they stand before everything and do not move in an epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .breakpoints import plan_breakpoints
from .cachesim import CacheRequest, CacheSim, Encode, cache_request, characters
from .messages import Message
from .turnplan import Previous, TurnPlan
from .usage import Usage
from .wire import wire


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a cache should do with a request; the three counts add up to its tokens.

    Attributes:
        read: Tokens that it serves.
        written: Tokens that are read in full and written to it at the price of writing.
        fresh: Tokens that are read in full, at full price.
        method: How tokens were counted.
        known: The profile says something of a cache; where it does not, nothing can be predicted and nothing is read.
        marked: It counts on markers where `plan_breakpoints` says.
    """

    read: int
    written: int
    fresh: int
    method: str
    known: bool = True
    marked: bool = False

    @property
    def usage(self) -> Usage:
        """The same as a usage that is estimated, for `cost_of`."""
        return Usage(self.fresh, self.read if self.known else None, self.written, estimated_by=self.method)

    @property
    def cached_share(self) -> float:
        """The part of the input that the cache serves."""
        total = self.read + self.written + self.fresh
        return self.read / total if total else 0.0


def predict(
    plan: TurnPlan,
    messages: Sequence[Message],
    *,
    encode: Encode = characters,
    method: str = "estimate: characters / 4",
) -> Prediction:
    """Simulate the provider's cache for a planned request.

    Args:
        plan: The plan.
        messages: The messages that it was made for.
        encode: The tokenizer; without one, four characters are a token.
        method: What to call it.

    Returns:
        The counts. Nothing is served when no earlier request of this model is known, or its profile says nothing of a
        cache.
    """
    sim = CacheSim(plan.profile)
    before, now, gap = plan.previous, plan.sent.at, 0.0
    if before is not None:
        sim.run(_request(_earlier(plan, before), messages[: plan.leading + before.after], encode, 0.0))
        gap = (now - before.at).total_seconds() if now is not None and before.at is not None else 0.0
    request = _request(plan, messages, encode, max(0.0, gap))
    outcome = sim.run(request)
    known = plan.profile.automatic is not None or plan.profile.max_breakpoints is not None
    return Prediction(outcome.read, outcome.written, outcome.fresh, method, known, bool(request.breakpoints))


def _request(plan: TurnPlan, messages: Sequence[Message], encode: Encode, at: float) -> CacheRequest:
    sent = wire(plan, messages)
    marks = plan_breakpoints(sent, plan.profile).breakpoints
    return cache_request(sent, breakpoints=marks, at=at, encode=encode)


def _earlier(plan: TurnPlan, before: Previous) -> TurnPlan:
    """The plan of the request before, as far as this one repeats it."""
    end = plan.leading + before.after
    kept = (it for it in plan.insertions if it.after <= end and it.revision <= before.revision and not it.is_new)
    return replace(plan, system=before.system, insertions=tuple(kept), count=end)
