"""Where skills are held: in contexts that are saved, by several agents, in states of the application's own."""


# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.workflow import Context

from llama_index.llms.pkv import ContextSession, StatefulLLM, StateMemory, skill_tools
from pkv_agents import (
    AgentSession,
    Notice,
    SchemaError,
    SessionError,
    SkillError,
    SkillRegistry,
    StrictNoticeError,
    TrackedState,
    dump_state,
)
from tests.llama_index.agents import a_context
from tests.llama_index.providers import call, openai_llm
from tests.llama_index.skills import LOADED, NEWER, REFUNDS, REPLACED, TONE, Desk, load, registry
from tests.llama_index.support import TAG, UPDATE, Shop, a_session, a_shop, codes, errata_in, user


async def test_a_context_that_was_saved_goes_on_with_the_registry_of_the_process_that_loads_it() -> None:
    def an_agent(skills: SkillRegistry, session: ContextSession[Desk]) -> tuple[Any, Any]:
        inner, provider = openai_llm()
        llm = StatefulLLM(inner, session, skills=skills)
        return FunctionAgent(llm=llm, tools=[*skill_tools(llm)]), provider

    notices: list[Any] = []
    options: Any = {"initial": Desk(), "tag": TAG, "on_notice": notices.append}
    agent, first = an_agent(registry(REFUNDS, TONE), ContextSession(Desk, **options))
    ctx = await a_context(agent)
    first.script[:] = [load("refunds"), "ok"]
    await agent.run("a", ctx=ctx)
    agent, second = an_agent(registry(NEWER), ContextSession(Desk, **options))
    await agent.run("b", ctx=Context.from_dict(agent, ctx.to_dict()))
    assert errata_in(second.bodies[0]) == [LOADED, f"{REPLACED}\nskills.available[tone]: removed"]
    assert second.bodies[0]["tools"] == first.bodies[0]["tools"]
    assert second.bodies[0]["messages"][: len(first.bodies[1]["messages"])] == first.bodies[1]["messages"]
    assert [(notice.code, notice.path) for notice in notices if notice.code == "skills_changed"] == [
        ("skills_changed", "refunds, tone")
    ]


async def test_two_agents_of_a_workflow_are_each_told_of_what_one_loads() -> None:
    from llama_index.core.agent.workflow import AgentWorkflow

    session = ContextSession(Desk, initial=Desk(), tag=TAG)
    skills = registry(REFUNDS)
    one, two = (openai_llm(script=script) for script in ([load("refunds"), [call("handoff", "2", **HANDOFF)]], ["ok"]))
    agents: list[Any] = []
    for name, inner in (("one", one[0]), ("two", two[0])):
        llm = StatefulLLM(inner, session, skills=skills)
        agents.append(FunctionAgent(name=name, description=name, llm=llm, tools=[*skill_tools(llm)]))
    workflow: Any = AgentWorkflow(agents=agents, root_agent="one")
    await workflow.run("a", ctx=Context(workflow), memory=StateMemory())
    assert errata_in(one[1].bodies[-1]) == [LOADED]
    assert "Within 30 days" in two[1].bodies[0]["messages"][0]["content"] and errata_in(two[1].bodies[0]) == []


HANDOFF = {"to_agent": "two", "reason": "r"}


