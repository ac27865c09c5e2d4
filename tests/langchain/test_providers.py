"""I1 on the wire for each provider's own package: what it sends turn after turn, where errata and markers stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langchain_pkv import StateMiddleware, with_state
from langchain_pkv._profiles import model_profile
from pkv_agents import AgentSession, Notice
from tests.langchain.others import bedrock_model, gemini_model, ollama_model, responses_model
from tests.langchain.providers import Provider, assert_append_only, bare, marked, openai_model
from tests.langchain.support import TAG, UPDATE, Shop, a_shop, call

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}
DELIVERED = f'{UPDATE}\norders[K417].status: "delivered"\n</state-update>'
AUTO = f'{UPDATE}\nmode: "auto"\n</state-update>'
SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


@tool
def ship(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Mark an order as delivered."""
    answer = ToolMessage(f"{order_id} was handed over", tool_call_id=runtime.tool_call_id)
    return Command(update={"pkv_state": {f"orders[{order_id}].status": "delivered"}, "messages": [answer]})


def vllm_model(name: str, script: list[Any]) -> tuple[Any, Provider]:
    model, provider = openai_model(name, script)
    return model.model_copy(update={"openai_api_base": "http://127.0.0.1:8000/v1"}), provider


MODELS: dict[str, Callable[[list[Any]], tuple[Any, Provider]]] = {
    "openai-5.6": lambda script: openai_model("gpt-5.6", script),
    "responses": lambda script: responses_model("gpt-4.1", script),
    "responses-5.6": lambda script: responses_model("gpt-5.6", script),
    "bedrock-claude": lambda script: bedrock_model(SONNET, script),
    "bedrock-nova": lambda script: bedrock_model("us.amazon.nova-pro-v1:0", script),
    "gemini": lambda script: gemini_model("gemini-2.5-flash", script),
    "ollama": lambda script: ollama_model("llama3.2", script),
    "vllm": lambda script: vllm_model("meta-llama/Llama-3.1-8B-Instruct", script),
}
MOST = {"openai-5.6": 3, "responses-5.6": 3, "bedrock-claude": 4, "bedrock-nova": 4}


def an_agent(model: Any, **options: Any) -> Any:
    ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG, **options)
    return create_agent(model, [ship], middleware=[ours], checkpointer=InMemorySaver())


def user(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **rest}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_each_request_extends_the_one_before(name: str, asynchronous: bool) -> None:
    model, provider = MODELS[name](["one", [call("ship", "c1", order_id="K417")], "two", "three", "four"])
    notices: list[Notice] = []
    agent = an_agent(model, on_notice=notices.append)

    async def run(inputs: dict[str, Any]) -> None:
        if asynchronous:
            await agent.ainvoke(inputs, CONFIG)
        else:
            agent.invoke(inputs, CONFIG)

    await run(user("hello", pkv_state=a_shop()))
    await run(user("ship K417"))
    await run(user("and the mode?", pkv_state={"mode": "auto"}))
    await run(user("thanks"))
    assert len(provider.bodies) == 5
    assert_append_only(provider.bodies)
    last = json.dumps(provider.bodies[-1])
    assert last.count("<state-update id=") == 3  # the declaration in the head and two errata
    assert max(len(marked(body)) for body in provider.bodies) <= MOST.get(name, 0)
    assert len(marked(provider.bodies[-1])) >= (2 if name in MOST else 0)
    assert {notice.code for notice in notices} <= {"unknown_model"}


