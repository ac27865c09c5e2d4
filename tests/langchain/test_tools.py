"""Tools that change the state: parallel, with return_direct, with bad patches, across interrupts."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from langchain_pkv import StateMiddleware, read_state
from pkv_agents import REMOVE, StateError
from tests.langchain.support import TAG, Order, Scripted, Shop, a_shop, call, errata_in, texts

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}


def patching(runtime: ToolRuntime[Any, Any], patch: Any, text: str = "done") -> Command[Any]:
    return Command(update={"pkv_state": patch, "messages": [ToolMessage(text, tool_call_id=runtime.tool_call_id)]})


def agent_for(model: Any, tools: list[Any], **options: Any) -> Any:
    saver = options.pop("saver", None) or InMemorySaver()
    middleware = StateMiddleware(Shop, tag=TAG, **options)
    return create_agent(model, tools, middleware=[middleware], checkpointer=saver)


def user(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **rest}


def calls(*made: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=list(made))


class Turnstile:
    """Lets tools finish in a given order, whatever the order in which they were started."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.passed = threading.Condition()
        self.done: list[str] = []

    def pass_through(self, name: str) -> None:
        with self.passed:
            assert self.passed.wait_for(lambda: self.order[len(self.done)] == name, timeout=120)
            self.done.append(name)
            self.passed.notify_all()


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 50))])
def test_r12_parallel_tools_merge_by_call_not_by_finish(seed: int, saver: Any) -> None:
    """Two tools set the cart's total, a third writes beside it."""
    finish = ["a", "b", "c"]
    random.Random(seed).shuffle(finish)
    turnstile = Turnstile(finish)

    @tool
    def set_total(name: str, total: int, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Set the cart's total."""
        turnstile.pass_through(name)
        return patching(runtime, {"cart_total": total})

    @tool
    def take_note(name: str, text: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Note something."""
        turnstile.pass_through(name)
        return patching(runtime, {"notes[n1]": text})

    asked = calls(
        call("set_total", "1", name="a", total=10),
        call("take_note", "2", name="c", text="gift"),
        call("set_total", "3", name="b", total=12),
    )
    model = Scripted(script=[asked, AIMessage("ok")])
    agent = agent_for(model, [set_total, take_note], saver=saver)
    out = agent.invoke(user("go", pkv_state=a_shop()), CONFIG)
    assert turnstile.done == finish
    assert errata_in(model.requests[-1]) == ['cart_total: 12\nnotes[n1]: "gift"']
    assert [message.type for message in model.requests[-1]][-4:] == ["tool", "tool", "tool", "system"]
    assert out["pkv_state"]["cart_total"] == 12


async def test_parallel_async_tools() -> None:
    @tool
    async def set_total(total: int, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Set the cart's total."""
        return patching(runtime, {"cart_total": total})

    model = Scripted(script=[calls(call("set_total", "1", total=10), call("set_total", "2", total=12))])
    out = await agent_for(model, [set_total]).ainvoke(user("go", pkv_state=a_shop()), CONFIG)
    assert errata_in(model.requests[-1]) == ["cart_total: 12"]
    assert out["pkv_state"]["cart_total"] == 12


def test_every_form_of_an_update() -> None:
    """Models as values, REMOVE, a whole state, a list of commands from one tool."""

    @tool
    def step(which: str, runtime: ToolRuntime[Any, Any]) -> Any:
        """Do one of several things."""
        if which == "add":
            return patching(runtime, {"orders[N1]": Order(id="N1", status="new"), "orders[M220]": REMOVE})
        if which == "whole":
            state = read_state(Shop, runtime.state)
            state.mode = "auto"
            return patching(runtime, state)
        return [
            Command(update={"pkv_state": {"orders[N2]": {"status": "new"}}}),
            patching(runtime, {"orders[N2].status": "paid"}),
        ]

    model = Scripted(
        script=[calls(call("step", str(index), which=which)) for index, which in enumerate(["add", "whole", "list"])]
    )
    agent = agent_for(model, [step])
    out = agent.invoke(user("go", pkv_state=a_shop()), CONFIG)
    shop = read_state(Shop, agent.get_state(CONFIG).values)
    assert [order.id for order in shop.orders] == ["K417", "N1", "N2"]
    assert shop.orders[2].status == "paid"
    assert shop.mode == "auto"
    assert out["pkv_state"] == shop.model_dump(mode="json")
    added, switched, listed = errata_in(model.requests[-1])
    assert added == 'orders[N1].status: "new"\norders[N1].total: "129.90"\norders[M220]: removed'
    assert switched == 'mode: "auto"'
    assert 'orders[N2].status: "paid"' in listed


def test_a_bad_patch_is_told_to_the_model_and_to_the_application() -> None:
    """The state stays; all else that the tool returned is kept; the next patch works."""

    @tool
    def set_status(path: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Set an order's status."""
        return patching(runtime, {path: "delivered"}, text="handed over, receipt 77")

    notices: list[Any] = []
    script = [calls(call("set_status", "1", path="ordres[K417].status")), calls(call("set_status", "2", path="mode"))]
    model = Scripted(script=[*script, calls(call("set_status", "3", path="orders[K417].status"))])
    agent = agent_for(model, [set_status], on_notice=notices.append)
    out = agent.invoke(user("go", pkv_state=a_shop()), CONFIG)
    results = [message for message in out["messages"] if isinstance(message, ToolMessage)]
    assert [message.status for message in results] == ["error", "error", "success"]
    assert results[0].text.startswith("handed over, receipt 77\n\nThe state was not changed: ")
    assert "ordres" in results[0].text
    assert [(notice.code, notice.path) for notice in notices] == [
        ("patch_refused", "ordres[K417].status"),
        ("patch_refused", "mode"),
    ]
    assert errata_in(model.requests[-1]) == ['orders[K417].status: "delivered"']


def test_a_bad_patch_leaves_the_rest_of_its_step() -> None:
    @tool
    def good(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Change the mode."""
        return patching(runtime, {"mode": "auto"})

    @tool
    def bad(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Change what is not there."""
        return patching(runtime, {"nothing": 1})

    model = Scripted(script=[calls(call("bad", "1"), call("good", "2"))])
    agent_for(model, [good, bad]).invoke(user("go", pkv_state=a_shop()), CONFIG)
    assert errata_in(model.requests[-1]) == ['mode: "auto"']


def test_parallel_patches_that_exclude_one_another() -> None:
    """The later call wins, the graph goes on, the application hears of it."""

    @tool
    def cancel(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Take an order out."""
        return patching(runtime, {"orders[K417]": REMOVE})

    @tool
    def deliver(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Deliver it."""
        return patching(runtime, {"orders[K417].status": "delivered"})

    notices: list[Any] = []
    model = Scripted(script=[calls(call("cancel", "1"), call("deliver", "2"))])
    agent = agent_for(model, [cancel, deliver], on_notice=notices.append)
    agent.invoke(user("go", pkv_state=a_shop()), CONFIG)
    assert errata_in(model.requests[-1]) == ['orders[K417].status: "delivered"']
    assert {notice.code for notice in notices} == {"patch_conflict"}
    agent.invoke(user("go on"), CONFIG)
    assert model.requests[-1][-1].text == "go on"


@pytest.mark.parametrize("bad", [False, True])
def test_a_tool_with_return_direct(bad: bool) -> None:
    """The agent ends without a model call; the erratum is told in the next turn."""

    @tool(return_direct=True)
    def close(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Close the matter."""
        return patching(runtime, {"nothing": 1} if bad else {"mode": "auto"}, text="closed")

    model = Scripted(script=[calls(call("close", "1"))])
    agent = agent_for(model, [close])
    out = agent.invoke(user("close it", pkv_state=a_shop()), CONFIG)
    assert len(model.requests) == 1
    assert out["messages"][-1].text == "closed"
    assert out["messages"][-1].status == ("error" if bad else "success")
    agent.invoke(user("thanks"), CONFIG)
    assert errata_in(model.requests[-1]) == ([] if bad else ['mode: "auto"'])
    assert [message.type for message in model.requests[-1]][:4] == ["system", "human", "ai", "tool"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_interrupt_between_parallel_tools(kind: str, tmp_path: Any) -> None:
    """One tool waits for a human, the other's patch waits with it; both are told in one erratum."""

    @tool
    def ask(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Ask a human."""
        return patching(runtime, {"mode": interrupt("which mode?")})

    @tool
    def deliver(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Deliver it."""
        return patching(runtime, {"orders[K417]": Order(id="K417", status="delivered")})

    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as sqlite:
        model = Scripted(script=[calls(call("ask", "1"), call("deliver", "2"))])
        agent = agent_for(model, [ask, deliver], saver=InMemorySaver() if kind == "memory" else sqlite)
        paused = agent.invoke(user("go", pkv_state=a_shop()), CONFIG)
        assert paused["__interrupt__"]
        assert len(model.requests) == 1
        agent.invoke(Command(resume="auto"), CONFIG)
    assert errata_in(model.requests[-1]) == ['orders[K417].status: "delivered"\nmode: "auto"']


def test_invalid_tool_calls_get_their_results_first() -> None:
    """create_agent answers malformed calls itself and rewrites the history: the erratum stands after the answer."""
    broken = AIMessage(
        "",
        invalid_tool_calls=[{"name": "ship", "args": '{"order', "id": "1", "error": None, "type": "invalid_tool_call"}],
    )
    model = Scripted(script=[broken, AIMessage("sorry")])
    agent = agent_for(model, [])
    agent.invoke(user("ship it", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("again", pkv_state={"mode": "auto"}), CONFIG)
    assert [message.type for message in model.requests[-1]] == ["system", "human", "ai", "tool", "human", "system"]


def test_a_missing_state_is_said_at_the_first_call() -> None:
    with pytest.raises(StateError, match=r"there is no state yet.*pkv_state"):
        agent_for(Scripted(), []).invoke(user("hello"), CONFIG)


def test_a_bad_initial_state() -> None:
    agent = agent_for(Scripted(), [])
    with pytest.raises(StateError, match="customer"):
        agent.invoke(user("hello", pkv_state={"mode": "plan"}), CONFIG)
    agent.invoke({"messages": [], "pkv_state": a_shop()}, CONFIG)
    assert agent.get_state(CONFIG).values["pkv_state"]["mode"] == "plan"


def test_a_bad_update_in_the_input_is_an_error_until_it_is_corrected() -> None:
    model = Scripted()
    agent = agent_for(model, [])
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    with pytest.raises(StateError, match="cart_total"):
        agent.invoke(user("again", pkv_state={"cart_total": "many"}), CONFIG)
    assert agent.get_state(CONFIG).values["pkv_state"]["cart_total"] == 0
    with pytest.raises(StateError, match="cart_total"):
        agent.invoke(user("still there?"), CONFIG)
    agent.update_state(CONFIG, {"pkv_state": {"cart_total": 5}})
    agent.invoke(user("and now?"), CONFIG)
    assert errata_in(model.requests[-1]) == ["cart_total: 5"]


def test_no_erratum_inside_tool_results() -> None:
    """R01: nothing stands between a call and its results."""

    @tool
    def look(runtime: ToolRuntime[Any, Any]) -> str:
        """Look at an order."""
        return "in transit"

    model = Scripted(script=[calls(call("look", "1"), call("look", "2"))])
    agent = agent_for(model, [look])
    agent.invoke(user("look", pkv_state=a_shop(mode="auto")), CONFIG)
    assert [message.type for message in model.requests[-1]] == ["system", "human", "ai", "tool", "tool"]
    assert "look" in texts(model.requests[-1])
