"""`StateTools` around other retrievers, for several agents, and beside structured answers."""


# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.objects import ObjectRetriever
from llama_index.core.workflow import Context
from pydantic import BaseModel

from llama_index.llms.pkv import ContextSession, StatefulLLM, StateMemory, StateTools
from pkv_agents import AgentSession, SessionError, Tools, TrackedState
from tests.llama_index.agents import a_context
from tests.llama_index.providers import call, openai_llm, tool
from tests.llama_index.skills import Desk, SkillTalk, cancel, refund, results, track
from tests.llama_index.support import TAG, assert_append_only, codes
from tests.llama_index.talks import one_call, with_tools

owned = pytest.mark.parametrize("owned", [False, True], ids=["context", "session"])


def names(body: dict[str, Any]) -> list[str]:
    return [one["function"]["name"] for one in body["tools"]]


class Finder(ObjectRetriever[Any]):
    """Finds the tools whose names are in the question."""

    def __init__(self, tools: Sequence[Any]) -> None:
        super().__init__(None, None)  # pyright: ignore[reportArgumentType]
        self.tools = tools
        self.asked: list[str] = []

    def retrieve(self, str_or_query_bundle: Any) -> list[Any]:
        self.asked.append(str(str_or_query_bundle))
        return [one for one in self.tools if one.metadata.name in str(str_or_query_bundle)]

    async def aretrieve(self, str_or_query_bundle: Any) -> list[Any]:
        return self.retrieve(str_or_query_bundle)


def all_tools() -> list[Any]:
    return [tool(cancel), tool(refund), tool(track)]


@with_tools
async def test_a_retriever_that_finds_others_each_time(kind: str) -> None:
    talk = SkillTalk(kind, lambda llm: StateTools(llm, Finder(all_tools())))
    await talk.say("cancel")
    await talk.say("refund", one_call("refund", "1", amount=2))
    assert results(talk.bodies[-1])[-1].endswith("paid 2")
    await talk.say("track or cancel", one_call("cancel", "2", order_id="K1"))
    assert results(talk.bodies[-1])[-1].endswith("cancelled K1")
    held = (await talk.state()).tools
    assert list(held.changed) == ["refund", "track"]
    assert all(held.is_on(name) for name in ("cancel", "refund", "track"))
    talk.assert_append_only()
    assert set(talk.codes()) <= {"history_forked"}


async def test_what_a_retriever_found_in_another_process_can_still_be_called() -> None:
    session = ContextSession(Desk, initial=Desk(), tag=TAG)
    inner, _ = openai_llm()
    llm = StatefulLLM(inner, session)
    agent: Any = FunctionAgent(llm=llm, tool_retriever=StateTools(llm, Finder(all_tools())))
    ctx = await a_context(agent)
    await agent.run("cancel", ctx=ctx)
    await agent.run("track", ctx=ctx)
    inner, provider = openai_llm(script=[[call("track", "1", parcel_id="P1"), call("cancel", "2", order_id="K1")]])
    llm = StatefulLLM(inner, session)
    finder = Finder([tool(refund), tool(track)])
    agent = FunctionAgent(llm=llm, tool_retriever=StateTools(llm, finder))
    await agent.run("nothing", ctx=Context.from_dict(agent, ctx.to_dict()))
    assert results(provider.bodies[-1]) == [
        "P1 is in Lyon",
        "cancel cannot be run here at the moment; nothing was done.",
    ]
    assert finder.asked == ["nothing", "track", "cancel", "nothing"]


@pytest.mark.parametrize("kind", ["function", "react", "workflow"])
async def test_a_plain_retriever_is_named(kind: str) -> None:
    notices: list[Any] = []
    inner, provider = openai_llm()
    session = ContextSession(Desk, initial=Desk(), tag=TAG, on_notice=notices.append)
    made: Any = ReActAgent if kind == "react" else FunctionAgent
    llm = StatefulLLM(inner, session)
    agent = made(name="one", description="one", llm=llm, tool_retriever=Finder(all_tools()))
    runs: Any = AgentWorkflow(agents=[agent], root_agent="one") if kind == "workflow" else agent
    ctx: Context[Any] = Context(runs)
    for text in ("cancel", "refund"):
        provider.script[:] = ["Thought: x\nAnswer: ok"]
        await runs.run(text, ctx=ctx, memory=StateMemory())
    (said,) = [notice for notice in notices if notice.code == "tool_retriever"]
    assert said.path == "Finder" and "StateTools(llm, that_retriever)" in said.mend
    assert ("instructions_changed" if kind == "react" else "tools_changed") in codes(notices)


class Two(TrackedState):
    first: Tools = Tools()
    second: Tools = Tools()


async def test_two_agents_keep_their_tools_in_fields_of_their_own() -> None:
    def workflow(fields: tuple[str, str]) -> tuple[Any, Any]:
        handoff = [call("handoff", "1", to_agent="two", reason="r")]
        inner, provider = openai_llm(script=[handoff, "ok"])
        llm = StatefulLLM(inner, ContextSession(Two, initial=Two(), tag=TAG))
        agents: Any = [
            FunctionAgent(name=name, description=name, llm=llm, tool_retriever=StateTools(llm, [one], field=field))
            for name, one, field in zip(("one", "two"), (cancel, refund), fields, strict=True)
        ]
        made: Any = AgentWorkflow(agents=agents, root_agent="one")
        return made, provider

    runs, provider = workflow(("first", "second"))
    await runs.run("a", ctx=Context(runs), memory=StateMemory())
    assert [names(body) for body in provider.bodies] == [
        ["call_tool", "cancel", "handoff"],
        ["call_tool", "refund", "handoff"],
    ]
    runs, _ = workflow(("first", "first"))
    with pytest.raises(SessionError, match="first: the agents 'one' and 'two' keep different tools in one field"):
        await runs.run("a", ctx=Context(runs), memory=StateMemory())


class Grade(BaseModel):
    """A grade."""

    points: int


async def test_a_structured_answer_beside_it() -> None:
    session = AgentSession(Desk(), key="k", tag=TAG)
    inner, provider = openai_llm(script=["ok", [call("Grade", "1", points=3)]] * 2)
    llm = StatefulLLM(inner, session)
    agent: Any = FunctionAgent(llm=llm, tool_retriever=StateTools(llm, [cancel]), output_cls=Grade)
    memory = StateMemory()
    for text in ("a", "b"):
        assert (await agent.run(text, memory=memory)).structured_response == {"points": 3}
    assert_append_only([provider.bodies[0], provider.bodies[2]])
    assert set(codes(session.report().notices)) <= {"history_rewritten"}, "the question beside it, whatever tools are"


def test_what_is_found_in_one_conversation_is_not_told_in_another() -> None:
    sessions = {name: AgentSession(Desk(), key=name, tag=TAG) for name in ("one", "two")}
    now = ["one"]
    inner, provider = openai_llm()
    llm = StatefulLLM(inner, lambda: sessions[now[0]])
    kit = StateTools(llm, Finder(all_tools()))
    for who, question in (("one", "cancel and refund"), ("two", "track"), ("two", "nothing"), ("one", "nothing")):
        now[0] = who
        llm.chat_with_tools(kit.retrieve(question), user_msg=question)
    first, second = ["call_tool", "cancel", "refund"], ["call_tool", "track"]
    assert [names(body) for body in provider.bodies] == [first, second, second, first]
    assert all(session.state.tools.changed == {} for session in sessions.values())
    by_name: Any = {one.metadata.name: one for one in kit.retrieve("nothing")}
    assert str(by_name["cancel"].call(order_id="K1")) == "cancelled K1"
