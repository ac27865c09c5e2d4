"""What breaks the prefix in LlamaIndex is said, with the way that keeps it; and that way keeps it."""

from typing import Any, cast

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, Memory, StaticMemoryBlock
from llama_index.core.workflow import Context
from pydantic import BaseModel

from llama_index.llms.pkv import ContextSession, StatefulLLM, StateMemory
from pkv_agents import AgentSession, Notice, StrictNoticeError
from tests.llama_index.providers import Provider, call, openai_llm, tool
from tests.llama_index.support import TAG, Shop, a_shop, assert_append_only, assistant, codes, errata_in, user


def the_agent(notices: list[Notice], **options: Any) -> tuple[Any, Provider]:
    inner, provider = openai_llm()
    session = AgentSession(a_shop(), key="k", instructions="You help.", tag=TAG, on_notice=notices.append)
    return FunctionAgent(llm=StatefulLLM(inner, session), **options), provider


async def test_initial_state_rewrites_the_users_message() -> None:
    notices: list[Notice] = []
    agent, provider = the_agent(notices, initial_state={"mode": "plan"})
    memory = StateMemory()
    for text in ("a", "b", "c"):
        await agent.run(text, memory=memory)
    assert "{'mode': 'plan'}" in provider.bodies[2]["messages"][1]["content"], "and there it stays"
    assert "state_prompt" in codes(notices)
    (said,) = [notice for notice in notices if notice.code == "state_prompt"]
    assert "ContextSession" in said.mend


async def test_a_tracked_state_instead_keeps_the_prefix() -> None:
    notices: list[Notice] = []
    inner, provider = openai_llm()
    session = ContextSession(Shop, initial=a_shop(), tag=TAG, on_notice=notices.append)
    agent: Any = FunctionAgent(llm=StatefulLLM(inner, session))
    ctx: Context[Any] = Context(agent)
    for text in ("a", "b", "c"):
        await agent.run(text, ctx=ctx, memory=StateMemory())
    assert_append_only(provider.bodies)
    assert codes(notices) == []


@pytest.mark.parametrize("insert", ["system", "user"])
async def test_memory_blocks(insert: str) -> None:
    notices: list[Notice] = []
    agent, _ = the_agent(notices)
    block: Any = {"name": "facts", "static_content": "Mara likes tea."}
    given: Any = {"memory_blocks": [StaticMemoryBlock(**block)], "insert_method": insert}
    memory = Memory.from_defaults(**given)
    try:
        await agent.run("a", memory=memory)
        await agent.run("b", memory=memory)
    finally:
        await _close(memory)
    said = [notice for notice in notices if notice.code == "memory_blocks"]
    assert [notice.path for notice in said] == ["facts"]
    assert ("system" if insert == "system" else "newest user") in said[0].message


async def _close(memory: Memory) -> None:
    engine = cast("Any", memory.sql_store)._async_engine
    if engine is not None:
        await engine.dispose()


async def test_what_a_block_knows_can_be_a_field() -> None:
    notices: list[Notice] = []
    inner, provider = openai_llm()
    session = AgentSession(a_shop(notes={"facts": "Mara likes tea."}), key="k", tag=TAG, on_notice=notices.append)
    agent: Any = FunctionAgent(llm=StatefulLLM(inner, session))
    memory = StateMemory()
    await agent.run("a", memory=memory)
    session.state.notes = {"facts": "Mara likes coffee."}
    await agent.run("b", memory=memory)
    assert_append_only(provider.bodies)
    assert errata_in(provider.bodies[1]) == ['notes[facts]: "Mara likes coffee."']
    assert codes(notices) == []


def talk(turns: int) -> list[ChatMessage]:
    return [message for turn in range(turns) for message in (user(f"question {turn} " * 10), assistant("answer " * 10))]


