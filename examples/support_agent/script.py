"""What is played: the twelve turns with the whole policy in the head, or with its rules in skills.

    policy      policy.md in the instructions
    skills      its rules in three skills: refunds and shipping from the start, escalation from turn 4 on, and a new
                version of refunds, in which three rules are others, from turn 8 on

The state and what happens to it are the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pkv_agents import SkillRegistry, load_skills

from .policy import POLICY_FILE, shop_sections
from .scenario import TURNS, initial_state
from .schema import Shop, SkilledShop

ScriptName = Literal["policy", "skills"]
SCRIPTS: tuple[ScriptName, ...] = get_args(ScriptName)
LATE_SKILL, LATE_TURN = "escalation", 4
VERSION_TURN = 8

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Script:
    """What is played.

    Attributes:
        name: Which one.
        instructions: What stands at the head's beginning and never changes.
        registries: The skills that there are, by the turn from which on; empty without skills.
        loads: The skill that the application loads on a turn, by turn.
    """

    name: ScriptName
    instructions: str
    registries: Mapping[int, SkillRegistry] = field(default_factory=dict[int, SkillRegistry])
    loads: Mapping[int, str] = field(default_factory=dict[int, str])

    def initial(self) -> Shop:
        """The state at the start."""
        shop = initial_state()
        if not self.registries:
            return shop
        registry = self.registry(1)
        started = registry.start(*(skill.name for skill in registry if skill.name not in self.loads.values()))
        return SkilledShop.model_validate({**shop.model_dump(), "skills": started.model_dump()})

    def registry(self, number: int) -> SkillRegistry:
        """The skills that there are on a turn."""
        return self.registries[max(turn for turn in self.registries if turn <= number)]

    def news(self, number: int, shop: Shop, *, loads: bool) -> dict[str, object]:
        """What happens between two turns without the agent's doing, as a patch.

        Args:
            number: The turn before which, from 1.
            shop: The state until then.
            loads: The application loads a skill when its topic comes up; else the model asks for it.
        """
        patch: dict[str, object] = dict(TURNS[number - 1].outside)
        if isinstance(shop, SkilledShop):
            if number in self.registries:
                patch |= self.registry(number).refresh(shop.skills)
            if loads and number in self.loads:
                patch |= self.registry(number).load(self.loads[number], shop.skills)
        return patch

    def shown(self, patch: Mapping[str, object], shop: Shop) -> dict[str, str]:
        """A patch in a word or two each."""
        active = shop.skills.active if isinstance(shop, SkilledShop) else {}
        known = {f"skills.active[{name}]" for name in active}
        return {
            path: ("a new version" if path in known else "loaded") if path.startswith("skills.active") else str(value)
            for path, value in patch.items()
        }


def script_of(name: ScriptName) -> Script:
    """A script by its name."""
    if name == "policy":
        return Script(name, POLICY_FILE.read_text(encoding="utf-8").strip())
    opening, sections = shop_sections()
    prose = [f"## {section.title}\n{section.prose}" for section in sections if section.topic is None]
    first = SkillRegistry(load_skills(_HERE / "skills"))
    later = first.replaced(*load_skills(_HERE / "skills_v2"))
    instructions = "\n\n".join([opening, *prose])
    return Script(name, instructions, {1: first, VERSION_TURN: later}, {LATE_TURN: LATE_SKILL})


POLICY_SCRIPT = script_of("policy")

__all__ = ["POLICY_SCRIPT", "SCRIPTS", "Script", "ScriptName", "script_of"]
