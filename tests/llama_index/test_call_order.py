"""R12: tools that run side by side count in the order of the model's calls, however they finish."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.workflow import Context

from llama_index.llms.pkv import StatefulLLM, _call_order, to_core
from pkv_agents import REMOVE
from tests.llama_index.agents import a_context, an_agent, the_session
from tests.llama_index.more_providers import ollama_llm
from tests.llama_index.providers import call, openai_llm, tool
from tests.llama_index.support import Shop, a_session, a_shop, assert_append_only, assistant, errata_in, user

NAMES = ["a", "b", "c", "d"]
SLOW = pytest.mark.slow


class Racing:
    """Tools that finish in a given order, whatever order they start in."""

    def __init__(self, session: Any, patches: dict[str, dict[str, object]], finish: Sequence[str]) -> None:
        self.session = session
        self.patches = patches
        self.done = {name: asyncio.Event() for name in finish}
        self.before = dict(zip(finish[1:], finish, strict=False))

    def tools(self) -> list[Any]:
        return [tool(self._one(name), name=name, description=name) for name in NAMES]

    def _one(self, name: str) -> Any:
        async def run(ctx: Context[Any]) -> str:
            if name in self.before:
                await self.done[self.before[name]].wait()
            await self.session.update(ctx, self.patches[name])
            self.done[name].set()
            return f"{name} ran"

        return run


async def raced(patches: dict[str, dict[str, object]], finish: Sequence[str], kind: str) -> tuple[Any, Any]:
    session = the_session()
    racing = Racing(session, patches, finish)
    inner, provider = openai_llm(script=[[call(name, name) for name in NAMES], "done", "ok"])
    agent: Any = FunctionAgent(name="one", description="one", llm=StatefulLLM(inner, session), tools=racing.tools())
    runs: Any = AgentWorkflow(agents=[agent], root_agent="one") if kind == "workflow" else agent
    ctx = await a_context(runs)
    await runs.run("go", ctx=ctx)
    await runs.run("and?", ctx=ctx)
    assert_append_only(provider.bodies)
    return provider.bodies, await session.get(ctx)


@pytest.mark.parametrize(
    ("kind", "seeds"), [("agent", range(8)), ("workflow", range(4)), pytest.param("agent", range(8, 50), marks=SLOW)]
)
async def test_r12_any_order_of_finishing_is_the_same_bytes(kind: str, seeds: range) -> None:
    patches: dict[str, dict[str, object]] = {
        "a": {"cart_total": 10},
        "b": {"cart_total": 12},
        "c": {"notes": {"x": "whole"}},
        "d": {"notes[x]": "part"},
    }
    found, bodies = set[str](), list[dict[str, Any]]()
    for seed in seeds:
        bodies, state = await raced(patches, random.Random(seed).sample(NAMES, 4), kind)
        assert (state.cart_total, state.notes) == (12, {"x": "part"})
        found.add(repr(bodies))
    assert len(found) == 1
    told = [message["content"] for message in bodies[1]["messages"] if message["role"] == "tool"]
    assert told == [f"{name} ran" for name in NAMES]
    assert errata_in(bodies[1]) == ['cart_total: 12\nnotes[x]: "part"']


async def test_what_only_fits_as_the_last_change_counts_as_it_comes() -> None:
    """The second call changed an order; the first, which is slower, removes it. Neither is an error."""
    patches: dict[str, dict[str, object]] = {
        "a": {"orders[K417]": REMOVE},
        "b": {"orders[K417].status": "cancelled"},
        "c": {"cart_total": 1},
        "d": {"cart_total": 2},
    }
    bodies, state = await raced(patches, ["b", "a", "d", "c"], "agent")
    assert all(order.id != "K417" for order in state.orders)
    assert state.cart_total == 2
    assert [message["content"] for message in bodies[1]["messages"] if message["role"] == "tool"] == [
        f"{name} ran" for name in NAMES
    ]


async def test_what_the_application_set_in_between_is_not_undone() -> None:
    session = the_session()

    async def early(ctx: Context[Any]) -> str:
        """Early."""
        await session.update(ctx, {"cart_total": 1})
        state = await session.get(ctx)
        state.notes = {"by": "hand"}
        state.mode = "auto"
        await session.set(ctx, state)
        return "early"

    async def late(ctx: Context[Any]) -> str:
        """Late."""
        await asyncio.sleep(0.01)
        await session.update(ctx, {"mode": "plan"})
        return "late"

    agent, _ = an_agent([[call("late", "1"), call("early", "2")], "done"], session, tools=[tool(early), tool(late)])
    ctx = await a_context(agent)
    await agent.run("go", ctx=ctx)
    state = await session.get(ctx)
    assert (state.cart_total, state.notes, state.mode) == (1, {"by": "hand"}, "plan")


async def test_values_that_the_tool_changes_later_do_not_count() -> None:
    session = the_session()
    notes = {"x": "one"}

    async def first(ctx: Context[Any]) -> str:
        """First."""
        await session.update(ctx, {"notes": notes})
        notes["x"] = "two"
        return "1"

    async def second(ctx: Context[Any]) -> str:
        """Second."""
        await asyncio.sleep(0.01)
        await session.update(ctx, {"cart_total": 3})
        return "2"

    agent, _ = an_agent([[call("second", "1"), call("first", "2")], "done"], session, tools=[tool(first), tool(second)])
    ctx = await a_context(agent)
    await agent.run("go", ctx=ctx)
    assert (await session.get(ctx)).notes == {"x": "one"}


@pytest.mark.parametrize("seed", range(6))
async def test_a_sum_of_tools_side_by_side_loses_none(seed: int) -> None:
    """What a function makes of the state counts after what it was made of, whichever call it belongs to."""
    session = the_session()
    finish = random.Random(seed).sample(NAMES, 4)

    def adding(amount: int) -> Any:
        def change(state: Shop) -> dict[str, object]:
            return {"cart_total": state.cart_total + amount}

        return change

    def noting(name: str) -> Any:
        def change(state: Shop) -> dict[str, object]:
            return {"notes": {**state.notes, name: str(len(state.notes))}}

        return change

    patches: dict[str, Any] = {"a": adding(1), "b": adding(10), "c": noting("c"), "d": noting("d")}
    racing = Racing(session, patches, finish)
    agent, provider = an_agent([[call(name, name) for name in NAMES], "done"], session, tools=racing.tools())
    ctx = await a_context(agent)
    await session.set(ctx, a_shop(cart_total=100, notes={}))
    await agent.run("go", ctx=ctx)
    state = await session.get(ctx)
    first, second = sorted("cd", key=finish.index)
    assert (state.cart_total, state.notes) == (111, {first: "0", second: "1"})
    assert "cart_total: 111" in errata_in(provider.bodies[1])[0]


async def test_a_tool_that_asks_the_model_with_tools_of_its_own_does_not_end_the_order() -> None:
    session = the_session()
    inner, _ = openai_llm(script=[[call("slow", "1"), call("fast", "2")], [call("look", "3")], "done"])
    llm = StatefulLLM(inner, session)
    done = asyncio.Event()

    def look() -> str:
        """Look."""
        return "seen"

    async def slow(ctx: Context[Any]) -> str:
        """Slow."""
        await done.wait()
        answer = await llm.achat_with_tools([tool(look)], user_msg="look")
        assert [one.tool_id for one in llm.get_tool_calls_from_response(answer)] == ["3"]
        await session.update(ctx, {"cart_total": 10})
        return "1"

    async def fast(ctx: Context[Any]) -> str:
        """Fast."""
        await session.update(ctx, {"cart_total": 12})
        done.set()
        return "2"

    agent: Any = FunctionAgent(llm=llm, tools=[tool(slow), tool(fast)])
    ctx = await a_context(agent)
    await agent.run("go", ctx=ctx)
    assert (await session.get(ctx)).cart_total == 12


async def test_without_the_running_step_changes_count_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_call_order, "_runtime", None)
    patches: dict[str, dict[str, object]] = {name: {"cart_total": at} for at, name in enumerate(NAMES)}
    _, state = await raced(patches, ["d", "c", "b", "a"], "agent")
    assert state.cart_total == 0


def results(*ids: str) -> list[ChatMessage]:
    return [ChatMessage(role="tool", content=one, additional_kwargs={"tool_call_id": one}) for one in ids]


def calls(*ids: str) -> ChatMessage:
    blocks: list[Any] = [ToolCallBlock(tool_call_id=one, tool_name="look", tool_kwargs={}) for one in ids]
    return ChatMessage(role="assistant", blocks=blocks)


@pytest.mark.parametrize(
    ("asked", "given", "sent"),
    [
        ("12", "21", "12"),
        ("123", "31", "13"),
        ("12", "12", "12"),
        ("12", "2x", "2x"),  # a result of no call
        ("12", "22", "22"),
        ("11", "1", "1"),
    ],
)
def test_results_stand_in_the_order_of_the_calls(asked: str, given: str, sent: str) -> None:
    messages = [user("a"), calls(*asked), *results(*given), assistant("b"), calls("9", "8"), *results("8", "9")]
    found, core = _call_order.in_call_order(messages, to_core(messages))
    texts = "".join(message.content or "" for message in found[2 : 2 + len(given)])
    assert texts == sent
    assert [message.content for message in found[-2:]] == ["9", "8"]
    assert list(to_core(found)) == core
    assert [message.content for message in messages[-2:]] == ["8", "9"], "the caller's stay as they are"


def test_a_plain_model_gets_them_in_order_too() -> None:
    inner, provider = openai_llm()
    StatefulLLM(inner, a_session()).chat([user("a"), calls("1", "2"), *results("2", "1")])
    assert [one["content"] for one in provider.bodies[0]["messages"] if one["role"] == "tool"] == ["1", "2"]
    assert a_shop() == a_session().state


async def test_results_of_calls_without_ids_stand_by_their_tools() -> None:
    """Ollama's package sends no ids, so the order is all that tells which result is whose."""
    session = the_session()
    racing = Racing(session, {name: {"cart_total": at} for at, name in enumerate(NAMES)}, ["d", "b", "a", "c"])
    inner, provider = ollama_llm([[call(name, "") for name in NAMES], "done"])
    agent: Any = FunctionAgent(llm=StatefulLLM(inner, session), tools=racing.tools(), streaming=False)
    await agent.run("go", ctx=await a_context(agent))
    told = [message["content"] for message in provider.bodies[1]["messages"] if message["role"] == "tool"]
    assert [text.partition("\n")[0] for text in told] == [f"{name} ran" for name in NAMES]
    assert errata_in(provider.bodies[1]) == ["cart_total: 3"]
