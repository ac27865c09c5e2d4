"""A model that was pickled keeps its session where that can be pickled, and says so at its first call where not."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from llama_index.core.llms import MockLLM
from llama_index.llms.openai import OpenAI

from llama_index.llms.pkv import ContextSession, StatefulLLM
from pkv_agents import SessionError, Skill, SkillRegistry
from tests.llama_index.support import TEXT_WAYS, WAYS, Shop, a_session, a_shop, ask, user


def again(llm: StatefulLLM) -> Any:
    return pickle.loads(pickle.dumps(llm))


@pytest.mark.parametrize("way", [*WAYS, *TEXT_WAYS])
async def test_a_session_that_is_lost_is_an_error_at_the_first_call(way: str) -> None:
    found = again(StatefulLLM(OpenAI(model="gpt-4.1", api_key="k"), a_session(), on_call=lambda call: None))
    with pytest.raises(SessionError, match="was pickled, and its session cannot be: make a StatefulLLM"):
        await ask(found, way, "hi" if way in TEXT_WAYS else [user("hi")])
    assert found.metadata.model_name == "gpt-4.1"


def test_what_can_be_pickled_is_kept() -> None:
    registry = SkillRegistry([Skill("a", "b", "c")])
    found = again(StatefulLLM(MockLLM(), ContextSession(Shop, initial=a_shop()), skills=registry))
    assert isinstance(found.session, ContextSession) and isinstance(found.inner, MockLLM) and found.skills == registry


def test_skills_that_are_lost_are_an_error() -> None:
    registry = SkillRegistry([Skill("a", "b", "c")])
    found = again(StatefulLLM(MockLLM(), ContextSession(Shop, initial=a_shop()), skills=lambda: registry))
    with pytest.raises(SessionError, match="its skills cannot be"):
        found.skills  # noqa: B018 (it raises)
