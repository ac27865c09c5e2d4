"""Which fields may be edited in place in which head, as probes found it, and what finding it cost.

A verdict is about one model, one head and one field. It is cached by the head's skeleton (its text without the values
of its fields), so it holds for every user of the agent, and what a probe cost is spread over all edits that rely on it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class EditVerdict:
    """What probes of one field in one head found.

    Attributes:
        path: The field.
        agreed: Questions on which the cheap edit decided as the reference did.
        asked: Questions that were asked.
        cost_s: Seconds that asking them took.
        uses: Edits that relied on it since.
    """

    path: str
    agreed: int
    asked: int
    cost_s: float
    uses: int = 0

    @property
    def allows(self) -> bool:
        """Whether the field may be edited in place: only if the two never differed."""
        return self.asked > 0 and self.agreed == self.asked

    @property
    def amortised_s(self) -> float:
        """What the probes cost for each edit that relied on them so far, in seconds."""
        return self.cost_s / max(1, self.uses)

    def __str__(self) -> str:
        """One line."""
        found = "may be edited in place" if self.allows else "must be told"
        return (
            f"{self.path}: {found} ({self.agreed} of {self.asked} decisions agree); probing took {self.cost_s:.1f} s, "
            f"{self.amortised_s:.2f} s for each of {self.uses} edits"
        )


class EditVerdicts:
    """Verdicts of one model, by head and field. Safe for many threads."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], EditVerdict] = {}
        self._lock = threading.Lock()

    def add(self, skeleton: str, path: str, *, agrees: bool, cost_s: float) -> EditVerdict:
        """Counts one question.

        Args:
            skeleton: The head without the values of its fields.
            path: The field.
            agrees: Whether the cheap edit decided as the reference did.
            cost_s: Seconds that asking took.
        """
        with self._lock:
            old = self._found.get((skeleton, path)) or EditVerdict(path, 0, 0, 0.0)
            new = replace(old, agreed=old.agreed + agrees, asked=old.asked + 1, cost_s=old.cost_s + cost_s)
            self._found[skeleton, path] = new
            return new

    def get(self, skeleton: str, path: str) -> EditVerdict | None:
        """The verdict on a field in a head; None if it was never probed."""
        with self._lock:
            return self._found.get((skeleton, path))

    def allows(self, skeleton: str, path: str) -> bool:
        """Whether a field may be edited in place; counts the use if so. What was never probed may not."""
        with self._lock:
            known = self._found.get((skeleton, path))
            if known is None or not known.allows:
                return False
            self._found[skeleton, path] = replace(known, uses=known.uses + 1)
            return True

    def __str__(self) -> str:
        """One line for each verdict."""
        with self._lock:
            return "\n".join(map(str, self._found.values()))