def test_a_rebase_puts_the_current_text_into_the_head() -> None:
    inner, provider = openai_llm()
    session = AgentSession(Desk(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session, skills=registry(REFUNDS))
    llm.chat([user("a")])
    skill_tools(llm)[0].call(name="refunds")
    session.rebase()
    llm.chat([user("a"), user("b")])
    head = provider.bodies[-1]["messages"][0]["content"]
    assert '<text path="skills.active[refunds]">\n# Refunds\n\nWithin 30 days of delivery.\n</text>' in head
    assert UPDATE not in str(provider.bodies[-1]["messages"][1:])


def test_what_is_wrong_is_said_where_it_is_written() -> None:
    inner, _ = openai_llm()
    wrong: Any = [REFUNDS]
    for given in (wrong, SkillRegistry):
        with pytest.raises(SkillError, match="skills: a SkillRegistry or a function that returns one is needed"):
            StatefulLLM(inner, a_session(), skills=given)
    with pytest.raises(SkillError, match="has no skills: StatefulLLM"):
        skill_tools(StatefulLLM(inner, a_session()))
    bare: Any = inner
    with pytest.raises(SessionError, match="llm: a StatefulLLM is needed"):
        skill_tools(bare)
    returns: Any = StatefulLLM(inner, AgentSession(Desk(), key="k"), skills=lambda: wrong)
    with pytest.raises(SkillError, match="the function returned list"):
        returns.chat([user("hi")])
    with pytest.raises(SchemaError, match="Shop has no field skills of type Skills; declare it there"):
        StatefulLLM(inner, a_session(), skills=registry(REFUNDS)).chat([user("hi")])
    session = ContextSession(Desk, state=lambda: Desk())
    with pytest.raises(SessionError, match="the application owns this state"):
        skill_tools(StatefulLLM(inner, session, skills=registry(REFUNDS)))


def test_a_state_that_the_application_owns_is_read_and_not_changed() -> None:
    inner, provider = openai_llm()
    mine = Desk(skills=registry(REFUNDS).start("refunds"))
    said: list[Notice] = []
    now = [registry(REFUNDS)]
    llm = StatefulLLM(inner, AgentSession(lambda: mine, key="k", on_notice=said.append), skills=lambda: now[0])
    llm.chat([user("a")])
    assert "Within 30 days" in provider.bodies[0]["messages"][0]["content"]
    now[0] = registry(NEWER)
    llm.chat([user("a")])
    assert "Within 30 days" in provider.bodies[-1]["messages"][0]["content"], "what the state says is told"
    changed = [notice for notice in said if notice.code == "skills_changed"]
    assert len(changed) == 1 and "the application owns" in changed[0].message


async def test_an_update_may_be_a_function_of_the_state_of_now() -> None:
    inner, _ = openai_llm()
    session = ContextSession(Shop, initial=a_shop())
    agent: Any = FunctionAgent(llm=StatefulLLM(inner, session))
    ctx: Context[Any] = Context(agent)
    for _ in range(3):
        await session.update(ctx, lambda shop: {"cart_total": shop.cart_total + 1})
    assert (await session.get(ctx)).cart_total == 3


def test_a_deeper_field() -> None:
    class Outer(TrackedState):
        desk: Desk = Desk()

    inner, provider = openai_llm()
    session = AgentSession(Outer(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session, skills=registry(REFUNDS, field="desk.skills"))
    llm.chat([user("a")])
    skill_tools(llm)[0].call(name="refunds")
    llm.chat([user("a"), user("b")])
    assert errata_in(provider.bodies[-1]) == [f"desk.{LOADED}"]
    assert dump_state(session.state)["desk"] is not None


async def test_a_strict_session_lets_it_pass() -> None:
    inner, _ = openai_llm()
    session = AgentSession(Desk(), key="k", strict=True)
    now = [registry(REFUNDS)]
    llm = StatefulLLM(inner, session, skills=lambda: now[0])
    llm.chat([user("a")])
    now[0] = registry(NEWER, TONE)
    llm.chat([user("a"), user("b")])
    assert codes(session.report().notices) == []
    with pytest.raises(StrictNoticeError):
        llm.chat([user("c"), user("d")])


@pytest.mark.parametrize("in_a_context", [False, True])
async def test_skills_that_cannot_be_read_stay_as_they_are(in_a_context: bool) -> None:
    inner, provider = openai_llm()
    now: list[Any] = [registry(REFUNDS)]
    said: list[Notice] = []
    desk = Desk(skills=registry(REFUNDS).start("refunds"))
    if in_a_context:
        session: Any = ContextSession(Desk, initial=desk, on_notice=said.append)
        agent: Any = FunctionAgent(llm=StatefulLLM(inner, session, skills=lambda: now[0]))
        ctx = await a_context(agent)
        await agent.run("a", ctx=ctx)
        now[0] = None
        await agent.run("b", ctx=ctx)
    else:
        llm = StatefulLLM(inner, AgentSession(desk, key="k", on_notice=said.append), skills=lambda: now[0])
        llm.chat([user("a")])
        now[0] = None
        llm.chat([user("a")])
    assert "Within 30 days" in provider.bodies[-1]["messages"][0]["content"]
    assert "skills_unreadable" in [notice.code for notice in said]
