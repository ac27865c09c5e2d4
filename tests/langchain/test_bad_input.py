"""Input that does not fit: a clear error where it can be known beforehand, else the agent goes on and says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from pydantic import ConfigDict, model_validator

from langchain_pkv import StateMiddleware, read_state
from pkv_agents import Notice, OptionsError, SessionError, StateError, StrictNoticeError, TrackedState
from tests.langchain.support import TAG, Scripted, Shop, a_shop, call, errata_in, texts

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}


def say(agent: Any, text: str = "hello", config: RunnableConfig = CONFIG, **rest: Any) -> Any:
    return agent.invoke({"messages": [HumanMessage(text)], **rest}, config)


class Exact(TrackedState):
    model_config = ConfigDict(strict=True)
    when: date = date(2026, 1, 2)
    price: Decimal = Decimal("1.5")
    id: UUID = UUID(int=1)
    count: int = 0


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
def test_an_integer_beyond_64_bits_in_the_applications_input(saver: str, tmp_path: Any) -> None:
    """LangGraph saves the input before it runs anything and keeps no such integer: its error, at once, and no harm."""
    model, second = Scripted(), RunnableConfig(configurable={"thread_id": "t2"})
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as sqlite:
        checkpointer = InMemorySaver() if saver == "memory" else sqlite
        agent: Any = create_agent(model, [], middleware=[StateMiddleware(Shop, tag=TAG)], checkpointer=checkpointer)
        with pytest.raises(TypeError, match="not msgpack serializable"):
            say(agent, pkv_state=a_shop(cart_total=2**70))
        say(agent, config=second, pkv_state=a_shop())
        with pytest.raises(TypeError, match="64-bit"):
            say(agent, config=second, pkv_state={"cart_total": 2**70})
        say(agent, "go on", config=second, pkv_state={"cart_total": 2**63})
    assert errata_in(model.requests[-1]) == [f"cart_total: {2**63}"]


class Counted(TrackedState):
    amount: int = 0
    cents: int = 0

    @model_validator(mode="after")
    def _count(self) -> Self:
        vars(self)["cents"] = self.amount * 100
        return self


def test_an_integer_beyond_64_bits_that_a_schema_computes_is_kept() -> None:
    ours = StateMiddleware(Counted, tag=TAG)
    agent: Any = create_agent(Scripted(), [], middleware=[ours], checkpointer=InMemorySaver())
    say(agent, pkv_state=Counted())
    say(agent, pkv_state={"amount": 2**63})
    assert read_state(Counted, agent.get_state(CONFIG).values).cents == 2**63 * 100


def tool_that_writes(patch: dict[str, Any]) -> Any:
    @tool
    def write(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Write."""
        return Command(
            update={"pkv_state": patch, "messages": [ToolMessage("done", tool_call_id=runtime.tool_call_id)]}
        )

    return write


def test_a_strict_schema_takes_a_tools_dates_and_decimals() -> None:
    model, notices = Scripted(script=[AIMessage("", tool_calls=[call("write", "1")])]), list[Notice]()
    write = tool_that_writes({"when": date(2026, 2, 3), "price": Decimal("2.50"), "id": UUID(int=2)})
    with SqliteSaver.from_conn_string(":memory:") as saver:
        ours = StateMiddleware(Exact, tag=TAG, on_notice=notices.append)
        agent = create_agent(model, [write], middleware=[ours], checkpointer=saver)
        say(agent, pkv_state=Exact())
        assert 'when: "2026-02-03"\nprice: "2.50"' in errata_in(model.requests[-1])[0]
        assert read_state(Exact, agent.get_state(CONFIG).values).price == Decimal("2.50")
    assert notices == []


def test_an_integer_that_no_checkpointer_keeps_is_refused() -> None:
    model, notices = Scripted(script=[AIMessage("", tool_calls=[call("write", "1")])]), list[Notice]()
    ours = StateMiddleware(Exact, tag=TAG, on_notice=notices.append)
    write = tool_that_writes({"count": 2**70})
    with SqliteSaver.from_conn_string(":memory:") as saver:
        agent: Any = create_agent(model, [write], middleware=[ours], checkpointer=saver)
        out = say(agent, pkv_state=Exact())
    assert [notice.code for notice in notices] == ["patch_refused"] and "64 bits" in out["messages"][2].text


class TestStateThatBelongsToTheApplication:
    def test_pkv_state_is_not_lost_silently(self) -> None:
        model, notices = Scripted(), list[Notice]()
        ours = StateMiddleware(Shop, state=a_shop(), tag=TAG, on_notice=notices.append)
        agent: Any = create_agent(model, [], middleware=[ours], checkpointer=InMemorySaver())
        out = say(agent, pkv_state=a_shop(mode="auto"))
        say(agent, "again")
        assert [notice.code for notice in notices] == ["state_ignored"] and "pkv_state" not in out
        assert 'mode: "plan"' in texts(model.requests[-1]).replace('\\"', '"')

    def test_strict(self) -> None:
        ours = StateMiddleware(Shop, state=a_shop(), strict=True)
        agent: Any = create_agent(Scripted(), [], middleware=[ours], checkpointer=InMemorySaver())
        say(agent)
        with pytest.raises(StrictNoticeError, match="state_ignored"):
            say(agent, pkv_state={"mode": "auto"})


