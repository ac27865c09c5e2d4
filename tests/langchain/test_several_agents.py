"""Several agents on one state: as tools, as nodes side by side, and handing over to one another."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph  # pyright: ignore[reportMissingTypeStubs]  # no py.typed in there
from langgraph.types import Command, interrupt

from langchain_pkv import StateMiddleware, read_state
from pkv_agents import Notice, StateError
from tests.langchain.support import TAG, Scripted, Shop, a_shop, call, errata_in, texts, wire_of

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}


def calls(*made: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=list(made))


@tool
def ship(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Mark an order as delivered."""
    done = ToolMessage("handed over", tool_call_id=runtime.tool_call_id)
    return Command(update={"pkv_state": {f"orders[{order_id}].status": "delivered"}, "messages": [done]})


@tool
def ask(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Ask a human what became of an order."""
    status = interrupt("what became of it?")
    done = ToolMessage("asked", tool_call_id=runtime.tool_call_id)
    return Command(update={"pkv_state": {f"orders[{order_id}].status": status}, "messages": [done]})


@tool
def hand_over(patch: dict[str, Any], runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Hand over to the other agent; what this one changed goes along."""
    done = ToolMessage("handed over", tool_call_id=runtime.tool_call_id)
    update = {"pkv_state": patch or runtime.state["pkv_state"], "messages": [*runtime.state["messages"], done]}
    return Command(goto="two", graph=Command.PARENT, update=update)


class Team:
    """Agents, what they were sent and what was said."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.ours = self.middleware()

    def middleware(self) -> StateMiddleware:
        return StateMiddleware(Shop, instructions="Be brief.", tag=TAG, on_notice=self.notices.append)

    def agent(self, model: Scripted, name: str, **options: Any) -> Any:
        return create_agent(model, [ship, ask, hand_over], middleware=[self.middleware()], name=name, **options)

    def graph(self, saver: Any, *starts: str, **agents: Any) -> Any:
        graph: Any = StateGraph(self.ours.state_schema)
        for name, agent in agents.items():
            graph.add_node(name, agent)
        for name in starts:
            graph.add_edge(START, name)
        return graph.compile(checkpointer=saver)

    @property
    def codes(self) -> list[str]:
        return [notice.code for notice in self.notices]


def statuses(graph: Any) -> dict[str, str]:
    return {order.id: order.status for order in read_state(Shop, graph.get_state(CONFIG).values).orders}


def go(graph: Any, given: Any = None) -> Any:
    return graph.invoke(given or {"messages": [HumanMessage("go")], "pkv_state": a_shop()}, CONFIG)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("other", ["ship", "delegate"])
def test_an_agent_as_a_tool_undoes_nothing_that_others_did_meanwhile(other: str, turned: bool) -> None:
    """It gives its whole state back, also what it never touched."""
    team = Team()

    @tool
    def delegate(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Let another agent ship an order."""
        worker = team.agent(Scripted(script=[calls(call("ship", "w1", order_id=order_id))]), "worker")
        done = worker.invoke({"messages": [HumanMessage("ship it")], "pkv_state": runtime.state["pkv_state"]})
        told = ToolMessage("done", tool_call_id=runtime.tool_call_id)
        return Command(update={"pkv_state": done["pkv_state"], "messages": [told]})

    beside = [call("delegate", "c1", order_id="K417"), call(other, "c2", order_id="M220")]
    model = Scripted(script=[calls(*reversed(beside) if turned else beside)])
    agent = create_agent(model, [delegate, ship], middleware=[team.ours], checkpointer=InMemorySaver())
    go(agent)
    assert statuses(agent) == {"K417": "delivered", "M220": "delivered"} and team.codes == []
    assert errata_in(model.requests[-1]) == ['orders[K417].status: "delivered"\norders[M220].status: "delivered"']


def test_agents_side_by_side_of_which_one_waits_for_a_human(saver: BaseCheckpointSaver[str]) -> None:
    """What the other one gave back is read from the checkpointer then."""
    team = Team()
    one = team.agent(Scripted(script=[calls(call("ship", "c1", order_id="K417"))]), "one")
    two = team.agent(Scripted(script=[calls(call("ask", "c2", order_id="M220"))]), "two")
    graph = team.graph(saver, "one", "two", one=one, two=two)
    assert go(graph)["__interrupt__"]
    go(graph, Command(resume="returned"))
    assert statuses(graph) == {"K417": "delivered", "M220": "returned"} and "patch_conflict" not in team.codes


def test_what_both_change_is_a_conflict_and_nothing_else_is() -> None:
    team = Team()
    workers = [
        team.agent(Scripted(script=[calls(call("ship", "c1", order_id=name))]), name) for name in ("K417", "M220")
    ]
    graph = team.graph(InMemorySaver(), "one", "two", "three", one=workers[0], two=workers[1], three=_set_status)
    go(graph)
    assert statuses(graph) == {"K417": "lost", "M220": "delivered"}
    assert [(notice.code, notice.path) for notice in team.notices] == [("patch_conflict", "orders[K417].status")]


def _set_status(_: Any) -> dict[str, Any]:
    return {"pkv_state": {"orders[K417].status": "lost"}}


def test_a_hand_over_keeps_the_prefix_of_an_agent_that_keeps_its_ledger() -> None:
    team, model, other = Team(), Scripted(), Scripted()
    model.script = [calls(call("ship", "c1", order_id="K417")), calls(call("hand_over", "c2", patch={}))]
    one, two = (team.agent(each, name, checkpointer=True) for each, name in ((model, "one"), (other, "two")))
    graph = team.graph(InMemorySaver(), "one", one=one, two=two)
    go(graph)
    assert statuses(graph) == {"K417": "delivered", "M220": "in transit"}
    assert 'orders[K417].status: \\"delivered\\"' in texts(other.requests[-1])
    go(graph, {"messages": [HumanMessage("and?")], "pkv_state": {"mode": "auto"}})
    sent = [wire_of(request) for request in model.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in zip(sent, sent[1:], strict=False))
    assert errata_in(model.requests[-1])[-1] == 'mode: "auto"'


def test_a_bad_patch_of_a_hand_over_is_told_like_any_other() -> None:
    team, other = Team(), Scripted()
    one = team.agent(Scripted(script=[calls(call("hand_over", "c1", patch={"nope": 1}))]), "one")
    graph = team.graph(InMemorySaver(), "one", one=one, two=team.agent(other, "two"))
    go(graph)
    assert "The state was not changed: Shop has no field 'nope'" in texts(other.requests[-1])
    assert "patch_refused" in team.codes and statuses(graph)["K417"] == "in transit"


def test_a_node_that_hands_the_state_on_forgets_no_refusal() -> None:
    def keeps(state: Any) -> dict[str, Any]:
        return {"pkv_state": state["pkv_state"]}

    team, model = Team(), Scripted()
    graph = team.graph(InMemorySaver(), "first", first=keeps, two=team.agent(model, "two"))
    graph.builder.add_edge("first", "two")
    graph = graph.builder.compile(checkpointer=InMemorySaver())
    go(graph)
    with pytest.raises(StateError, match=r"the last update of pkv_state was refused.*no field 'nope'"):
        go(graph, {"messages": [HumanMessage("and?")], "pkv_state": {"nope": 1}})
    assert len(model.requests) == 1
    go(graph, {"messages": [HumanMessage("and?")], "pkv_state": {}})
    assert len(model.requests) == 2


def test_deep_agents_tasks_side_by_side() -> None:
    deepagents = pytest.importorskip("deepagents")
    team = Team()

    def worker(messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        return calls(call("ship", "s1", order_id=last.text)) if isinstance(last, HumanMessage) else AIMessage("done")

    tasks = [
        call("task", f"c{name}", description=name, subagent_type="general-purpose") for name in ("K417", "M220", "K417")
    ]
    general = {
        "name": "general-purpose",
        "description": "Does anything.",
        "system_prompt": "Do it.",
        "model": Scripted(script=[worker] * 6),
        "tools": [ship],
        "middleware": [team.middleware()],
    }
    model = Scripted(script=[calls(*tasks)])
    agent = deepagents.create_deep_agent(
        model, [ship], middleware=[team.ours], subagents=[general], checkpointer=InMemorySaver()
    )
    go(agent)
    assert statuses(agent) == {"K417": "delivered", "M220": "delivered"} and team.codes == []
    assert errata_in(model.requests[-1]) == ['orders[K417].status: "delivered"\norders[M220].status: "delivered"']
