"""Cases for the adapter that calls at once: one rule or two and nothing else, in a head without tools.

They have the form of its training rows, with rules, values, names and towns that no training row holds. No turn before
the question reads the field that decides it, so the history holds no answer that the change contradicts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from benchmarks._cases import Case, Conversation, draw_tag
from benchmarks._modes import asked_before
from examples.support_agent.policy import shop_sections
from examples.support_agent.vocabulary import HELD_OUT
from examples.support_agent.worlds import Size, draw_world

_SHAPES = ((1, 2), (1, 2), (1, 2), (2, 1))
"""Topics and orders; with one of each there is nothing else to ask about before the question."""
_MOST_TURNS = 3


class AtOnceCase(Case):
    """A case in which answers are calls, with no line before them."""

    __slots__ = ()

    def notes(self) -> list[str]:
        """No line before any call."""
        return ["" for _ in self.world.requests]


def at_once_cases() -> Iterator[AtOnceCase]:
    """Cases whose deciding field changes with the question, in the order of their seeds."""
    return map(draw_at_once, count())


def draw_at_once(seed: int) -> AtOnceCase:
    """The case of a seed, any whole number from 0."""
    rng = random.Random(f"parity/at once/{seed}")
    tag, (topics, orders) = draw_tag(rng), rng.choice(_SHAPES)
    while True:
        world = draw_world(rng, Size(topics=topics, orders=orders, prose=0.0, turns=1, vocabulary=HELD_OUT))
        requests = Conversation(rng, HELD_OUT, world, paraphrase=False).draw("flip", "with the question")
        if requests is None or len(requests) > _MOST_TURNS:
            continue
        rules = world.policy.removeprefix(shop_sections()[0]).strip()  # the opening asks for a line before the call
        case = AtOnceCase(
            seed=seed,
            head="short",
            phrasing="trained",
            kind="flip",
            variant="with the question",
            world=replace(world, policy=rules, requests=requests),
            tag=tag,
        )
        if not asked_before(case):
            return case