class Forgetful(InMemorySaver):
    """A checkpointer that keeps messages only."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        kept = {name: value for name, value in new_versions.items() if not name.startswith("pkv_")}
        values = {name: it for name, it in checkpoint["channel_values"].items() if not name.startswith("pkv_")}
        less: Any = {**checkpoint, "channel_values": values}
        return super().put(config, less, metadata, kept)


def test_a_checkpointer_that_drops_our_channels() -> None:
    agent: Any = create_agent(Scripted(), [], middleware=[StateMiddleware(Shop)], checkpointer=Forgetful())
    say(agent, pkv_state=a_shop())
    with pytest.raises(StateError, match="no state"):
        say(agent, "again")
    with pytest.raises(StateError, match=r"no state in this thread yet.*checkpointer"):
        say(agent, "again", pkv_state={"mode": "auto"})


def test_no_checkpointer() -> None:
    model, notices = Scripted(), list[Notice]()
    agent: Any = create_agent(model, [], middleware=[StateMiddleware(Shop, tag=TAG, on_notice=notices.append)])
    history: list[Any] = [HumanMessage("a"), AIMessage("b"), HumanMessage("c")]
    agent.invoke({"messages": history, "pkv_state": a_shop(mode="auto")})
    assert [notice.code for notice in notices] == ["ledger_missing"] and 'mode: "auto"' in model.requests[0][0].text


def test_one_middleware_for_two_agents_tells_each_thread() -> None:
    class Unknown(Scripted):
        def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
            return {"ls_provider": "acme", "ls_model_name": self.name or "m"}

    notices: list[Notice] = []
    ours = StateMiddleware(Shop, tag=TAG, on_notice=notices.append)
    for name in ("m1", "m2"):
        agent: Any = create_agent(Unknown(name=name), [], middleware=[ours], checkpointer=InMemorySaver())
        say(agent, pkv_state=a_shop())
        agent.update_state(CONFIG, {"messages": [AIMessage("x"), ToolMessage("stray", tool_call_id="none")]})
        say(agent, "again", pkv_state={"mode": "auto"})
    codes = [notice.code for notice in notices]
    assert codes.count("orphan_tool_result") == 2 and codes.count("unknown_model") == 2


def test_a_thread_that_two_users_share_is_told_whose_it_is_now() -> None:
    """It cannot be told from one user's change; what is sent is the current state, and nothing of it is stale."""
    model = Scripted()
    ours = StateMiddleware(Shop, tag=TAG)
    agent: Any = create_agent(model, [], middleware=[ours], checkpointer=InMemorySaver())
    say(agent, pkv_state=a_shop())
    other = a_shop()
    other.customer.name = "Jon Sato"
    say(agent, "and me?", pkv_state=other)
    assert errata_in(model.requests[-1]) == ['customer.name: "Jon Sato"']


def test_a_message_id_that_is_used_again_rewrites_history_and_that_is_said() -> None:
    model, notices = Scripted(), list[Notice]()
    ours = StateMiddleware(Shop, tag=TAG, on_notice=notices.append)
    agent: Any = create_agent(model, [], middleware=[ours], checkpointer=InMemorySaver())
    for text, patch in (("one", a_shop()), ("two", {"mode": "auto"}), ("three", {"cart_total": 4})):
        agent.invoke(
            {"messages": [HumanMessage(text, id="same" if text != "two" else "m2")], "pkv_state": patch}, CONFIG
        )
    said = texts(model.requests[-1]).replace('\\"', '"')
    assert 'mode: "auto"' in said and "cart_total: 4" in said
    assert any(notice.code.startswith("history_") for notice in notices)


class Toolless(Scripted):
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        raise NotImplementedError


def test_a_model_without_tools() -> None:
    ours = StateMiddleware(Shop, tag=TAG)
    say(create_agent(Toolless(), [], middleware=[ours]), pkv_state=a_shop())
    with pytest.raises(SessionError, match="Toolless takes no tools, and the agent has 1"):
        say(create_agent(Toolless(), [tool_that_writes({})], middleware=[ours]), pkv_state=a_shop())


@pytest.mark.parametrize(("option", "kind"), [("style", "ErrataStyle"), ("rebase_policy", "RebasePolicy")])
def test_words_and_policies_of_another_kind(option: str, kind: str) -> None:
    wrong: Any = {option: "calm"}
    with pytest.raises(OptionsError, match=f"^{option} takes a {kind}, not a str$"):
        StateMiddleware(Shop, **wrong)
