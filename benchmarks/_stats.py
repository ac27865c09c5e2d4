"""Means with bootstrap intervals. The one place where benchmarks estimate how far a number can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ROUNDS = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the range in which it stays when the sample is drawn again.

    Attributes:
        mean: The mean; None of an empty sample.
        low: Lower end.
        high: Upper end.
        n: Size of the sample.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int

    def __str__(self) -> str:
        """For instance `0.93 0.89-0.96`."""
        return "-" if self.mean is None else f"{self.mean:.2f} {self.low:.2f}-{self.high:.2f}"


def boot(values: Sequence[float], *, level: float = 0.95, rounds: int = ROUNDS, seed: int = 0) -> Interval:
    """The mean of a sample with its percentile bootstrap interval.

    Args:
        values: The sample; booleans count as 0 and 1.
        level: How much of the resampled means the interval holds.
        rounds: How often the sample is drawn again.
        seed: Makes it repeatable.

    Returns:
        The interval. It has no width when all values are equal, which says little about a small sample.
    """
    if not values:
        return Interval(None, None, None, 0)
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(sample), size=(rounds, len(sample)))
    low, high = np.quantile(sample[drawn].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(sample.mean()), float(low), float(high), len(sample))
