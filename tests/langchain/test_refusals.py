"""R07: an endpoint that calls itself compatible answers 400 to a system message behind the head."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_pkv import with_state
from pkv_agents import AgentSession
from tests.langchain.support import TAG, Scripted, a_shop
from tests.langchain.test_reports import CONFIG, agent_for, user


class BadRequestError(Exception):
    status_code = 400


def proxy(messages: list[BaseMessage]) -> AIMessage:
    """Takes a system message first and nowhere else."""
    if any(isinstance(message, SystemMessage) for message in messages[1:]):
        raise BadRequestError("messages.3.role: Input should be 'user' or 'assistant'; 'system' is not supported")
    return AIMessage(f"answer {len(messages)}")


def proxied() -> Scripted:
    return Scripted(script=[proxy] * 20)


async def test_r07_an_agent_goes_round_it_once_and_remembers(saver: Any) -> None:
    for asynchronous in (False, True):
        model, notices = proxied(), list[Any]()
        kept = None if asynchronous else saver  # SQLite's and Postgres' own are not for both
        agent = agent_for(model, saver=kept, on_notice=notices.append)
        for index, status in enumerate(["in transit", "delivered", "lost"]):
            given = user("go", pkv_state=a_shop() if index == 0 else {"orders[K417].status": status})
            answer = await agent.ainvoke(given, CONFIG) if asynchronous else agent.invoke(given, CONFIG)
            assert answer["messages"][-1].text.startswith("answer")
        kinds = [[message.type for message in request] for request in model.requests]
        assert [kind.count("system") for kind in kinds] == [1, 2, 1, 1]  # one refused call in three turns
        assert [notice.code for notice in notices] == ["system_refused"]
        last = model.requests[-1]
        assert last[:4] == model.requests[2][:4]
        assert '"lost"' in last[-1].text and '"delivered"' in last[3].text


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
async def test_a_wrapped_model_goes_round_it_too(how: str) -> None:
    model = proxied()
    session = AgentSession(a_shop(), key="u1", tag=TAG)
    llm = with_state(model, session)
    history: list[BaseMessage] = []
    for status in ("in transit", "delivered", "lost"):
        session.update({"orders[K417].status": status})
        history.append(HumanMessage("go"))
        if how == "invoke":
            answer = llm.invoke(history).text
        elif how == "ainvoke":
            answer = (await llm.ainvoke(history)).text
        elif how == "stream":
            answer = "".join(chunk.text for chunk in llm.stream(history))
        else:
            answer = "".join([chunk.text async for chunk in llm.astream(history)])
        history.append(AIMessage(answer))
    assert len(model.requests) == 4
    assert [notice.code for notice in session.report().notices] == ["system_refused"]
    assert model.requests[-1][:4] == model.requests[2][:4] and '"lost"' in model.requests[-1][-1].text


def test_any_other_error_is_the_callers() -> None:
    session = AgentSession(a_shop(), key="u1", tag=TAG)
    llm = with_state(Scripted(script=[AIMessage("ok"), BadRequestError("max_tokens is too large")]), session)
    llm.invoke([HumanMessage("go")])
    session.state.mode = "auto"
    with pytest.raises(BadRequestError, match="max_tokens"):
        llm.invoke([HumanMessage("go"), AIMessage("ok"), HumanMessage("on")])
