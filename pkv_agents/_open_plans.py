"""Plans that wait for their answers, with what they were made from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from .messages import Message
from .snapshots import Snapshot
from .turnplan import TurnPlan

MAX_OPEN = 32
"""How many plans may wait at a time; an older one can still be recorded, but not planned anew."""


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """A plan and what it was made from."""

    plan: TurnPlan
    messages: tuple[Message, ...]
    state: Snapshot


class OpenPlans:
    """The plans of a session that were made and not recorded yet."""

    def __init__(self) -> None:
        self._plans: OrderedDict[int, OpenPlan] = OrderedDict()  # by identity, which holding the plan keeps its own

    def add(self, plan: TurnPlan, messages: Sequence[Message], state: Snapshot) -> None:
        """Remember a plan."""
        self._plans[id(plan)] = OpenPlan(plan, tuple(messages), state)
        while len(self._plans) > MAX_OPEN:
            self._plans.popitem(last=False)

    def get(self, plan: TurnPlan) -> OpenPlan | None:
        """What a plan was made from; None for one that does not wait here."""
        return self._plans.get(id(plan))

    def close(self, plan: TurnPlan) -> OpenPlan | None:
        """Forget a plan; what it was made from."""
        return self._plans.pop(id(plan), None)

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()