async def test_a_buffer_that_trims() -> None:
    notices: list[Notice] = []
    agent, _ = the_agent(notices)
    memory = ChatMemoryBuffer.from_defaults(token_limit=100, tokenizer_fn=str.split, chat_history=talk(6))
    await agent.run("well?", memory=memory)
    (said,) = [notice for notice in notices if notice.code == "memory_trims"]
    assert said.path == "ChatMemoryBuffer"
    assert "StateMemory" in said.mend


async def test_state_memory_moves_the_front_rarely() -> None:
    notices: list[Notice] = []
    agent, provider = the_agent(notices)
    memory = StateMemory(token_limit=300)
    for turn in range(20):
        await agent.run(f"question {turn} " * 10, memory=memory)
    moved = [at for at in range(1, 20) if provider.bodies[at]["messages"][1] != provider.bodies[at - 1]["messages"][1]]
    assert 1 <= len(moved) <= 5
    for start, end in zip([0, *moved], [*moved, 20], strict=True):
        assert_append_only(provider.bodies[start:end])
    assert all(body["messages"][1]["role"] == "user" for body in provider.bodies)


async def test_notices_are_told_once_and_strict_raises() -> None:
    notices: list[Notice] = []
    inner, _ = openai_llm()
    session = ContextSession(Shop, initial=a_shop(), tag=TAG, on_notice=notices.append)
    agent: Any = FunctionAgent(llm=StatefulLLM(inner, session), initial_state={"a": 1})
    ctx: Context[Any] = Context(agent)
    for text in ("a", "b"):
        await agent.run(text, ctx=ctx, memory=StateMemory())
    assert [notice.code for notice in notices].count("state_prompt") == 1
    strict = ContextSession(Shop, initial=a_shop(), strict=True)
    agent = FunctionAgent(llm=StatefulLLM(inner, strict), initial_state={"a": 1})
    with pytest.raises(StrictNoticeError, match="state_prompt"):
        await agent.run("a", ctx=Context(agent), memory=StateMemory())


async def test_a_question_of_a_tools_own_is_no_trimmed_conversation() -> None:
    notices: list[Notice] = []
    inner, _ = openai_llm(script=[[call("ask", "1")], "fine", "done"])
    session = AgentSession(a_shop(), key="k", tag=TAG, on_notice=notices.append)
    llm = StatefulLLM(inner, session)

    async def ask(ctx: Context[Any]) -> str:
        """Ask."""
        return (await llm.acomplete("x")).text

    agent: Any = FunctionAgent(llm=llm, tools=[tool(ask)])
    await agent.run("go", memory=ChatMemoryBuffer.from_defaults(token_limit=1000))
    assert "memory_trims" not in codes(notices)


class Grade(BaseModel):
    """A grade."""

    points: int


async def test_the_tools_of_a_structured_answer_are_its_own() -> None:
    notices: list[Notice] = []
    agent, provider = the_agent(notices, tools=[tool(lambda: "", name="look", description="Look.")], output_cls=Grade)
    memory = StateMemory()
    for text in ("a", "b"):
        provider.script[:] = ["ok", [call("Grade", "1", points=3)]]
        assert (await agent.run(text, memory=memory)).structured_response == {"points": 3}
    assert "tools_changed" not in codes(notices)
    assert_append_only([provider.bodies[0], provider.bodies[2]])


async def test_tools_that_change_are_said() -> None:
    notices: list[Notice] = []
    agent, provider = the_agent(notices, tools=[tool(lambda: "", name="look", description="Look.")])
    memory = StateMemory()
    for text in ("a", "b"):
        await agent.run(text, memory=memory)
    assert codes(notices) == []
    agent.tools = [*agent.tools, tool(lambda: "", name="weigh", description="Weigh.")]
    await agent.run("c", memory=memory)
    await agent.run("d", memory=memory)
    assert codes(notices) == ["tools_changed"]
    assert "StateTools" in next(notice for notice in notices if notice.code == "tools_changed").mend
    assert len(provider.bodies) == 4
