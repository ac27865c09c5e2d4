"""The state channel by itself: merging, refusing, saving."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentState
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]  # no py.typed in there
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, SecretStr, model_validator

from langchain_pkv import StateMiddleware, read_state
from langchain_pkv._channel import StateChannel
from langchain_pkv._plain import plain
from pkv_agents import REMOVE, SchemaError, StateError, TrackedState, append, dump_state
from tests.langchain.support import TAG, Order, Scripted, Shop, a_shop


def a_channel(*updates: Any, strict: bool = False) -> tuple[StateChannel, list[Any]]:
    notices: list[Any] = []
    channel = StateChannel(Shop, None if strict else notices.append).from_checkpoint(None)
    for update in updates:
        channel.update(update if isinstance(update, list) else [update])
    return channel, notices


def test_updates_merge_in_order() -> None:
    channel, notices = a_channel(a_shop(), [{"cart_total": 10}, {"cart_total": 12}, {"notes[a]": "1"}])
    assert channel.get()["cart_total"] == 12
    assert channel.get()["notes"] == {"a": "1"}
    assert channel.get().refused is None
    assert [(notice.code, notice.path) for notice in notices] == [("patch_conflict", "cart_total")]


def test_a_whole_state_as_a_mapping() -> None:
    channel, _ = a_channel(a_shop().model_dump(mode="json"))
    assert channel.get() == a_shop().model_dump(mode="json")
    channel.update([a_shop(mode="auto").model_dump(mode="json")])
    assert channel.get()["mode"] == "auto"


class Part(BaseModel):
    size: int = Field(0, alias="Size")


class Aliased(TrackedState):
    customer: str = Field(alias="Kunde")
    part: Part


@pytest.mark.parametrize("by_alias", [True, False])
def test_a_first_state_as_a_mapping_by_alias_or_by_name(*, by_alias: bool) -> None:
    state = Aliased.model_validate({"Kunde": "Mara", "part": {"Size": 3}})
    channel = StateChannel(Aliased, None).from_checkpoint(None)
    channel.update([state.model_dump(by_alias=True) if by_alias else dump_state(state)])
    assert channel.get() == {"customer": "Mara", "part": {"size": 3}}


def test_a_conflict_is_reported_and_a_misfit_is_refused() -> None:
    channel, notices = a_channel(a_shop(), [{"orders[K417]": REMOVE}, {"orders[K417].status": "lost"}])
    assert [notice.code for notice in notices] == ["patch_conflict"]
    assert channel.get().refused is None and channel.get()["orders"][0]["status"] == "lost"
    channel.update([{"cart_total": 3}, {"no_such_field": 1}])
    assert channel.get()["cart_total"] == 3
    assert "no_such_field" in (channel.get().refused or "")
    channel.update([{}])
    assert channel.get().refused is None


class Bounded(TrackedState):
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


@pytest.mark.parametrize("strict", [False, True])
def test_patches_that_fit_alone_and_not_together(strict: bool) -> None:
    notices: list[Any] = []
    channel = StateChannel(Bounded, None if strict else notices.append)
    channel.update([Bounded()])
    channel.update([{"low": 8}, {"high": 5}, {"high": 9}])
    assert channel.get() == {"low": 8, "high": 9}
    assert (channel.get().refused is not None) is strict
    assert [(notice.code, notice.path) for notice in notices] == ([] if strict else [("patch_conflict", "high")])


def test_the_same_write_twice_and_a_part_of_what_another_sets_are_no_conflict() -> None:
    order = {"id": "N1", "status": "new", "total": "1.00"}
    channel, notices = a_channel(
        a_shop(), [{"mode": "auto"}, {"orders[N1]": order}, {"mode": "auto", "orders[N1].status": "paid"}]
    )
    assert notices == [] and channel.get()["orders"][-1]["status"] == "paid"


def test_strict_refuses_a_conflict() -> None:
    channel, _ = a_channel(a_shop(), [{"orders[K417]": REMOVE}, {"orders[K417].status": "lost"}], strict=True)
    assert channel.get().refused is not None


@pytest.mark.parametrize("update", [7, "mode", None, [("mode", "auto")], Order(id="x")])
def test_what_is_no_update(update: Any) -> None:
    channel, _ = a_channel(a_shop(), [update])
    assert "pkv_state takes Shop(" in (channel.get().refused or "")


def test_overwrite_replaces() -> None:
    channel, _ = a_channel(a_shop(cart_total=9), Overwrite({"customer": {"name": "Ida"}}))
    assert channel.get()["cart_total"] == 0


def test_save_and_load() -> None:
    channel, _ = a_channel(a_shop(), {"no_such_field": 1})
    saved = json.loads(json.dumps(channel.checkpoint()))
    loaded = channel.from_checkpoint(saved)
    assert loaded.get() == channel.get()
    assert loaded.get().refused == channel.get().refused
    assert not channel.from_checkpoint("rubbish").is_available()


def test_reading_gives_fresh_data() -> None:
    channel, _ = a_channel(a_shop())
    channel.get()["customer"]["tier"] = "platinum"
    assert channel.get()["customer"]["tier"] == "gold"
    twin = channel.copy()
    twin.update([{"mode": "auto"}])
    assert channel.get()["mode"] == "plan"


def test_secrets_survive() -> None:
    class Account(TrackedState):
        name: str
        token: SecretStr
        more: list[dict[str, SecretStr]] = Field(default_factory=list[dict[str, SecretStr]])

    channel = StateChannel(Account, None)
    channel.update([Account(name="a", token=SecretStr("s3"), more=[{"k": SecretStr("s4")}])])
    channel.update([{"name": "b"}])
    account = read_state(Account, {"pkv_state": channel.get()})
    assert account.token.get_secret_value() == "s3"
    assert account.more[0]["k"].get_secret_value() == "s4"


def test_a_patch_as_plain_data() -> None:
    class Point(BaseModel):
        x: int

    patch = {
        "a": REMOVE,
        "b": Decimal("1.50"),
        "c": datetime(2026, 1, 2, tzinfo=UTC),
        "d": [Point(x=1)],
        "e": SecretStr("s3"),
        "f": {"g": (1, 2)},
    }
    serde = JsonPlusSerializer()  # LangGraph's own, in all of its checkpointers
    assert serde.loads_typed(serde.dumps_typed(plain(patch))) == {
        "a": {"$remove": True},
        "b": Decimal("1.50"),
        "c": datetime(2026, 1, 2, tzinfo=UTC),
        "d": [{"x": 1}],
        "e": "s3",
        "f": {"g": [1, 2]},
    }
    with pytest.raises(StateError, match="object"):
        plain({"a": object()})


def test_parallel_nodes_of_ones_own_graph() -> None:
    """R12: two nodes that write in one step do not raise; the names of the nodes decide, as LangGraph orders them."""

    def left(state: Any) -> Any:
        return {"pkv_state": {"cart_total": 10}}

    def right(state: Any) -> Any:
        return {"pkv_state": {"cart_total": 12, "notes[a]": "1"}}

    graph = StateGraph(StateMiddleware(Shop).state_schema)
    graph.add_node("left", left)
    graph.add_node("right", right)
    for node in ("left", "right"):
        graph.add_edge(START, node)
        graph.add_edge(node, END)
    out = graph.compile().invoke({"messages": [], "pkv_state": a_shop()})
    assert out["pkv_state"]["cart_total"] == 12
    assert out["pkv_state"]["notes"] == {"a": "1"}


def test_a_class_that_is_no_tracked_state() -> None:
    class Plain(BaseModel):
        a: int = 1

    for wrong in (Plain, dict, a_shop()):
        with pytest.raises(SchemaError, match="TrackedState"):
            StateMiddleware(wrong)  # pyright: ignore[reportArgumentType]


def test_a_state_schema_that_hides_the_channel() -> None:
    class Mine(AgentState[Any]):
        pkv_state: Any

    middleware = StateMiddleware(Shop, tag=TAG)
    agent: Any = create_agent(Scripted(), [], middleware=[middleware], state_schema=Mine, checkpointer=InMemorySaver())
    with pytest.raises(SchemaError, match="pkv_state"):
        agent.invoke(
            {"messages": [HumanMessage("hi")], "pkv_state": a_shop()},
            {"configurable": {"thread_id": "t1"}},  # pyright: ignore[reportArgumentType]
        )


def test_two_state_middlewares_are_refused() -> None:
    with pytest.raises(AssertionError, match="duplicate"):
        create_agent(Scripted(), [], middleware=[StateMiddleware(Shop), StateMiddleware(Shop)])


class Tagged(TrackedState):
    tags: list[str] = Field(default_factory=list[str])
    kinds: set[str] = Field(default_factory=set[str])


def test_appends_of_one_step_all_count_and_survive_a_checkpoint() -> None:
    serde = JsonPlusSerializer()
    channel = StateChannel(Tagged, None)
    channel.update([Tagged(tags=["a"])])
    written = [plain({"tags": append("b"), "kinds": append("x")}), plain({"tags": append("c", "d")})]
    channel.update([serde.loads_typed(serde.dumps_typed(patch)) for patch in written])
    assert channel.get() == {"tags": ["a", "b", "c", "d"], "kinds": ["x"]} and channel.get().refused is None
