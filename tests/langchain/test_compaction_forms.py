"""A summary is in words, whatever form the agent's answers have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import tool
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from langchain_pkv import StateMiddleware, SummaryMiddleware, read_ledger
from pkv_agents import Notice
from tests.langchain.others import responses_model
from tests.langchain.providers import anthropic_model, openai_model
from tests.langchain.support import TAG, Scripted, Shop, a_shop, call, texts, wire_of

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}
LONG = "so it goes " * 20


class Verdict(BaseModel):
    """What is to be done."""

    code: int


class Obedient(Scripted):
    """A model that answers in the form that it is made to."""

    model_name: str = ""

    def _answer(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        super()._answer(messages, kwargs)
        if kwargs.get("response_format"):
            return AIMessage('{"code": 7}')
        if kwargs.get("tool_choice") in ("any", "look"):
            return AIMessage("", tool_calls=[call(kwargs["tools"][-1], f"c{len(messages)}", code=7)])
        return AIMessage("They talked.")


@tool
def look(order_id: str) -> str:
    """Look an order up."""
    return order_id


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a tool": (ToolStrategy(Verdict), {}),
    "a tool, chosen by LangChain": (Verdict, {}),
    "the provider's": (ProviderStrategy(Verdict), {}),
    "the provider's, by the model's profile": (Verdict, {"profile": {"structured_output": True}}),
    "the provider's, by the model's name": (Verdict, {"model_name": "gpt-4.1"}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_summary_of_structured_answers_is_in_words(form: str, asynchronous: bool) -> None:
    response_format, options = FORMS[form]
    model, notices = Obedient(**options), list[Notice]()
    around: list[Any] = [
        SummaryMiddleware(250, keep_tokens=100, on_notice=notices.append),
        StateMiddleware(Shop, instructions="Be brief.", tag=TAG, on_notice=notices.append, strict=True),
    ]
    agent: Any = create_agent(
        model, [look], middleware=around, response_format=response_format, checkpointer=InMemorySaver()
    )
    for turn in range(4):
        state = {"pkv_state": {"cart_total": turn} if turn else a_shop()}
        given: Any = {"messages": [HumanMessage(f"{turn}: {LONG}")], **state}
        answer = await agent.ainvoke(given, CONFIG) if asynchronous else agent.invoke(given, CONFIG)
        assert answer["structured_response"] == Verdict(code=7)
    assert "Summary of the conversation so far:\\nThey talked." in texts(model.requests[-1])
    assert [notice.code for notice in notices] == ["rebase_requested"]
    asked = next(at for at, request in enumerate(model.requests) if "Do not answer" in texts(request))
    before = wire_of(model.requests[asked - 1])
    assert wire_of(model.requests[asked])[: len(before)] == before
    assert model.settings[asked]["tools"] == model.settings[asked - 1]["tools"]
    record = read_ledger(agent.get_state(CONFIG).values)
    assert record is not None and record.calls == len(model.requests) == 5


def test_a_summary_calls_no_tool_that_others_ask_for() -> None:
    class ThatForces(AgentMiddleware[Any, Any, Any]):
        """Makes the model call a tool first in each turn."""

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            is_new = isinstance(request.messages[-1], HumanMessage)
            return handler(request.override(tool_choice="look") if is_new else request)

    class Looking(Obedient):
        def _answer(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
            answer = super()._answer(messages, kwargs)
            made = [call("look", f"c{len(messages)}", order_id="K417")]
            return AIMessage("", tool_calls=made) if answer.tool_calls else answer

    model, heard = Looking(), list[Notice]()
    summary = SummaryMiddleware(250, keep_tokens=100, on_notice=heard.append)
    ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG)
    agent: Any = create_agent(model, [look], middleware=[ThatForces(), summary, ours], checkpointer=InMemorySaver())
    for turn in range(4):
        agent.invoke({"messages": [HumanMessage(LONG)], **({} if turn else {"pkv_state": a_shop()})}, CONFIG)
    assert "Summary of the conversation so far:" in texts(model.requests[-1]) and heard == []


def test_what_another_middleware_says_in_the_models_place_is_no_summary() -> None:
    """Behind ours, a middleware that tries again gives up with a message."""

    def down(messages: list[BaseMessage]) -> AIMessage:
        if "Do not answer" in texts(messages):
            raise ConnectionError("down")
        return AIMessage("ok")

    model, heard = Scripted(script=[down] * 20), list[Notice]()
    summary = SummaryMiddleware(150, keep_tokens=60, on_notice=heard.append)
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0)
    ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG)
    agent: Any = create_agent(model, [look], middleware=[summary, retry, ours], checkpointer=InMemorySaver())
    for turn in range(3):
        agent.invoke({"messages": [HumanMessage(LONG)], **({} if turn else {"pkv_state": a_shop()})}, CONFIG)
    assert "Model call failed" not in texts(model.requests[-1]) and texts(model.requests[-1]).count("so it goes") == 60
    assert [notice.message for notice in heard] == ["another middleware answered in the model's place"]


@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic"])
@pytest.mark.parametrize(
    "form", [Verdict, ProviderStrategy(Verdict), ToolStrategy(Verdict)], ids=["any", "own", "tool"]
)
def test_the_tools_that_go_out_stay_as_they_are(name: str, form: Any) -> None:
    one: Any = [call("Verdict", "c1", code=7)] if isinstance(form, ToolStrategy) else '{"code": 7}'
    script = [one, one, "They talked.", one]
    model, provider = {
        "openai": lambda: openai_model("gpt-4.1", script),
        "openai-responses": lambda: responses_model("gpt-4.1", script),
        "anthropic": lambda: anthropic_model("claude-sonnet-5", script),
    }[name]()
    notices: list[Notice] = []
    ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG, on_notice=notices.append, strict=True)
    summary = SummaryMiddleware(150, keep_tokens=60, on_notice=notices.append)
    memory = InMemorySaver()
    agent: Any = create_agent(model, [look], middleware=[summary, ours], response_format=form, checkpointer=memory)
    for turn in range(3):
        agent.invoke({"messages": [HumanMessage(LONG)], **({} if turn else {"pkv_state": a_shop()})}, CONFIG)
    bodies = provider.bodies
    assert len(bodies) == 4 and all(body["tools"] == bodies[0]["tools"] for body in bodies)
    assert "They talked." in json.dumps(bodies[3]) and [notice.code for notice in notices] == ["rebase_requested"]
