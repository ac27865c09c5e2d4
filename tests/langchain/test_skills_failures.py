"""Skills when something goes wrong or branches off, and in a state that the application owns."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents.middleware import ModelRetryMiddleware
from langchain.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt
from pydantic import ConfigDict

from pkv_agents import Notice, SchemaError, SkillRegistry, StateError, apply_patch
from tests.langchain.providers import openai_model
from tests.langchain.skilled import (
    CONFIG,
    MODELS,
    Desk,
    a_registry,
    agent_for,
    assert_kept,
    assert_told_is_true,
    finds,
    newer,
    run,
    shown,
    state_of,
    user,
)
from tests.langchain.support import call

LOADS = [call("load_skill", "c1", name="refunds")]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_call_that_fails_after_a_load_loses_nothing(name: str, asynchronous: bool) -> None:
    model, provider = MODELS[name]([LOADS, 500, "done", "bye"])
    agent = agent_for(model, skills=a_registry())
    with pytest.raises(Exception, match="scripted"):
        await run(agent, user("refund?", pkv_state=Desk()), asynchronous)
    assert "refunds" in state_of(agent).skills.active
    await run(agent, None, asynchronous)
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    await run(agent, user("thanks"), asynchronous)
    assert_kept(provider)
    assert shown(provider.bodies[-1]).count("skills.active[refunds]: ") == 1


def test_a_first_call_that_fails_begins_the_thread_the_next_time(saver: Any) -> None:
    """What is done with the state is written with the answer; until then it is found anew, also in another version."""
    model, provider = openai_model(script=[500, 500, "hello"])
    registry = a_registry()
    for now in (registry, registry, newer(registry).without("tips")):
        agent = agent_for(model, saver=saver, skills=now)
        given = user("hello", pkv_state=Desk()) if not provider.bodies else None
        if len(provider.bodies) < 2:
            with pytest.raises(Exception, match="scripted"):
                agent.invoke(given, CONFIG)
            assert state_of(agent) == Desk()
        else:
            agent.invoke(given, CONFIG)
    assert set(state_of(agent).skills.available) == {"refunds", "terms"}
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_retries_send_the_same() -> None:
    model, provider = openai_model(script=[500, 500, LOADS, 500, "done"])
    retry = ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)
    agent = agent_for(model, skills=a_registry(), before=[retry])
    agent.invoke(user("refund?", pkv_state=Desk()), CONFIG)
    assert len({str(body) for body in provider.bodies[:3]}) == 1 and provider.bodies[3] == provider.bodies[4]
    assert_told_is_true(provider.bodies[-1], state_of(agent))


async def test_an_interrupt_beside_a_load_and_another_process(tmp_path: Any) -> None:
    @tool
    def approve(order_id: str) -> str:
        """Ask a person."""
        return f"{order_id}: {interrupt('ok?')}"

    model, provider = openai_model(script=[[*LOADS, call("approve", "c2", order_id="K1")], "done"])
    path = str(tmp_path / "threads.db")
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        agent = agent_for(model, [approve], saver=saver, skills=a_registry())
        await agent.ainvoke(user("refund?", pkv_state=Desk()), CONFIG)
    async with AsyncSqliteSaver.from_conn_string(
        path
    ) as saver:  # a new version comes between the question and its answer
        agent = agent_for(model, [approve], saver=saver, skills=newer(a_registry()))
        await agent.ainvoke(Command(resume="yes"), CONFIG)
        values = (await agent.aget_state(CONFIG)).values
    active = values["pkv_state"]["skills"]["active"]
    assert "14 days" in active["refunds"] and "14 days" in shown(provider.bodies[-1])
    assert_told_is_true(provider.bodies[-1], Desk.model_validate(values["pkv_state"]))
    assert_kept(provider)


def test_a_fork_from_before_a_load_has_not_loaded(saver: Any) -> None:
    model, provider = openai_model(script=["hello", LOADS, "thirty days", "no idea"])
    agent = agent_for(model, saver=saver, skills=a_registry())
    agent.invoke(user("hello", pkv_state=Desk()), CONFIG)
    before = agent.get_state(CONFIG).config
    agent.invoke(user("refund?"), CONFIG)
    loaded = state_of(agent)
    agent.invoke(user("something else?"), before)
    assert "refunds" in loaded.skills.active and "refunds" not in state_of(agent).skills.active
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    first, _, _, forked = provider.bodies
    assert forked["messages"][: len(first["messages"])] == first["messages"]


def test_an_object_of_the_application_is_changed_in_place() -> None:
    desk, registry = Desk(), a_registry(budget=1000)
    model, provider = openai_model(script=[LOADS, "done"])
    agent = agent_for(model, state=desk, skills=registry)
    agent.invoke(user("refund?"), CONFIG)
    assert set(desk.skills.active) == {"refunds", "tone"}
    assert_told_is_true(provider.bodies[-1], desk)
    agent_for(model, state=desk, skills=newer(registry)).invoke(user("and now?"), CONFIG)
    assert "14 days" in str(desk.skills.active["refunds"])


@dataclass
class Who:
    name: str


async def test_a_function_and_where_it_writes() -> None:
    """Two users, each with a state of their own; four parallel loads lose nothing."""
    desks, lock = {"ann": Desk(), "bob": Desk()}, threading.Lock()

    def write(patch: Any, runtime: Any) -> None:
        with lock:
            desks[runtime.context.name] = apply_patch(desks[runtime.context.name], patch)

    loads = [call("load_skill", name, name=name) for name in ("refunds", "terms", "tips", "tone")]
    model, provider = openai_model(script=[loads, "done", "hello"])
    options: dict[str, Any] = {"state": lambda runtime: desks[runtime.context.name], "on_patch": write}  # pyright: ignore[reportUnknownLambdaType]
    agent = agent_for(model, skills=a_registry(), context=Who, **options)
    for name in desks:
        config: Any = {"configurable": {"thread_id": name}}
        await agent.ainvoke(user("go"), config, context=Who(name))
        assert_told_is_true(provider.bodies[-1], desks[name])
    assert set(desks["ann"].skills.active) == {"refunds", "terms", "tips", "tone"}
    assert set(desks["bob"].skills.active) == {"tone"}


def test_a_function_that_writes_nothing_is_said() -> None:
    model, _ = openai_model()
    agent = agent_for(model, state=finds(Desk()), on_patch=lambda *_: None, skills=a_registry())  # pyright: ignore[reportUnknownLambdaType]
    with pytest.raises(StateError, match="on_patch: the state is as it was before skills"):
        agent.invoke(user("hello"), CONFIG)


class Stone(Desk):
    model_config = ConfigDict(frozen=True)


def test_a_frozen_object_needs_a_way_to_be_changed() -> None:
    model, _ = openai_model()
    with pytest.raises(SchemaError, match="skills= changes the state"):
        agent_for(model, schema=Stone, state=Stone(), skills=a_registry())


def test_loads_through_the_bridge_share_the_budget_with_those_beside_them() -> None:
    sizes = a_registry()
    registry = a_registry(budget=sizes.tokens("tone") + sizes.tokens("terms") + 2)
    bridged = call("call_tool", "c1", name="load_skill", arguments={"name": "terms"})
    model, provider = openai_model(script=[[bridged, call("load_skill", "c2", name="tips")], "done"])
    agent = agent_for(model, skills=registry, tools="tools", late_tools=finds([]))
    agent.invoke(user("go", pkv_state=Desk()), CONFIG)
    assert set(state_of(agent).skills.active) == {"terms", "tone"}
    assert_told_is_true(provider.bodies[-1], state_of(agent))


@pytest.mark.parametrize("wrong", [None, [], KeyError("x")], ids=["none", "a list", "an error"])
def test_skills_that_cannot_be_read_stay_as_they_are(wrong: Any) -> None:
    now: list[Any] = [a_registry()]
    said: list[Notice] = []

    def skills(runtime: Any) -> Any:
        if isinstance(now[0], Exception):
            raise now[0]
        return now[0]

    load = call("load_skill", "c1", name="refunds")
    model, provider = openai_model(script=["hello", [load], "done", [load], "done"])
    agent = agent_for(model, skills=skills, on_notice=said.append)
    agent.invoke(user("go", pkv_state=Desk()), CONFIG)
    good, now[0] = now[0], wrong
    out = agent.invoke(user("go"), CONFIG)
    assert out["messages"][-2].status == "error" and "cannot be read" in out["messages"][-2].text
    assert "skills_unreadable" in [notice.code for notice in said]
    now[0] = good
    agent.invoke(user("go"), CONFIG)
    assert "refunds" in state_of(agent).skills.active
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    now[0] = wrong
    with pytest.raises((SchemaError, KeyError)):
        agent.invoke(user("go", pkv_state=Desk()), {"configurable": {"thread_id": "another"}})


@pytest.mark.parametrize("more", ["self", "runtime", "config", "run_manager", "name_"])
@pytest.mark.parametrize("tools", [None, "tools"])
def test_arguments_that_a_model_makes_up_raise_nothing(more: str, tools: str | None) -> None:
    load = {**LOADS[0], "args": {"name": "refunds", more: 1}}
    model, provider = openai_model(script=[[load], "done"])
    agent = agent_for(model, skills=a_registry(), tools=tools)
    out = agent.invoke(user("go", pkv_state=Desk()), CONFIG)
    assert out["messages"][-1].text == "done"
    assert ("refunds" in state_of(agent).skills.active) == (tools is None), "the array's guard holds it to its schema"
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_a_thread_without_skills_goes_on_where_they_cannot_be_read() -> None:
    now: list[Any] = [SkillRegistry()]
    said: list[Notice] = []
    model, provider = openai_model(script=["a", "b", "c"])
    agent = agent_for(model, skills=lambda _: now[0], on_notice=said.append)  # pyright: ignore[reportUnknownLambdaType]
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    for wrong in (None, SkillRegistry([], field="customer")):
        now[0] = wrong
        agent.invoke(user("b"), CONFIG)
    assert [notice.code for notice in said] == ["skills_unreadable"]
    assert_told_is_true(provider.bodies[-1], state_of(agent))
