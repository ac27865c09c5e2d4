"""What adapters for frameworks need: the fields of a state, the notice of a refresh, tools as LangChain has them."""

from __future__ import annotations

import pytest
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from pkv_agents import (
    LOAD_SKILL,
    SchemaError,
    Skill,
    SkillRegistry,
    Skills,
    Tools,
    TrackedState,
    answer_skill_call,
    tool_from,
)


class Parts(BaseModel):
    skills: Skills = Skills()


class Desk(TrackedState):
    name: str = "Mara"
    skills: Skills = Skills()
    parts: Parts = Parts()


def test_a_field_is_found_where_it_is() -> None:
    desk = Desk()
    for path, found in (("skills", desk.skills), ("parts.skills", desk.parts.skills)):
        Skills.check_at(Desk, path)
        assert Skills.at(desk, path) is found


@pytest.mark.parametrize(
    ("path", "kind"), [("name", Skills), ("none", Skills), ("skills", Tools), ("name.skills", Skills)]
)
def test_a_field_that_is_not_there(path: str, kind: type[Skills | Tools]) -> None:
    with pytest.raises(SchemaError, match=f"Desk has no field {path} of type {kind.__name__}; declare it"):
        kind.check_at(Desk, path)
    with pytest.raises(SchemaError, match="Desk has no field"):
        kind.at(Desk(), path)


def test_the_notice_of_a_refresh() -> None:
    registry = SkillRegistry([Skill("refunds", "Rules.", "Thirty days.")])
    assert registry.refreshed(Skills(), registry.refresh(Skills())) is None
    skills = registry.start("refunds")
    assert registry.refreshed(skills, registry.refresh(skills)) is None
    newer = registry.replaced(Skill("refunds", "Rules.", "Fourteen days."))
    notice = newer.refreshed(skills, newer.refresh(skills))
    assert notice is not None and notice.is_advice and "skills.active[refunds]" in notice.message


def test_an_answer_says_whether_it_failed() -> None:
    registry = SkillRegistry([Skill("refunds", "Rules.", "Thirty days.")])
    said = [answer_skill_call(registry, LOAD_SKILL.name, {"name": name}, Skills()) for name in ("refunds", "none")]
    assert [answer is not None and answer.failed for answer in said] == [False, True]


def test_a_langchain_tool_whose_schema_is_a_dict_says_its_description_once() -> None:
    def run(name: str) -> str:
        return name

    made = StructuredTool.from_function(
        run, name=LOAD_SKILL.name, description=LOAD_SKILL.description, args_schema=dict(LOAD_SKILL.parameters)
    )
    assert tool_from(made) == tool_from(LOAD_SKILL)
