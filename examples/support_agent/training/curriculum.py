"""What is trained when: from one rule beside one field to the whole policy with errata.

Full prompts alone stay at chance for thousands of decisions on a model of this size; easy forms first, and the next
level when the last one is mastered, is what works.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..skill_worlds import SkillPlan
from ..worlds import Size
from .rows import Head, RowPlan

LEVELS = 5
_CALM = (0.3, 0.45, 0.2, 0.05)
_BUSY = (0.15, 0.4, 0.3, 0.15)
_LATEST = (0.15, 0.3, 0.5, 0.65)  # the share of the training after which a level is left at the latest


@dataclass(slots=True)
class Curriculum:
    """Where the training stands; every worker holds the same values, since hits are summed over all of them.

    Attributes:
        level: The hardest level that is drawn.
        accuracy: A running mean of the decisions on each level.
        mastered: The accuracy at which a level is left.
        skills: The share of rows whose rules are skills, from level 2 on.
        rewritten: The share of rows whose head is rewritten, and not corrected by errata.
        at_once: Answers are calls with no line before them; then there are two levels, of one rule and of two.
    """

    level: int
    accuracy: list[float]
    mastered: float = 0.95
    skills: float = 0.0
    rewritten: float = 0.4
    at_once: bool = False

    @classmethod
    def start(cls, level: int = 0, *, skills: float = 0.0, rewritten: float = 0.4, at_once: bool = False) -> Curriculum:
        """A training that begins at `level`, with some rows whose rules are skills, and some with rewritten heads."""
        return cls(level, [0.0] * LEVELS, skills=skills, rewritten=rewritten, at_once=at_once)

    def update(self, hits: list[float], counts: list[float], progress: float) -> None:
        """Take in a step's hits and decisions a level, and go up a level when it is time."""
        for level in range(LEVELS):
            if counts[level]:
                share = min(0.3, counts[level] / 600)
                self.accuracy[level] += share * (hits[level] / counts[level] - self.accuracy[level])
        late = sum(progress > limit for limit in _LATEST)
        hardest = 1 if self.at_once else LEVELS - 1
        if self.level < hardest and (self.accuracy[self.level] > self.mastered or late > self.level):
            self.level += 1

    def draw(self, rng: random.Random) -> RowPlan:
        """The kind of row to draw now: mostly the hardest level, some of the one below, a few of all others."""
        level = self.level
        if self.at_once:
            return _at_once_plan(rng, level if rng.random() < 0.4 else 0, self.rewritten)
        if level >= 2 and self.skills and rng.random() < self.skills:
            return _skill_plan(rng, level, self.rewritten)
        draw = rng.random()
        if level and draw > 0.6:
            level = level - 1 if draw < 0.85 else rng.randrange(level)
        return _plan(rng, level, self.rewritten)


def _plan(rng: random.Random, level: int, rewritten: float) -> RowPlan:
    head = _head(rng, rewritten)
    if level == 0:
        size = Size(topics=1, orders=rng.choice((1, 2)), prose=0.0, turns=4, changes=_CALM, irrelevant=0.1)
        return RowPlan(size, head, tools=False, keep=0.0, branches=10, level=0)
    if level == 1:
        size = Size(topics=rng.choice((2, 3)), orders=rng.choice((1, 2)), prose=0.0, turns=5, changes=_CALM)
        return RowPlan(size, head, tools=False, keep=0.2, branches=16, level=1)
    if level == 2:
        size = Size(topics=rng.choice((4, 5, 6)), orders=rng.choice((2, 3)), prose=0.05, turns=6, changes=_BUSY)
        return RowPlan(size, head, tools=rng.random() < 0.5, keep=0.5, branches=24, level=2)
    if level == 3:
        size = Size(topics=rng.choice((8, 10, 12)), orders=3, prose=0.1, turns=7, changes=_BUSY)
        return RowPlan(size, head, keep=rng.choice((0.6, 1.0)), branches=32, level=3)
    size = Size(topics=rng.choice((10, 12)), orders=3, prose=rng.choice((0.6, 1.0)), turns=10, changes=_BUSY)
    return RowPlan(size, head, branches=32, level=4)


def _skill_plan(rng: random.Random, level: int, rewritten: float) -> RowPlan:
    """Rows whose rules are skills: small ones mostly, since what is new is the form and not the number of rules."""
    topics, prose = rng.choice((1, 2, 3, 3, 4, 4, 5, 6, 8, 12)), rng.choice((0.0, 0.0, 0.0, 0.0, 0.3, 1.0))
    turns = rng.choice((2, 3, 3, 4))
    size = Size(topics=topics, orders=2, prose=prose, turns=turns, changes=_CALM, irrelevant=0.2)
    head: Head = "errata" if rng.random() >= rewritten / 2 else "end"
    late = 0.25 if head == "errata" else 0.0
    count, own, small = rng.choice((1, 1, 2, 3)), rng.choice((0, 0, 0, 1)), rng.choice((0.0, 0.5))
    skills = SkillPlan(skills=count, own=own, late=late, events=0.8, small=small)
    return RowPlan(size, head, branches=36, level=level, skills=skills)


def _at_once_plan(rng: random.Random, level: int, rewritten: float) -> RowPlan:
    """Short rules without a line before the call, the state before them or behind them."""
    head: Head = "errata" if rng.random() >= rewritten else "end"
    size = Size(topics=level + 1, orders=rng.choice((1, 1, 2)), prose=0.0, turns=3, changes=_BUSY, irrelevant=0.1)
    keep, branches = rng.choice((0.0, 0.5, 1.0, 1.0)), 12 + 6 * level
    before = rng.random() < 0.6
    return RowPlan(size, head, tools=False, keep=keep, branches=branches, level=level, at_once=True, before=before)


def _head(rng: random.Random, rewritten: float) -> Head:
    if rng.random() >= rewritten:
        return "errata"
    return "end" if rng.random() < 0.75 else "top"