class TestBedrock:
    def test_cache_points_stand_behind_their_blocks(self) -> None:
        model, provider = bedrock_model(SONNET, ["one", [call("ship", "c1", order_id="K417")], "two"])
        agent = an_agent(model)
        agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
        agent.invoke(user("ship it"), CONFIG)
        body = provider.bodies[-1]
        point = {"cachePoint": {"type": "default"}}
        assert body["system"][-1] == point and len(body["system"]) == 2
        assert body["messages"][2]["content"] == [{"text": "ship it"}, point]
        assert body["messages"][4]["content"] == [
            {
                "toolResult": {
                    "toolUseId": "c1",
                    "status": "success",
                    "content": [{"text": f"K417 was handed over\n\n{DELIVERED}"}],
                }
            },
            point,
        ]

    def test_nova_takes_none_beside_a_tools_result(self) -> None:
        model, provider = bedrock_model("us.amazon.nova-pro-v1:0", [[call("ship", "c1", order_id="K417")], "two"])
        an_agent(model).invoke(user("ship it", pkv_state=a_shop()), CONFIG)
        assert all("cachePoint" not in block for block in provider.bodies[-1]["messages"][2]["content"])

    def test_the_older_class_speaks_the_messages_api(self) -> None:
        aws = pytest.importorskip("langchain_aws")
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        model = aws.ChatBedrock(model=SONNET, region_name="us-east-1", **keys)
        profile, _ = model_profile(model)
        assert (profile.marker, profile.carrier) == ("cache_control", "user_suffix")


class TestResponses:
    def test_errata_in_place(self) -> None:
        model, provider = responses_model(script=["one", "two", "three"])
        agent = an_agent(model)
        agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
        agent.invoke(user("and?", pkv_state={"mode": "auto"}), CONFIG)
        agent.invoke(user("thanks"), CONFIG)
        roles = [item["role"] for item in provider.bodies[-1]["input"]]
        assert roles == ["system", "user", "assistant", "user", "system", "assistant", "user"]
        assert bare(provider.bodies[-1]["input"][4]["content"]) == AUTO

    @pytest.mark.parametrize("name", ["gpt-4.1", "gpt-5.6"])
    @pytest.mark.parametrize("bare_model", [False, True], ids=["agent", "with_state"])
    def test_a_server_that_holds_the_history(self, name: str, bare_model: bool) -> None:
        """Each request holds what is new and nothing else: no head, no erratum that was told."""
        model, provider = responses_model(
            name, ["one", [call("ship", "c1", order_id="K417")], "two", "three", "four"], use_previous_response_id=True
        )
        if bare_model:
            provider.script[1:3] = ["two"]
            session = AgentSession(a_shop(), key="k", tag=TAG)
            llm, history = with_state(model, session), list[Any]()
            for text, patch in (("hello", {}), ("ship", {"orders[K417].status": "delivered"}), ("m", {"mode": "auto"})):
                session.update(patch)
                history.append(HumanMessage(text))
                history.append(llm.invoke(history))
            llm.invoke([*history, HumanMessage("thanks")])
            new = [text_of(body) for body in provider.bodies]
            assert new[1:] == [["ship", DELIVERED], ["m", AUTO], ["thanks"]]
        else:
            agent = an_agent(model)
            agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
            agent.invoke(user("ship it"), CONFIG)
            agent.invoke(user("m", pkv_state={"mode": "auto"}), CONFIG)
            agent.invoke(user("thanks"), CONFIG)
            new = [text_of(body) for body in provider.bodies]
            assert new[1:] == [["ship it"], ["K417 was handed over", DELIVERED], ["m", AUTO], ["thanks"]]
        assert len(new[0]) == 2 and "<state id=" in new[0][0]
        ids = [body.get("previous_response_id") for body in provider.bodies]
        assert ids[0] is None and all(str(one).startswith("resp_") for one in ids[1:])


def text_of(body: dict[str, Any]) -> list[str]:
    """The texts of a Responses request, in order."""
    found: list[str] = []
    for item in body["input"]:
        content = bare(item.get("content", item.get("output")))
        found.append(content if isinstance(content, str) else content[0]["text"])
    return found


def test_a_server_of_ones_own_gets_errata_on_messages_and_no_key_that_it_does_not_know() -> None:
    model, provider = vllm_model("meta-llama/Llama-3.1-8B-Instruct", ["one", "two"])
    agent = an_agent(model, cache_key="acme")
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("and?", pkv_state={"mode": "auto"}), CONFIG)
    assert provider.bodies[-1]["messages"][-1] == {"role": "user", "content": f"and?\n\n{AUTO}"}
    assert "prompt_cache_key" not in provider.bodies[-1]
