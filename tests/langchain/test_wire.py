"""I1 on the wire, turn after turn, on the payloads that the provider packages build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langchain_pkv import StateMiddleware
from pkv_agents import PLAIN_STYLE
from tests.langchain.providers import (
    Provider,
    anthropic_model,
    assert_append_only,
    assert_legal_for_anthropic,
    bare,
    openai_model,
)
from tests.langchain.support import TAG, UPDATE, Shop, a_shop, call

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}
POLICY = "You are the shop's assistant. A delivered order cannot be cancelled."
BASELINE = (
    'Current state. A later <state-update id="k7f3"> block gives the current value of the fields it names; it '
    "overrides earlier values and any conclusion drawn from them.\n"
    '<state id="k7f3">\n'
    'customer.name: "Mara Lindt"\n'
    'customer.tier: "gold"\n'
    'orders[K417].status: "in transit"\n'
    'orders[K417].total: "129.90"\n'
    'orders[M220].status: "in transit"\n'
    'orders[M220].total: "129.90"\n'
    'mode: "plan"\n'
    "cart_total: 0\n"
    "notes: {}\n"
    "</state>"
)
DELIVERED = f'{UPDATE}\norders[K417].status: "delivered"\n</state-update>'
MODELS: dict[str, Callable[[list[Any]], tuple[BaseChatModel, Provider]]] = {
    "openai": lambda script: openai_model("gpt-4.1", script),
    "anthropic-system": lambda script: anthropic_model("claude-opus-4-8", script),
    "anthropic-suffix": lambda script: anthropic_model("claude-sonnet-5", script),
}


@tool
def ship(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Mark an order as delivered."""
    answer = ToolMessage(f"{order_id} was handed over", tool_call_id=runtime.tool_call_id)
    return Command(update={"pkv_state": {f"orders[{order_id}].status": "delivered"}, "messages": [answer]})


def agent_for(model: BaseChatModel, **options: Any) -> Any:
    middleware = StateMiddleware(Shop, instructions=POLICY, tag=TAG, **options)
    return create_agent(model, [ship], middleware=[middleware], checkpointer=InMemorySaver())


def user(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **rest}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_each_request_extends_the_one_before(name: str, asynchronous: bool) -> None:
    model, provider = MODELS[name](["one", [call("ship", "c1", order_id="K417")], "two", "three", "four"])
    agent = agent_for(model)

    async def run(inputs: dict[str, Any]) -> None:
        if asynchronous:
            await agent.ainvoke(inputs, CONFIG)
        else:
            agent.invoke(inputs, CONFIG)

    await run(user("hello", pkv_state=a_shop()))
    await run(user("ship K417"))  # the tool changes the state
    await run(user("and the mode?", pkv_state={"mode": "auto"}))
    await run(user("thanks"))
    assert len(provider.bodies) == 5
    assert_append_only(provider.bodies)
    last = str(provider.bodies[-1])
    assert last.count("<state-update id=") == 3  # the declaration in the head and two errata
    if name.startswith("anthropic"):
        for body in provider.bodies:
            assert_legal_for_anthropic(body)


def test_openai_bytes() -> None:
    model, provider = openai_model(script=["one", "two", "three"])
    agent = agent_for(model)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("where is it?", pkv_state={"orders[K417].status": "delivered"}), CONFIG)
    agent.invoke(user("thanks"), CONFIG)
    assert provider.bodies[-1]["messages"] == [
        {"role": "system", "content": f"{POLICY}\n\n{BASELINE}"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "where is it?"},
        {"role": "system", "content": DELIVERED},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "thanks"},
    ]


def test_anthropic_bytes_in_place() -> None:
    model, provider = anthropic_model("claude-opus-4-8", ["one", "two"])
    agent = agent_for(model)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("where is it?", pkv_state={"orders[K417].status": "delivered"}), CONFIG)
    body = bare(provider.bodies[-1])
    assert body["system"] == f"{POLICY}\n\n{BASELINE}"
    assert body["messages"][-2:] == [
        {"role": "user", "content": "where is it?"},
        {"role": "system", "content": DELIVERED},
    ]


def test_anthropic_bytes_in_the_user_message() -> None:
    model, provider = anthropic_model("claude-sonnet-5", ["one", "two", "three"])
    agent = agent_for(model)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("where is it?", pkv_state={"orders[K417].status": "delivered"}), CONFIG)
    agent.invoke(user("thanks"), CONFIG)
    assert bare(provider.bodies[-1])["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": f"where is it?\n\n{DELIVERED}"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "thanks"},
    ]


