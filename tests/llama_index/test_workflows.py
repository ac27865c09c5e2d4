"""`StatefulLLM` in every kind of agent and engine, two runs on one memory, and what cannot work."""

import asyncio
import json
from typing import Any, cast

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context

from llama_index.llms.pkv import ContextSession, ModelCall, StatefulLLM, StateMemory
from pkv_agents import AgentSession, Notice, SchemaError, SessionError, StateError
from tests.llama_index.agents import a_context, an_agent, cancelling, the_session
from tests.llama_index.providers import Provider, call, openai_llm, tool
from tests.llama_index.support import (
    TAG,
    Shop,
    a_session,
    a_shop,
    assert_append_only,
    codes,
    errata_in,
)


class TestR32:
    """Two runs on one memory."""

    async def test_the_head_is_sent_as_it_was(self) -> None:
        session = a_session()
        agent, provider = an_agent(["one", "two"], session, system_prompt="Be brief.")
        memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
        await agent.run("a", memory=memory)
        session.state.mode = "auto"
        await agent.run("b", memory=memory)
        assert [message["role"] for message in provider.bodies[1]["messages"]] == [
            "system",
            "user",
            "assistant",
            "user",
            "system",
        ]
        assert_append_only(provider.bodies)

    async def test_another_system_prompt_is_one_head_and_a_notice(self) -> None:
        notices: list[Notice] = []
        session = AgentSession(a_shop(), key="k", tag=TAG, on_notice=notices.append)
        memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
        agent, _ = an_agent(["one"], session, system_prompt="Be brief.")
        await agent.run("a", memory=memory)
        session.state.mode = "auto"
        agent, second = an_agent(["two"], session, system_prompt="Be kind.")
        await agent.run("b", memory=memory)
        messages = second.bodies[0]["messages"]
        assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
        assert messages[0]["content"].startswith("Be kind.\n\nCurrent state.")
        assert 'mode: "auto"' in messages[0]["content"]
        assert errata_in(second.bodies[0]) == []
        assert codes(notices) == ["instructions_changed"]

    async def test_what_changes_in_a_prompt_can_be_a_field(self) -> None:
        session = a_session()
        memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
        agent, provider = an_agent(["one", "two"], session)
        session.state.notes = {"tone": "brief"}
        await agent.run("a", memory=memory)
        session.state.notes = {"tone": "kind"}
        await agent.run("b", memory=memory)
        assert_append_only(provider.bodies)
        assert errata_in(provider.bodies[1]) == ['notes[tone]: "kind"']


class TestAgentWorkflow:
    def workflow(self, session: Any, script: Any) -> tuple[Any, Provider]:
        inner, provider = openai_llm(script=script)
        llm = StatefulLLM(inner, session)
        agents = [
            FunctionAgent(name=name, description=name, system_prompt=f"You are {name}.", llm=llm, can_handoff_to=other)
            for name, other in (("front", ["back"]), ("back", ["front"]))
        ]
        return AgentWorkflow(agents=list(agents), root_agent="front"), provider

    async def test_each_agent_has_a_ledger_and_all_have_one_state(self) -> None:
        notices: list[Notice] = []
        session = the_session(instructions="", on_notice=notices.append)
        script = [
            "hello",
            [call("handoff", "1", to_agent="back", reason="it must")],
            "here",
            [call("handoff", "2", to_agent="front", reason="done")],
            "bye",
        ]
        workflow, provider = self.workflow(session, script)
        ctx = await a_context(workflow)
        await workflow.run("hi", ctx=ctx)
        await session.update(ctx, {"mode": "auto"})
        await workflow.run("to the back", ctx=ctx)
        await session.update(ctx, {"cart_total": 3})
        await workflow.run("to the front", ctx=ctx)
        heads = [body["messages"][0]["content"].partition("\n")[0] for body in provider.bodies]
        assert heads == ["You are front.", "You are front.", "You are back.", "You are back.", "You are front."]
        front = [body for body, head in zip(provider.bodies, heads, strict=True) if "front" in head]
        back = [body for body, head in zip(provider.bodies, heads, strict=True) if "back" in head]
        assert_append_only(front)
        assert_append_only(back)
        assert errata_in(front[-1]) == ['mode: "auto"', "cart_total: 3"]
        assert 'mode: "auto"' in back[0]["messages"][0]["content"]
        assert errata_in(back[-1]) == ["cart_total: 3"]
        assert codes(notices) == []
        assert (await session.report(ctx, "front")).total_turns == 3
        assert (await session.report(ctx, "back")).total_turns == 2


