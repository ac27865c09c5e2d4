"""What an application's own users see: messages and state, never an erratum."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langchain_pkv import LedgerRecord, StateMiddleware, read_ledger
from tests.langchain.support import TAG, Scripted, Shop, a_shop, errata_in

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}


def started_agent(model: Scripted) -> Any:
    agent: Any = create_agent(model, [], middleware=[StateMiddleware(Shop, tag=TAG)], checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("hello")], "pkv_state": a_shop()}, CONFIG)
    return agent


@pytest.mark.parametrize("mode", ["messages", "values", "updates", "custom", "tasks", "checkpoints", "debug"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_no_stream_shows_an_erratum(mode: Any, asynchronous: bool) -> None:
    model = Scripted(script=[AIMessage("one"), AIMessage("it was delivered")])
    agent = started_agent(model)
    inputs = {"messages": [HumanMessage("where is it?")], "pkv_state": {"orders[K417].status": "delivered"}}
    if asynchronous:
        chunks = [chunk async for chunk in agent.astream(inputs, CONFIG, stream_mode=mode)]
    else:
        chunks = list(agent.stream(inputs, CONFIG, stream_mode=mode))
    assert errata_in(model.requests[-1]) == ['orders[K417].status: "delivered"']
    assert "state-update" not in repr(chunks)
    assert TAG not in repr(chunks)
    assert "Current state." not in repr(chunks)
    if mode == "messages":
        assert "".join(message.text for message, _ in chunks) == "it was delivered"


def test_the_output_has_messages_and_state_and_no_ledger() -> None:
    model = Scripted()
    out = started_agent(model).invoke({"messages": [HumanMessage("again")], "pkv_state": {"mode": "auto"}}, CONFIG)
    assert set(out) == {"messages", "pkv_state"}
    assert [message.text for message in out["messages"]] == ["hello", "ok", "again", "ok"]
    assert out["pkv_state"]["mode"] == "auto"


def test_the_ledger_can_be_read_and_is_plain_data() -> None:
    agent = started_agent(Scripted())
    agent.invoke({"messages": [HumanMessage("again")], "pkv_state": {"mode": "auto"}}, CONFIG)
    values = agent.get_state(CONFIG).values
    record = read_ledger(json.loads(json.dumps({"pkv_ledger": values["pkv_ledger"]})))
    assert isinstance(record, LedgerRecord)
    assert record.calls == 2
    assert 'mode: "auto"' in json.dumps(record.ledger.to_dict()).replace('\\"', '"')
    assert read_ledger({}) is None
