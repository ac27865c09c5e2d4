"""The tools by which a model asks for a skill, or for one of its files: progressive disclosure.

head        skills.available[refunds]: "Rules for refunds. Use when money goes back."     one line a skill
load_skill  its text follows in the next update of the state
read_skill_file     a file of its folder is the tool's result
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import SkillError
from ..tools import ToolSpec
from ._load import read_resource
from ._registry import Patch, SkillRegistry
from ._state import Skills


def _spec(name: str, description: str, *arguments: str) -> ToolSpec:
    return ToolSpec(
        name,
        description,
        {
            "type": "object",
            "properties": {argument: {"type": "string"} for argument in arguments},
            "required": list(arguments),
            "additionalProperties": False,
        },
    )


LOAD_SKILL = _spec(
    "load_skill",
    "Loads a skill: instructions for a kind of task. The catalogue in the current state names them; load the one that "
    "fits before you act. Its text follows in the next state update.",
    "name",
)
"""The tool with which a model loads a skill; the same for every registry, so a new skill does not move it."""

READ_SKILL_FILE = _spec(
    "read_skill_file",
    "Reads a file that a loaded skill's text names, by its path in the skill's folder.",
    "name",
    "path",
)
"""The tool with which a model reads a further file of a skill."""


@dataclass(frozen=True, slots=True)
class SkillAnswer:
    """What came of a model's call.

    Attributes:
        text: The tool's result.
        patch: What to change in the state, in the same step; empty when nothing changes.
        is_error: The call makes no sense, and the text says why.
    """

    text: str
    patch: Patch
    is_error: bool = False


def answer_skill_call(
    registry: SkillRegistry, name: str, arguments: Mapping[str, object], skills: Skills
) -> SkillAnswer | None:
    """Answer a call of `load_skill` or `read_skill_file`.

    Args:
        registry: The skills that there are.
        name: The tool that was called.
        arguments: What the model wrote.
        skills: What the conversation has (`state.skills`).

    Returns:
        The result and the patch, an error in words where the call makes no sense; None for any other tool.
    """
    if name not in (LOAD_SKILL.name, READ_SKILL_FILE.name):
        return None
    asked = arguments.get("name")
    try:
        if not isinstance(asked, str):
            raise SkillError("`name` must be the name of a skill")
        if name == READ_SKILL_FILE.name:
            return SkillAnswer(_file(registry, asked, arguments.get("path"), skills), {})
        patch = registry.load(asked, skills)
    except SkillError as error:
        return SkillAnswer(f"Nothing was loaded: {error}.", {}, is_error=True)
    if not patch:
        return SkillAnswer(f"Skill {asked} is active already.", {})
    return SkillAnswer(f"Skill {asked} is active now; its text is in the state.", patch)


def _file(registry: SkillRegistry, name: str, path: object, skills: Skills) -> str:
    skill = registry[name]
    if name not in skills.active:
        raise SkillError(f"skill {name!r} is not active; load it first")
    if not isinstance(path, str) or path not in skill.resources:
        raise SkillError(f"skill {name!r} has no such file; it has: {', '.join(skill.resources) or 'none'}")
    return read_resource(skill, path)


__all__ = ["LOAD_SKILL", "READ_SKILL_FILE", "SkillAnswer", "answer_skill_call"]
