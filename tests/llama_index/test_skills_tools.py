"""`StateTools`: what is sent of the tools stays, what changed is told, and a call is held to what is true now."""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.objects import ObjectRetriever
from llama_index.core.tools import QueryEngineTool, ToolOutput
from llama_index.core.workflow import Context
from pydantic import BaseModel

from llama_index.llms.pkv import ContextSession, StatefulLLM, StateMemory, StateTools
from pkv_agents import AgentSession, MissingSessionKeyError, SessionError, StateError, ToolError, Tools, TrackedState
from tests.llama_index.agents import a_context
from tests.llama_index.more_providers import bedrock_llm, genai_llm
from tests.llama_index.providers import call, like_llm, openai_llm, responses_llm, tool
from tests.llama_index.skills import REFUNDS, Desk, SkillTalk, registry, results
from tests.llama_index.support import TAG, a_session, assert_append_only, codes, errata_in, user
from tests.llama_index.talks import one_call, with_tools

owned = pytest.mark.parametrize("owned", [False, True], ids=["context", "session"])


def cancel(order_id: str) -> str:
    """Cancels an order."""
    return f"cancelled {order_id}"


def refund(amount: int) -> str:
    """Pays money back."""
    return f"paid {amount}"


def track(parcel_id: str) -> str:
    """Finds a parcel."""
    return f"{parcel_id} is in Lyon"


def names(body: dict[str, Any]) -> list[str]:
    return [one["function"]["name"] for one in body["tools"]]


@with_tools
@owned
async def test_what_off_says_is_told_and_held(kind: str, owned: bool) -> None:
    ran: list[str] = []

    def close(order_id: str) -> str:
        """Closes an order."""
        ran.append(order_id)
        return "closed"

    def off(desk: Desk) -> Sequence[str]:
        return () if desk.verified else ["close"]

    talk = SkillTalk(kind, lambda llm: StateTools(llm, [close, refund], off=off), owned=owned)
    await talk.say("a", one_call("close", "1", order_id="K1"))
    await talk.patch({"verified": False})
    await talk.say("b", one_call("close", "2", order_id="K2"))
    assert results(talk.bodies[-1])[-1].endswith("'close' is switched off at the moment; nothing was done.")
    assert ran == ["K1"]
    await talk.patch({"verified": True})
    await talk.say("c", one_call("close", "3", order_id="K3"))
    assert ran == ["K1", "K3"]
    assert talk.errata == [
        'verified: false\ntools.changed[close].status: "off"',
        'verified: true\ntools.changed[close].status: "on"',
    ]
    talk.assert_append_only()
    assert "tools_changed" not in talk.codes()


async def test_what_is_switched_off_in_the_same_step_is_not_run() -> None:
    """The model was not told yet; the guard knows."""

    def block(llm: StatefulLLM) -> StateTools:
        session: Any = llm.session

        async def doubt(ctx: Context[Any]) -> str:
            await session.update(ctx, {"verified": False})
            return "doubted"

        off = lambda desk: () if desk.verified else ("refund",)  # noqa: E731
        return StateTools(llm, [tool(doubt, name="doubt", description="Doubts."), refund], off=off)

    talk = SkillTalk("function", block)
    await talk.say("a", [call("doubt", "1"), call("refund", "2", amount=3)], [call("refund", "3", amount=3)])
    said = results(talk.bodies[-1])
    assert said[0] == "doubted" and "switched off" in said[2]
    assert "paid" not in said[1] or said[1] == "paid 3"  # side by side: whichever came first


@with_tools
@owned
async def test_a_late_tool_is_told_and_called_through_the_bridge(kind: str, owned: bool) -> None:
    now: list[Any] = [cancel]
    talk = SkillTalk(kind, lambda llm: StateTools(llm, lambda: now), owned=owned)
    await talk.say("a")
    now.append(track)
    through = one_call("call_tool", "1", name="track", arguments={"parcel_id": "P1"})
    await talk.say("b", through, one_call("track", "2", parcel_id="P2"), one_call("track", "3", parcel=1))
    assert talk.errata[0].split("\n")[:3] == [
        'tools.changed[track].status: "on"',
        'tools.changed[track].call_with: "call_tool"',
        'tools.changed[track].tool.name: "track"',
    ]
    one, two, three = results(talk.bodies[-1])[-3:]
    assert one.endswith("P1 is in Lyon") and two.endswith("P2 is in Lyon")
    assert "'track' was not called: arguments.parcel_id is missing" in three
    now.remove(track)
    await talk.say("c", through)
    assert talk.errata[-1].startswith('tools.changed[track].status: "off"')
    assert "switched off" in results(talk.bodies[-1])[-1]
    talk.assert_append_only()


