"""What an adapter does before each call: find the fields, and bring the skills up to the registry of now."""

from __future__ import annotations

import re

import pytest
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from pkv_agents import (
    LOAD_SKILL,
    READ_SKILL_FILE,
    SchemaError,
    Skill,
    SkillRegistry,
    Skills,
    Tools,
    ToolSpec,
    TrackedState,
    answer_skill_call,
    apply_patch,
    start_tools,
    tool_from,
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
    assert Tools.at(desk, "tools") == array and Skills.at(desk, "skills") == Skills()
    assert Skills.at(desk, "inner.skills").available == {"a": "b"}
    assert Tools.at(desk, 'inner.tools["x y"]') == array
    for path in ("skills", "inner.skills"):
        Skills.check_at(Desk, path)
    for path in ("tools", "inner.tools[b]"):
        Tools.check_at(Desk, path)


@pytest.mark.parametrize("path", ["skill", "inner", "tools", "inner.tools[b]", "skills.active[a]", "tools.array[0]"])
def test_a_field_that_is_not_there_is_an_error_with_the_mend(path: str) -> None:
    wanted = rf"Desk has no field {re.escape(path)} of type Skills; declare it there, `.*: Skills = Skills\(\)`"
    with pytest.raises(SchemaError, match=wanted):
        Skills.check_at(Desk, path)
    with pytest.raises(SchemaError, match=wanted):
        Skills.at(Desk(), path)


def test_a_key_that_a_state_does_not_have() -> None:
    with pytest.raises(SchemaError, match=r"inner\.tools\[b\]: the state has no Tools there"):
        Tools.at(Desk(), "inner.tools[b]")


def test_a_registry_brings_a_conversation_up_and_says_what_changed() -> None:
    desk = Desk()
    patch, notices = SkillRegistry([REFUNDS, TONE]).changes_for(desk)
    assert not notices, "it had none before"
    desk = apply_patch(desk, patch)
    assert desk.skills == SkillRegistry([REFUNDS, TONE]).start()
    assert SkillRegistry([REFUNDS, TONE]).changes_for(desk) == ({}, ())
    desk = apply_patch(desk, SkillRegistry([REFUNDS, TONE]).load("refunds", desk.skills))
    patch, notices = SkillRegistry([NEWER]).changes_for(desk)
    assert apply_patch(desk, patch).skills.active == {"refunds": NEWER.body}
    assert [(notice.code, notice.path) for notice in notices] == [("skills_changed", "refunds, tone")]
    assert all(notice.is_advice and notice.is_event for notice in notices)


def test_an_answer_that_is_an_error_says_so() -> None:
    skills = SkillRegistry([REFUNDS]).start()
    asked = [
        answer_skill_call(SkillRegistry([REFUNDS]), tool.name, {"name": name, "path": "../x"}, skills)
        for tool in (LOAD_SKILL, READ_SKILL_FILE)
        for name in ("refunds", "other")
    ]
    assert [answer is not None and answer.is_error for answer in asked] == [False, True, True, True]


def test_a_langchain_tool_whose_schema_is_a_dict_says_its_description_once() -> None:
    def run(name: str) -> str:
        return name

    made = StructuredTool.from_function(
        run, name=LOAD_SKILL.name, description=LOAD_SKILL.description, args_schema=dict(LOAD_SKILL.parameters)
    )
    assert tool_from(made) == tool_from(LOAD_SKILL)
