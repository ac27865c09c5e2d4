"""Rows of the benchmarks that time operations on keys and values until the first token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HEADERS = ("operation", "tokens", "ttft s", "speed-up to full", "ratio to floor")


@dataclass(frozen=True, slots=True)
class Row:
    """One operation at one length.

    Attributes:
        operation: Its name.
        tokens: Of the prompt, as the benchmark counts them.
        ttft_s: Seconds to the next token's logits, or of one decoded token; the median.
        speedup_to_full: A full prefill's time over this one.
        ratio_to_floor: This time over the floor's.
    """

    operation: str
    tokens: int
    ttft_s: float
    speedup_to_full: float
    ratio_to_floor: float


def rows_from(medians: Mapping[str, float], tokens: int) -> list[Row]:
    """Rows of the median times at one length; `full` and `floor` are among them."""
    full, floor = medians["full"], medians["floor"]
    return [
        Row(name, tokens, round(took, 5), round(full / took, 2), round(took / floor, 2))
        for name, took in medians.items()
    ]
