"""Shops whose policy is a skill of about 4,000 tokens, standing in the head or loaded in mid-session.

    head          [ tools, instructions | skill | state ] [ question ]
    turn before   [ tools, instructions | state ] [ greeting | answer ] [ more, erratum: skill | answer ] [ question ]
    same turn     [ tools, instructions | state ] [ greeting | answer ] [ question, erratum: skill ]

The rules are a held-out world's of the parity benchmark, from seeds that nothing else draws; facts about goods, which
decide nothing, make the skill long.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks._arms import openai_tools
from benchmarks._cases import Case, draw_case
from examples.support_agent.policy import read_field
from examples.support_agent.schema import Shop
from examples.support_agent.vocabulary import HELD_OUT
from pkv_agents import DEFAULT_POLICY, AgentSession, Message, Skill, SkillRegistry, Skills
from pkv_agents.local import LocalModel

Place = Literal["head", "turn before", "same turn"]
"""Where the skill stands: in the head, or in an erratum before the question's turn or in it."""

FIRST_SEED = 96_000
"""No other benchmark draws these."""
LONG = 3_000
"""Tokens from which a skill holds the rules of a whole shop; a shorter one those of a few topics."""
SKILL = "shop-rules"
INSTRUCTIONS = "You are the support agent of a shop. Follow the rules of your skill.\n\n"
AS_TOLD = replace(DEFAULT_POLICY, floor_tokens=16_000)
"""By default a skill that is longer than head and floor is folded into the head at once."""
SMALL_TALK = (
    (Message("user", "Hello."), Message("assistant", "Hello! What can I do for you?")),
    (Message("user", "It is about an order."), Message("assistant", "Of course. Which one?")),
)


class Desk(Shop):
    """The shop's state, and the skills of its agent."""

    skills: Skills = Skills()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a shop with a long skill.

    Attributes:
        case: The rules, the state and the question.
        registry: The skill.
        place: Where it stands.
    """

    case: Case
    registry: SkillRegistry
    place: Place

    @property
    def text(self) -> str:
        """The skill as it stands there."""
        form = self.registry.head_text if self.place == "head" else self.registry.appended_text
        return form(SKILL)

    @property
    def question(self) -> Message:
        """What the customer asks."""
        return Message("user", self.case.question.text)

    def session(self, engine: LocalModel) -> AgentSession[Desk]:
        """A new session of this shop, with the skill in the head or not yet loaded."""
        names = [SKILL] if self.place == "head" else []
        state = self.case.states()[-1].model_dump()
        desk = Desk.model_validate({**state, "skills": self.registry.start(*names)})
        return AgentSession(
            desk,
            key=f"{self.place.replace(' ', '-')}-{self.case.seed}",
            instructions=INSTRUCTIONS,
            profile=engine.profile,
            rebase_policy=AS_TOLD,
            tag="skil",
        )

    def history(self, session: AgentSession[Desk], answer: Callable[[Sequence[Message]], Message]) -> list[Message]:
        """The messages up to the question, all but its turn answered; a skill that comes later is loaded in its place.

        Args:
            session: A new session of this shop.
            answer: Has the session answer messages.
        """
        turns = {"head": 0, "turn before": 2, "same turn": 1}[self.place]
        messages: list[Message] = []
        for turn, (said, _) in enumerate(SMALL_TALK[:turns]):
            if turn == 1:
                session.update(self.registry.load(SKILL, session.state.skills))
            messages.append(said)
            messages.append(answer(messages))
        if self.place == "same turn":
            session.update(self.registry.load(SKILL, session.state.skills))
        return [*messages, self.question]

    def answer(self) -> tuple[list[str], str]:
        """The line before the call, and the tool that the policy wants."""
        name = self.case.world.rules[self.case.question.topic].field
        value = json.dumps(read_field(self.case.states()[-1], name, self.case.question.order_id))
        return [self.case.path, value], self.case.answers()[-1][0]


def draw(count: int, tokens: int, engine: LocalModel, place: Place) -> Iterator[Asked]:
    """Shops, in the order of their seeds.

    Args:
        count: How many.
        tokens: How long the skill is at least.
        engine: Counts them.
        place: Where the skill stands.
    """
    for seed in range(FIRST_SEED, FIRST_SEED + 8 * count, 8):
        case = draw_case(seed, head="long" if tokens >= LONG else "short")
        body, facts = case.world.policy, _facts(seed)
        missing = tokens - len(engine.template.encode(body))
        lines: list[str] = []
        while missing > 0:
            lines.append(next(facts))
            missing -= len(engine.template.encode(f"{lines[-1]}\n"))
        body = f"{body}\n\n## Goods\n" + "\n".join(lines) if lines else body
        yield Asked(case, SkillRegistry([Skill(SKILL, "The rules of the shop.", body)]), place)


def tools() -> list[dict[str, object]]:
    """The shop's tools as OpenAI function records."""
    return openai_tools()


def _facts(seed: int) -> Iterator[str]:
    """Lines about goods, without end."""
    drawn = random.Random(f"goods/{seed}")
    words: Sequence[str] = HELD_OUT.items
    while True:
        item, other = drawn.sample(words, 2)
        weight, days = drawn.randrange(2, 90) / 10, drawn.randrange(2, 30)
        yield (
            f"- The {item} weighs {weight} kg, comes from {drawn.choice(HELD_OUT.towns)} in {days} days, and is packed "
            f"{drawn.choice(('in straw', 'in felt', 'flat', 'in a box of its own'))}, never with the {other}."
        )
