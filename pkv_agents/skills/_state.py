"""What of the skills a conversation has: a field of its state, so that it is told, saved and forked like all of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ..errors import PkvError
from ..markers import Shared, Untrusted
from ..notices import Notice
from ..state import TrackedState
from ._fields import StateField


class OutsideText(BaseModel):
    """A text that others wrote: the model is told so wherever it stands."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Untrusted()]


SkillText = str | OutsideText


class Skills(StateField):
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

    available: Annotated[dict[str, SkillText], Shared()] = Field(default_factory=dict[str, SkillText])
    active: Annotated[dict[str, SkillText], Shared()] = Field(default_factory=dict[str, SkillText])

    @classmethod
    def kept(cls, state: TrackedState, error: Exception, *, begins: bool = True) -> Notice:
        """What there is to say where an application's skills cannot be read: a conversation keeps those that it has.

        Args:
            state: The conversation's state.
            error: What reading them raised. It is raised again where the conversation begins with nothing to keep.
            begins: Nothing was sent in this conversation.
        """
        if begins and not any(isinstance(value, cls) and value != cls() for _, value in state):
            raise error
        why = str(error) if isinstance(error, PkvError) else type(error).__name__
        return Notice(
            "skills_unreadable",
            mend="see that the function given as skills= returns a SkillRegistry",
            message=f"the skills could not be read ({why}), so those that are known stay as they are",
        )


def changed_notice(names: Iterable[str]) -> Notice:
    """What there is to say of skills that are not what a conversation was told."""
    return Notice(
        "skills_changed",
        path=", ".join(names),
        mend="nothing: the next request tells what changed, and the prefix stays",
        message="these skills are not what the conversation was told; they came, went or have new texts",
    )


def plain_text(value: SkillText) -> object:
    """A text as plain data, for a patch."""
    return {"text": value.text} if isinstance(value, OutsideText) else value


def text_of(value: SkillText) -> str:
    """The text, whoever wrote it."""
    return value.text if isinstance(value, OutsideText) else value


__all__ = ["OutsideText", "Skills"]
