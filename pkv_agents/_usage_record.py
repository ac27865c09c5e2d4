"""The record of a call's tokens; `usage` fills it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._money import add_amounts, amount_text, read_amount

UsageStatus = Literal["reported", "estimated", "not reported"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or the sum of several, in buckets that do not overlap.

    The first four add up to the input. None means "not reported", which is not 0. All fields are plain JSON data.

    Attributes:
        fresh: Input tokens that were read at full price; all of the input where a cache was not reported.
        cache_read: Input tokens that a cache served.
        cache_write_5m: Input tokens written to a cache for minutes (Anthropic 5, OpenAI 30).
        cache_write_1h: Input tokens written for longer (Anthropic an hour, OpenAI 12).
        output: Generated tokens, reasoning included.
        reasoning: The part of `output` that was reasoning; it is no bucket of its own.
        estimated_by: How the tokens were counted, where the provider did not report them but we counted: the name of
            the method. Empty for what a provider reported.
        reported_cost: What the provider says that the call cost, in US dollars, as decimal text.
        cache_reported_input: In a sum, the input of those calls that reported a cache, where that is not all of it.
    """

    fresh: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    estimated_by: str = ""
    reported_cost: str | None = None
    cache_reported_input: int | None = None

    @property
    def input(self) -> int | None:
        """All input tokens that were reported, or None."""
        return add_counts(self.fresh, self.cache_read, self.cache_write_5m, self.cache_write_1h)

    @property
    def cache_known_input(self) -> int | None:
        """The input of which it is known how much a cache served, or None when that was not reported."""
        if self.cache_read is None:
            return None
        return self.input if self.cache_reported_input is None else self.cache_reported_input

    @property
    def cached_share(self) -> float | None:
        """The part that a cache served of the input of those calls that reported it, or None when none did."""
        known = self.cache_known_input
        return None if self.cache_read is None or not known else self.cache_read / known

    @property
    def status(self) -> UsageStatus:
        """Where the numbers come from; a sum is `estimated` where any part of it is."""
        if self.input is None and self.output is None:
            return "not reported"
        return "estimated" if self.estimated_by else "reported"

    def __add__(self, other: Usage) -> Usage:
        """Sum by bucket; what one side did not report does not turn into 0."""
        methods = {*self.estimated_by.split("; "), *other.estimated_by.split("; ")} - {""}
        cost = add_amounts(read_amount(self.reported_cost), read_amount(other.reported_cost))
        known = add_counts(self.cache_known_input, other.cache_known_input)
        return Usage(
            add_counts(self.fresh, other.fresh),
            add_counts(self.cache_read, other.cache_read),
            add_counts(self.cache_write_5m, other.cache_write_5m),
            add_counts(self.cache_write_1h, other.cache_write_1h),
            add_counts(self.output, other.output),
            add_counts(self.reasoning, other.reasoning),
            "; ".join(sorted(methods)),
            None if cost is None else amount_text(cost),
            None if known == add_counts(self.input, other.input) else known,
        )


def add_counts(*counts: int | None) -> int | None:
    """The sum of those that are known; None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