class TestReActAgent:
    async def test_a_run_with_a_tool(self) -> None:
        session = the_session()
        script = [
            'Thought: I cancel.\nAction: cancel\nAction Input: {"order_id": "K417"}',
            "Thought: I can answer.\nAnswer: done",
            "Thought: I can answer.\nAnswer: yes",
        ]
        inner, provider = openai_llm(script=script)
        agent: Any = ReActAgent(llm=StatefulLLM(inner, session), tools=[cancelling(session)])
        ctx = await a_context(agent)
        await agent.run("cancel K417", ctx=ctx)
        assert errata_in(provider.bodies[1]) == ['orders[K417].status: "cancelled"']
        assert_append_only(provider.bodies[:2])
        out = await agent.run("is it?", ctx=ctx)
        assert str(out) == "yes"
        # ReActAgent remembers a run's thoughts and results as one answer: another history, to which all is told again.
        assert 'orders[K417].status: "cancelled"' in json.dumps(provider.bodies[2]).replace("\\", "")

    async def test_a_model_that_calls_no_functions(self) -> None:
        agent: Any = FunctionAgent(
            llm=StatefulLLM(MockLLM(), a_session()), tools=[tool(lambda: "", name="x", description="x")]
        )
        with pytest.raises((ValueError, SessionError), match="FunctionCallingLLM"):
            await agent.run("hi")


@pytest.mark.parametrize("way", ["chat", "stream_chat", "achat", "astream_chat"])
async def test_a_chat_engine(way: str) -> None:
    inner, provider = openai_llm(script=["one", "two"])
    session = a_session()
    llm = StatefulLLM(inner, session)
    engine = SimpleChatEngine.from_defaults(llm=llm, system_prompt="Be brief.", memory=StateMemory())
    for text in ("a", "b"):
        method: Any = getattr(engine, way)
        answer = await method(text) if way.startswith("a") else method(text)
        if way == "stream_chat":
            list(answer.response_gen)
        elif way == "astream_chat":
            _ = [piece async for piece in answer.async_response_gen()]
        session.state.mode = "auto"
    assert errata_in(provider.bodies[1]) == ['mode: "auto"']
    assert_append_only(provider.bodies)
    assert len(engine.chat_history) == 4


class TestTheApplicationsState:
    async def test_is_read_at_each_call(self) -> None:
        shop = a_shop()
        session = ContextSession(Shop, state=lambda: shop, tag=TAG)
        agent, provider = an_agent([], session)
        ctx = await a_context(agent)
        await agent.run("a", ctx=ctx)
        shop.mode = "auto"
        await agent.run("b", ctx=ctx)
        assert errata_in(provider.bodies[1]) == ['mode: "auto"']
        assert (await session.get(ctx)).mode == "auto"
        for change in (session.set(ctx, shop), session.update(ctx, {"mode": "plan"})):
            with pytest.raises(SessionError, match="the application owns this state"):
                await change


