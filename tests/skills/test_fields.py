"""What an adapter does before each call: find the fields, and bring the skills up to the registry of now."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from pkv_agents import (
    LOAD_SKILL,
    READ_SKILL_FILE,
    Skill,
    SkillRegistry,
    Skills,
    StateError,
    Tools,
    ToolSpec,
    TrackedState,
    answer_skill_call,
    apply_patch,
    start_tools,
)

REFUNDS = Skill("refunds", "Rules for refunds.", "# Refunds\n\nWithin 30 days.")
NEWER = Skill("refunds", "Rules for refunds.", "# Refunds\n\nWithin 14 days.")
TONE = Skill("tone", "How to write.", "Be brief.", pinned=True)


class Part(BaseModel):
    skills: Skills = Skills()
    tools: dict[str, Tools] = {}


class Desk(TrackedState):
    skills: Skills = Skills()
    tools: Tools = Tools()
    inner: Part = Part()


def test_the_fields_are_found_by_their_path() -> None:
    array = start_tools([ToolSpec("cancel")])
    desk = Desk(tools=array, inner=Part(skills=Skills(available={"a": "b"}), tools={"x y": array}))
    assert Tools.of(desk) == array and Skills.of(desk) == Skills()
    assert Skills.of(desk, "inner.skills").available == {"a": "b"}
    assert Tools.of(desk, 'inner.tools["x y"]') == array


@pytest.mark.parametrize("path", ["skill", "inner", "tools", "inner.tools[b]", "skills.active[a]", "tools.array[0]"])
def test_a_field_that_is_not_there_is_an_error_with_the_mend(path: str) -> None:
    with pytest.raises(StateError, match=r"Desk holds no Skills there; declare `.*: Skills = Skills\(\)`"):
        Skills.of(Desk(), path)


def test_a_registry_brings_a_conversation_up_and_says_what_changed() -> None:
    desk = Desk()
    patch, notices = SkillRegistry([REFUNDS, TONE]).changes_for(desk)
    assert [(notice.code, notice.path) for notice in notices] == [("skills_changed", "refunds, tone")]
    assert all(notice.is_advice and notice.is_event for notice in notices)
    desk = apply_patch(desk, patch)
    assert desk.skills == SkillRegistry([REFUNDS, TONE]).start()
    assert SkillRegistry([REFUNDS, TONE]).changes_for(desk) == ({}, ())
    desk = apply_patch(desk, SkillRegistry([REFUNDS, TONE]).load("refunds", desk.skills))
    patch, notices = SkillRegistry([NEWER]).changes_for(desk)
    assert apply_patch(desk, patch).skills.active == {"refunds": NEWER.body}
    assert notices[0].path == "refunds, tone"


def test_an_answer_that_is_an_error_says_so() -> None:
    skills = SkillRegistry([REFUNDS]).start()
    asked = [
        answer_skill_call(SkillRegistry([REFUNDS]), tool.name, {"name": name, "path": "../x"}, skills)
        for tool in (LOAD_SKILL, READ_SKILL_FILE)
        for name in ("refunds", "other")
    ]
    assert [answer is not None and answer.is_error for answer in asked] == [False, True, True, True]