def test_a_tools_patch_is_told_after_its_result() -> None:
    model, provider = anthropic_model("claude-sonnet-5", [[call("ship", "c1", order_id="K417")], "done"])
    agent_for(model).invoke(user("ship it", pkv_state=a_shop()), CONFIG)
    result = bare(provider.bodies[-1])["messages"][-1]["content"][0]
    assert result["type"] == "tool_result"
    assert result["tool_use_id"] == "c1"
    assert result["content"] == f"K417 was handed over\n\n{DELIVERED}"


def test_a_block_list_keeps_its_blocks() -> None:
    """An image before the text stays; the erratum joins the text."""
    model, provider = anthropic_model("claude-sonnet-5", ["one", "two"])
    agent = agent_for(model)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    asked = HumanMessage([image, {"type": "text", "text": "what is this?"}])
    out = agent.invoke({"messages": [asked], "pkv_state": {"orders[K417].status": "delivered"}}, CONFIG)
    content = bare(provider.bodies[-1])["messages"][-1]["content"]
    assert content[0] == image
    assert "".join(block["text"] for block in content[1:]) == f"what is this?\n\n{DELIVERED}"
    stored = next(message for message in out["messages"] if message.content == asked.content)
    assert UPDATE not in str(stored.content)


def test_a_system_prompt_of_the_agent_stands_in_front() -> None:
    model, provider = openai_model()
    agent: Any = create_agent(
        model, [], system_prompt="Be brief.", middleware=[StateMiddleware(Shop, instructions=POLICY, tag=TAG)]
    )
    agent.invoke(user("hello", pkv_state=a_shop()))
    assert provider.bodies[0]["messages"][0]["content"] == f"Be brief.\n\n{POLICY}\n\n{BASELINE}"


def test_the_blocks_of_a_system_prompt_stay_blocks() -> None:
    model, provider = anthropic_model("claude-opus-4-8")
    marked = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    agent: Any = create_agent(
        model,
        [],
        system_prompt=SystemMessage([marked]),
        middleware=[StateMiddleware(Shop, instructions=POLICY, tag=TAG)],
    )
    agent.invoke(user("hello", pkv_state=a_shop()))
    ours = {"type": "text", "text": f"{POLICY}\n\n{BASELINE}", "cache_control": {"type": "ephemeral"}}
    assert provider.bodies[0]["system"] == [marked, ours]


def test_the_users_messages_are_not_changed() -> None:
    model, provider = anthropic_model("claude-sonnet-5", ["one", "two"])
    agent = agent_for(model)
    first, second = HumanMessage('hello <state-update id="k7f3">'), HumanMessage("again", id="m2")
    before = [message.model_dump() for message in (first, second)]
    agent.invoke({"messages": [first], "pkv_state": a_shop()}, CONFIG)
    out = agent.invoke({"messages": [second], "pkv_state": {"mode": "auto"}}, CONFIG)
    first_now = {**first.model_dump(), "id": None}
    assert [first_now, second.model_dump()] == before
    assert [message.text for message in out["messages"]] == [first.text, "one", "again", "two"]
    assert "mode" in str(provider.bodies[-1]["messages"][-1])


def test_reads_its_usage() -> None:
    model, _ = openai_model(script=["one", "two"])
    seen: list[Any] = []
    agent = agent_for(model, on_call=seen.append)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("again", pkv_state={"mode": "auto"}), CONFIG)
    assert [one.usage.cache_read for one in seen] == [90, 90]
    assert [one.usage.fresh for one in seen] == [10, 10]
    assert seen[0].plan.erratum is None
    assert seen[1].plan.erratum.text.startswith(UPDATE)
    assert isinstance(seen[1].answer[0], AIMessage)
    assert seen[1].messages[-1].text.startswith(UPDATE)


def test_the_words_may_be_others() -> None:
    model, provider = MODELS["openai"]([])
    agent = agent_for(model, style=PLAIN_STYLE)
    agent.invoke(user("a", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("b", pkv_state={"mode": "auto"}), CONFIG)
    first, *_, last = (message["content"] for message in provider.bodies[-1]["messages"])
    assert "\n[[state k7f3]]\n" in first
    assert last == '[[state-update k7f3]]\nmode: "auto"\n[[/state-update k7f3]]'
    assert_append_only(provider.bodies)
