"""What of the skills a conversation has: a field of its state, so that it is told, saved and forked like all of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ..markers import Shared, Untrusted
from ..state import TrackedState
from ._fields import held


class OutsideText(BaseModel):
    """A text that others wrote: the model is told so wherever it stands."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Untrusted()]


SkillText = str | OutsideText


class Skills(BaseModel):
    """The skills of one conversation; declare it as a field of the state, and change it by a registry's patches.

        class Desk(TrackedState):
            customer: str
            skills: Skills = Skills()

        registry = SkillRegistry(load_skills("skills"))
        desk = Desk(customer="Mara", skills=registry.start())
        session.update(registry.load("refunds", session.state.skills))

    Attributes:
        available: The catalogue: a line for each skill that can be loaded.
        active: The texts of those that are.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    available: Annotated[dict[str, SkillText], Shared()] = Field(default_factory=dict[str, SkillText])
    active: Annotated[dict[str, SkillText], Shared()] = Field(default_factory=dict[str, SkillText])

    @staticmethod
    def of(state: TrackedState, field: str = "skills") -> Skills:
        """The skills that a state holds.

        Args:
            state: The state.
            field: The path of the field (`SkillRegistry.field`).

        Raises:
            StateError: It holds none there.
        """
        return held(state, field, Skills)


def text_of(value: SkillText) -> str:
    """The text, whoever wrote it."""
    return value.text if isinstance(value, OutsideText) else value


__all__ = ["OutsideText", "Skills"]