async def test_without_a_bridge_a_late_tool_goes_behind_the_others_and_is_reported_once() -> None:
    now: list[Any] = [track, cancel]
    talk = SkillTalk("function", lambda llm: StateTools(llm, lambda: now, bridge=False))
    await talk.patch({"customer": "Ada"})
    await talk.say("a")
    await talk.patch({"customer": "Eve"})
    await talk.say("b")
    now.insert(0, refund)
    await talk.say("c")
    await talk.say("d")
    assert [names(body) for body in talk.bodies] == [["cancel", "track"]] * 2 + [["cancel", "track", "refund"]] * 2
    assert talk.codes() == ["tool_late"], "the plain notice about other tools would say it twice"
    assert talk.errata == [] and 'customer: "Eve"' in talk.bodies[2]["messages"][0]["content"], "the head is new, too"
    assert_append_only(talk.bodies[2:])


@with_tools
async def test_a_changed_description_and_other_parameters(kind: str) -> None:
    now: list[Any] = [tool(cancel)]
    talk = SkillTalk(kind, lambda llm: StateTools(llm, lambda: now))
    await talk.say("a")
    now[0] = tool(cancel, description="Cancels an order within a day.")
    await talk.say("b")
    assert talk.errata[-1].endswith('tools.changed[cancel].description: "Cancels an order within a day."')

    def cancel_more(order_id: str, reason: str) -> str:
        """Cancels."""
        return f"{order_id} because {reason}"

    now[0] = tool(cancel_more, name="cancel")
    await talk.say("c", one_call("cancel", "1", order_id="K1", reason="late"))
    assert results(talk.bodies[-1])[-1].endswith("K1 because late")
    assert "tool_parameters_changed" in talk.codes()
    talk.assert_append_only()


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


async def test_tools_that_take_the_context_or_return_directly_and_query_engines() -> None:
    from llama_index.core.query_engine import CustomQueryEngine

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            return f"about {query_str}"

    async def note(ctx: Context[Any], text: str) -> str:
        """Notes."""
        await ctx.store.set("noted", text)
        return "noted"

    engine = QueryEngineTool.from_defaults(Engine(), name="search", description="Searches.")
    talk = SkillTalk(
        "function", lambda llm: StateTools(llm, [tool(note), engine, tool(cancel, return_direct=True)])
    )
    await talk.say("a", [call("note", "1", text="x"), call("search", "2", input="tea")])
    assert results(talk.bodies[-1]) == ["noted", "about tea"]
    assert await talk.ctx.store.get("noted") == "x"
    assert await talk.say("b", one_call("cancel", "3", order_id="K1")) == "cancelled K1"
    assert len(talk.bodies) == 3


async def test_a_tool_that_fails_and_one_with_a_blank_result() -> None:
    def fails() -> str:
        """Fails."""
        raise RuntimeError("no network")

    talk = SkillTalk("function", lambda llm: StateTools(llm, [fails, tool(lambda: "", name="blank", description="b")]))
    await talk.say("a", [call("fails", "1"), call("blank", "2")])
    assert results(talk.bodies[-1])[0] == "no network"


PACKAGES = [openai_llm, like_llm, responses_llm, bedrock_llm]
CALLS = [(make, way) for make in PACKAGES for way in ("chat_with_tools", "achat_with_tools")]