class TestMistakes:
    def test_arguments(self) -> None:
        anything: Any = a_shop()
        with pytest.raises(SchemaError, match="takes a class derived from TrackedState, not an instance of Shop"):
            ContextSession(anything)
        with pytest.raises(SchemaError, match="initial: a Shop is needed, not a dict"):
            ContextSession(Shop, initial=cast("Any", {}))
        with pytest.raises(SchemaError, match="state: a function that returns a Shop"):
            ContextSession(Shop, state=anything)

    async def test_no_state(self) -> None:
        agent, provider = an_agent([], ContextSession(Shop))
        with pytest.raises(StateError, match=r"no state in this context yet: await session.set\(ctx, Shop"):
            await agent.run("a", ctx=Context(agent))
        assert provider.bodies == []

    async def test_a_state_of_an_older_schema(self) -> None:
        session = the_session()
        agent, _ = an_agent([], session)
        ctx = await a_context(agent)
        await ctx.store.set("pkv_state", {"mode": "auto"})
        with pytest.raises(StateError, match="does not fit Shop, which has perhaps changed"):
            await session.get(ctx)

    @pytest.mark.parametrize("kind", [ChatMemoryBuffer, StateMemory])
    async def test_a_memory_of_two_contexts(self, kind: Any) -> None:
        agent, _ = an_agent([], the_session())
        memory = kind.from_defaults(token_limit=10_000)
        await agent.run("a", ctx=Context(agent), memory=memory)
        with pytest.raises(SessionError, match=r"belongs to another one.*pass ctx="):
            await agent.run("b", ctx=Context(agent), memory=memory)

    async def test_a_model_call_inside_an_edit_of_the_store(self) -> None:
        session = the_session()
        inner, provider = openai_llm()
        llm = StatefulLLM(inner, session)

        async def ask(ctx: Context[Any]) -> str:
            """Ask."""
            async with ctx.store.edit_state():
                return (await llm.acomplete("x")).text

        agent, own = an_agent([[call("ask", "1")], "done"], session, tools=[tool(ask)])
        await agent.run("go", ctx=Context(agent))
        assert "edit_state(): leave that block first" in own.bodies[1]["messages"][3]["content"]
        assert len(provider.bodies) == 1

    async def test_a_tool_that_edits_the_store_while_the_answer_streams(self) -> None:
        session = the_session()
        script = [[call("edit", "1")], "two words", "ok"]

        async def edit(ctx: Context[Any]) -> str:
            """Edit."""
            async with ctx.store.edit_state() as state:
                state["mine"] = 1
                await asyncio.sleep(0)
            await session.update(ctx, {"mode": "auto"})
            return "edited"

        agent, provider = an_agent(script, session, tools=[tool(edit)])
        ctx = await a_context(agent)
        handler = agent.run("go", ctx=ctx)
        async for _ in handler.stream_events():
            pass
        await handler
        await agent.run("and?", ctx=ctx)
        assert await ctx.store.get("mine") == 1
        assert errata_in(provider.bodies[-1]) == ['mode: "auto"']
        assert_append_only(provider.bodies)


async def test_a_rebase_on_request() -> None:
    session = the_session()
    agent, provider = an_agent([], session)
    ctx = await a_context(agent)
    await agent.run("a", ctx=ctx)
    await session.update(ctx, {"mode": "auto"})
    await session.rebase(ctx, "a new day")
    await agent.run("b", ctx=ctx)
    await agent.run("c", ctx=ctx)
    assert errata_in(provider.bodies[1]) == []
    assert 'mode: "auto"' in provider.bodies[1]["messages"][0]["content"]
    assert_append_only(provider.bodies[1:])


async def test_calls_at_the_same_time_in_one_context() -> None:
    """Two steps that ask at once: both answers are kept, and both are recorded."""
    session = the_session()
    calls: list[ModelCall] = []
    inner, provider = openai_llm()
    llm = StatefulLLM(inner, session, on_call=calls.append)

    async def ask(ctx: Context[Any]) -> str:
        """Ask."""
        answers = await asyncio.gather(llm.acomplete("x"), llm.acomplete("y"))
        return " ".join(answer.text for answer in answers)

    agent, _ = an_agent([[call("ask", "1")], "done"], the_session(), tools=[tool(ask)])
    ctx = await a_context(agent)
    await agent.run("go", ctx=ctx)
    assert len(calls) == 2
    assert len(provider.bodies) == 2
