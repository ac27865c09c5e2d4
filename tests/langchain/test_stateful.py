"""`with_state`: any chat model, one explicit session."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from pydantic import BaseModel

from langchain_pkv import StatefulChatModel, StateMiddleware, with_state
from pkv_agents import AgentSession, MissingSessionKeyError, SessionError
from tests.langchain.providers import anthropic_model, assert_append_only, assert_legal_for_anthropic, openai_model
from tests.langchain.support import TAG, Scripted, Shop, a_shop, call, errata_in, wire_of

POLICY = "You are the shop's assistant."


def a_session(key: str = "u1", **values: Any) -> AgentSession[Any]:
    return AgentSession(a_shop(**values), key=key, instructions=POLICY, tag=TAG)


class Verdict(BaseModel):
    """A verdict."""

    allowed: bool


@tool
def ship(order_id: str) -> str:
    """Ship an order."""
    return "shipped"


MODELS: dict[str, Callable[..., Any]] = {
    "openai": openai_model,
    "anthropic-system": partial(anthropic_model, "claude-opus-4-8"),
    "anthropic-suffix": partial(anthropic_model, "claude-sonnet-5"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_each_request_extends_the_one_before(name: str, asynchronous: bool) -> None:
    model, provider = MODELS[name](script=["one", "two", "three"])
    session = a_session()
    llm = with_state(model, session)
    history: list[BaseMessage] = []
    for turn, status in enumerate(["in transit", "delivered", "delivered"]):
        session.state.orders["K417"].status = status
        history.append(HumanMessage(f"turn {turn}"))
        answer = await llm.ainvoke(history) if asynchronous else llm.invoke(history)
        history.append(answer)
    assert_append_only(provider.bodies)
    assert str(provider.bodies[-1]).count("delivered") == 1
    if name.startswith("anthropic"):
        assert_legal_for_anthropic(provider.bodies[-1])
    assert [message.text for message in history] == ["turn 0", "one", "turn 1", "two", "turn 2", "three"]
    assert session.usage.cache_read == 270


def test_the_callers_system_message_stands_in_the_head() -> None:
    model = Scripted()
    with_state(model, a_session()).invoke([SystemMessage("Be brief."), HumanMessage("hi")])
    assert [message.type for message in model.requests[0]] == ["system", "human"]
    assert model.requests[0][0].text.startswith(f"{POLICY}\n\nBe brief.\n\nCurrent state.")


def told(model: Scripted) -> list[list[str]]:
    return [errata_in(request) for request in model.requests]


def test_a_failed_call_leaves_the_erratum_pending() -> None:
    model = Scripted(script=[AIMessage("one"), ConnectionError("down"), AIMessage("two")])
    session = a_session()
    llm = with_state(model, session)
    history: list[BaseMessage] = [HumanMessage("a"), llm.invoke("a"), HumanMessage("b")]
    session.state.mode = "auto"
    with pytest.raises(ConnectionError):
        llm.invoke(history)
    session.state.cart_total = 7
    llm.invoke(history)
    assert told(model) == [[], ['mode: "auto"'], ['mode: "auto"\ncart_total: 7']]


async def test_a_stream_is_committed_when_it_is_exhausted() -> None:
    model = Scripted(script=[AIMessage("one"), AIMessage("two or three"), AIMessage("four five"), AIMessage("six")])
    session = a_session()
    llm = with_state(model, session)
    history: list[BaseMessage] = [HumanMessage("a"), llm.invoke("a"), HumanMessage("b")]
    session.state.mode = "auto"
    stream = llm.stream(history)
    assert next(stream).text == "two"
    stream.close()  # type: ignore[attr-defined]
    session.state.mode = "plan"
    session.state.cart_total = 7
    assert "".join([chunk.text async for chunk in llm.astream(history)]) == "four five"
    llm.invoke([*history, AIMessage("four five"), HumanMessage("c")])
    assert told(model) == [[], ['mode: "auto"'], ["cart_total: 7"], ["cart_total: 7"]]


@pytest.mark.parametrize("way", ["invoke", "stream", "batch", "ainvoke", "astream", "abatch"])
async def test_the_same_call_in_every_way(way: str) -> None:
    """R29: the same request and the same ledger however the call is made."""
    usage: Any = {
        "input_tokens": 100,
        "output_tokens": 5,
        "total_tokens": 105,
        "input_token_details": {"cache_read": 90},
    }
    model = Scripted(script=[AIMessage("one"), AIMessage("two", usage_metadata=usage)])
    session = a_session()
    llm = with_state(model, session)
    history: Any = [HumanMessage("a"), llm.invoke("a"), HumanMessage("b")]
    session.state.mode = "auto"
    if way == "invoke":
        llm.invoke(history)
    elif way == "stream":
        list(llm.stream(history))
    elif way == "batch":
        llm.batch([history])
    elif way == "ainvoke":
        await llm.ainvoke(history)
    elif way == "astream":
        _ = [chunk async for chunk in llm.astream(history)]
    else:
        await llm.abatch([history])
    assert told(model)[-1] == ['mode: "auto"']
    assert session.ledger is not None
    assert len(session.ledger.epochs[0].errata) == 1
    assert (session.usage.fresh, session.usage.cache_read) == (10, 90)


class TestResolver:
    def sessions(self) -> dict[str, AgentSession[Any]]:
        return {"ann": a_session("ann", mode="plan"), "bob": a_session("bob", mode="auto")}

    def llm(self, model: BaseChatModel) -> StatefulChatModel:
        sessions = self.sessions()
        return with_state(model, lambda config: sessions[config["configurable"]["user"]])  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def config(self, user: str) -> RunnableConfig:
        return {"configurable": {"user": user}}

    @pytest.mark.parametrize(
        "way", ["invoke", "stream", "events", "batch", "ainvoke", "astream", "aevents", "abatch", "chain", "bound"]
    )
    async def test_picks_by_the_runs_config(self, way: str) -> None:
        model = Scripted()
        llm, config = self.llm(model), self.config("bob")
        if way == "invoke":
            llm.invoke("hi", config)
        elif way == "stream":
            list(llm.stream("hi", config))
        elif way == "events":
            list(llm.stream_events("hi", config, version="v3"))
        elif way == "aevents":
            _ = [event async for event in llm.astream_events("hi", config, version="v2")]
        elif way == "batch":
            llm.batch(["hi"], config)
        elif way == "ainvoke":
            await llm.ainvoke("hi", config)
        elif way == "astream":
            _ = [chunk async for chunk in llm.astream("hi", config)]
        elif way == "abatch":
            await llm.abatch(["hi"], config)
        elif way == "chain":
            (ChatPromptTemplate.from_messages([("user", "{x}")]) | llm).invoke({"x": "hi"}, config)
        else:
            llm.bind_tools([ship]).invoke("hi", config)
        assert 'mode: "auto"' in model.requests[0][0].text

    def test_a_batch_of_two_users(self) -> None:
        model = Scripted()
        self.llm(model).batch(["hi", "hi"], [self.config("ann"), self.config("bob")])
        assert sorted('mode: "auto"' in request[0].text for request in model.requests) == [False, True]

    @pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"user": "eve"}}])
    def test_a_missing_key_is_an_error(self, config: Any) -> None:
        model = Scripted()
        with pytest.raises(MissingSessionKeyError, match="no session for this run"):
            self.llm(model).invoke("hi", config)
        with pytest.raises(MissingSessionKeyError):
            self.llm(model).stream("hi", config)
        assert model.requests == []

    def test_a_resolver_that_returns_nothing(self) -> None:
        with pytest.raises(MissingSessionKeyError, match="NoneType"):
            with_state(Scripted(), lambda config: None).invoke("hi")  # type: ignore[arg-type,return-value]


def test_what_is_no_session() -> None:
    with pytest.raises(SessionError, match="AgentSession"):
        with_state(Scripted(), a_shop())  # type: ignore[arg-type]


def test_tools_go_to_the_inner_model() -> None:
    model, provider = openai_model(script=[[call("ship", "c1", order_id="K417")]])
    session = a_session()
    answer = with_state(model, session).bind_tools([ship], tool_choice="any").invoke("ship it")
    assert answer.tool_calls[0]["args"] == {"order_id": "K417"}
    assert provider.bodies[0]["tools"][0]["function"]["name"] == "ship"
    assert provider.bodies[0]["tool_choice"] == "required"
    assert "Current state." in provider.bodies[0]["messages"][0]["content"]


@pytest.mark.parametrize("include_raw", [False, True])
def test_structured_output(include_raw: bool) -> None:
    model, provider = openai_model(script=['{"allowed": true}'])
    llm = with_state(model, a_session())
    out = llm.with_structured_output(Verdict, include_raw=include_raw).invoke("may I?")
    assert (out["parsed"] if include_raw else out) == Verdict(allowed=True)
    assert provider.bodies[0]["response_format"]["type"] == "json_schema"
    assert "Current state." in provider.bodies[0]["messages"][0]["content"]


def test_the_inner_model_is_left_alone() -> None:
    model = Scripted(tags=["t"], metadata={"m": 1})
    llm = with_state(model, a_session())
    assert llm.tags == ["t"]
    assert (llm.metadata or {})["m"] == 1
    assert llm.cache is False
    history = [HumanMessage("hi")]
    llm.invoke(history)
    assert wire_of(history) == [("human", '"hi"')]
    assert model.invoke("plain").text == "ok"
    assert [message.type for message in model.requests[-1]] == ["human"]


def test_not_both_with_state_and_the_middleware() -> None:
    agent: Any = create_agent(with_state(Scripted(), a_session()), [], middleware=[StateMiddleware(Shop)])
    with pytest.raises(SessionError, match="with_state already"):
        agent.invoke({"messages": [HumanMessage("hi")], "pkv_state": a_shop()})


def test_a_model_that_cannot_stream() -> None:
    class Mute(Scripted):
        _stream = BaseChatModel._stream

    model = Mute(script=[AIMessage("whole")])
    assert [chunk.text for chunk in with_state(model, a_session()).stream("hi")] == ["whole"]