@pytest.mark.parametrize(("make", "way"), [*CALLS, (genai_llm, "achat_with_tools")])
async def test_plain_chat_with_every_package(make: Any, way: str) -> None:
    inner, provider = make()
    session = AgentSession(Desk(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session, skills=registry(REFUNDS))
    now: list[Any] = [cancel, refund]
    kit = StateTools(llm, lambda: now)
    for text in ("a", "b"):
        if way == "achat_with_tools":
            await llm.achat_with_tools(await kit.aretrieve(text), user_msg=text)
        else:
            llm.chat_with_tools(kit.retrieve(text), user_msg=text)
        now = [track]
    one, two = (body.get("tools") or body["toolConfig"] for body in provider.bodies)
    assert one == two and "order_id" in str(one) and "load_skill" in str(one) and "call_tool" in str(one)
    assert 'tools.changed[track].call_with: "call_tool"' in str(provider.bodies[1])
    by_name: Any = {one.metadata.name: one for one in kit.retrieve("")}
    said: ToolOutput = by_name["cancel"].call(order_id="K1")
    assert said.is_error and "switched off" in str(said)
    assert str(by_name["call_tool"].call(name="track", arguments={"parcel_id": "P1"})) == "P1 is in Lyon"
    assert str(by_name["load_skill"]("refunds")) == "Skill refunds is active now; its text is in the state."
    wrong = await by_name["call_tool"].acall(name="nothing", arguments={})
    assert wrong.is_error and "There is no tool 'nothing'" in str(wrong)


class Two(TrackedState):
    first: Tools = Tools()
    second: Tools = Tools()


async def test_two_agents_keep_their_tools_in_fields_of_their_own() -> None:
    def workflow(fields: tuple[str, str]) -> tuple[Any, Any]:
        handoff = [call("handoff", "1", to_agent="two", reason="r")]
        inner, provider = openai_llm(script=[handoff, "ok"])
        llm = StatefulLLM(inner, ContextSession(Two, initial=Two(), tag=TAG))
        agents = [
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


async def test_what_is_wrong_is_said_where_it_is_written() -> None:
    inner, _ = openai_llm()
    desk: Any = ContextSession(Desk, initial=Desk())
    llm = StatefulLLM(inner, desk)
    plain: Any = inner
    with pytest.raises(SessionError, match="llm: a StatefulLLM is needed, not a OpenAI"):
        StateTools(plain)
    nothing: Any = [3]
    with pytest.raises(ToolError, match="a tool is a int; pass a LlamaIndex tool or a function"):
        StateTools(llm, nothing)
    with pytest.raises(SessionError, match="a ContextSession is read asynchronously"):
        StateTools(llm, [cancel]).retrieve("")
    with pytest.raises(MissingSessionKeyError, match="no workflow step is running"):
        await StateTools(llm, [cancel]).aretrieve("")
    with pytest.raises(SessionError, match="the application owns this state"):
        StateTools(StatefulLLM(inner, ContextSession(Desk, state=lambda: Desk())), [cancel])
    with pytest.raises(StateError, match=r"tools: Shop holds no Tools there; declare `tools: Tools = Tools\(\)`"):
        StateTools(StatefulLLM(inner, a_session()), [cancel]).retrieve("")
    session = AgentSession(Desk(), key="k")
    with pytest.raises(ToolError, match="two tools have the"):
        StateTools(StatefulLLM(inner, session), [cancel, tool(track, name="cancel")]).retrieve("")
    assert session.state == Desk(), "nothing was changed"


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


@owned
async def test_a_call_that_fails_after_a_change_of_the_tools_loses_nothing(owned: bool) -> None:
    now: list[Any] = [cancel]
    talk = SkillTalk("function", lambda llm: StateTools(llm, lambda: now), owned=owned)
    await talk.say("a")
    now.append(track)
    with pytest.raises(Exception, match="scripted"):
        await talk.say("b", 500)
    await talk.say("c")
    assert len(talk.errata) == 1 and 'tools.changed[track].status: "on"' in talk.errata[0]
    assert len(set(talk.arrays)) == 1


def test_errata_of_a_conversation_that_goes_on_elsewhere() -> None:
    """Another process with other tools: the same array, and what changed is told."""
    inner, provider = openai_llm()
    session = AgentSession(Desk(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session)
    llm.chat_with_tools(StateTools(llm, [cancel, refund]).retrieve(""), user_msg="a")
    llm.chat_with_tools(
        StateTools(llm, [tool(refund, description="Pays back.")]).retrieve(""), chat_history=[user("a")], user_msg="b"
    )
    assert provider.bodies[0]["tools"] == provider.bodies[1]["tools"]
    assert errata_in(provider.bodies[1]) == [
        'tools.changed[cancel].status: "off"\n'
        'tools.changed[refund].status: "on"\ntools.changed[refund].description: "Pays back."'
    ]
