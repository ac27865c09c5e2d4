"""Long threads: cuts that are rare, pair-safe and reported; a summary that is served from the cache."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langchain_pkv import StateMiddleware, SummaryMiddleware, TrimMiddleware, read_ledger
from langchain_pkv._cuts import Cut, cut_at
from pkv_agents import Notice, OptionsError
from tests.langchain.providers import (
    Provider,
    anthropic_model,
    assert_legal_for_anthropic,
    openai_model,
    wire_prefix,
)
from tests.langchain.support import TAG, Scripted, Shop, a_shop, call, texts

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}
LONG = "so it goes " * 20
MODELS: dict[str, Callable[[list[Any]], tuple[Any, Provider]]] = {
    "openai": lambda script: openai_model("gpt-4.1", script),
    "anthropic-system": lambda script: anthropic_model("claude-opus-4-8", script),
    "anthropic-suffix": lambda script: anthropic_model("claude-sonnet-5", script),
}


@tool
def look(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: " + LONG


class Thread:
    """An agent whose thread grows, what it sent and what was said about it."""

    def __init__(self, neighbour: Any, model: Any, *, ours_is_last: bool = True) -> None:
        self.notices: list[Notice] = []
        ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG, on_notice=self.notices.append, strict=True)
        around = [neighbour, ours] if ours_is_last else [ours, neighbour]
        self.agent: Any = create_agent(model, [look], middleware=around, checkpointer=InMemorySaver())
        self.turns = 0

    def say(self, text: str = LONG, **state: Any) -> Any:
        state = state if self.turns else {"pkv_state": a_shop()}
        self.turns += 1
        return self.agent.invoke({"messages": [HumanMessage(f"{self.turns}: {text}")], **state}, CONFIG)

    @property
    def codes(self) -> list[str]:
        return [notice.code for notice in self.notices]


def breaks(bodies: list[dict[str, Any]]) -> int:
    pairs = itertools.pairwise([wire_prefix(body) for body in bodies])
    return sum(two[: len(one)] != one for one, two in pairs)


def said(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize("name", MODELS)
class TestTrimming:
    def test_the_prefix_breaks_once_a_batch(self, name: str) -> None:
        made: tuple[Any, Provider] = MODELS[name]([])
        model, provider = made
        thread = Thread(TrimMiddleware(500, keep_tokens=150), model)
        for turn in range(24):
            state: Any = {"pkv_state": {"cart_total": turn}} if turn % 3 == 0 else {}
            thread.say(**state)
        kept = thread.agent.get_state(CONFIG).values["messages"]
        assert len(provider.bodies) == 24 and len(kept) == 48  # the thread keeps all of them
        assert set(thread.codes) == {"rebase_requested"}
        assert 2 <= breaks(provider.bodies) == len(thread.codes) <= 4
        assert "cart_total: 21" in said(provider.bodies[-1]) and '"1: so it' not in said(provider.bodies[-1])

    def test_a_long_turn_is_cut_between_its_steps(self, name: str) -> None:
        pair = [(f"c{step}", f"d{step}") for step in range(8)]
        steps = [[call("look", one, order_id="K417"), call("look", two, order_id="M220")] for one, two in pair]
        made: tuple[Any, Provider] = MODELS[name](["hello", *steps, "done"])
        model, provider = made
        thread = Thread(TrimMiddleware(700, keep_tokens=250), model)
        thread.say("hi")
        thread.say("look at both, again and again")
        assert len(provider.bodies) == 10
        assert 1 <= breaks(provider.bodies) == len(thread.codes) <= 4
        assert "again and again" in said(provider.bodies[-1]) and '"c0"' not in said(provider.bodies[-1])
        if name.startswith("anthropic"):
            for body in provider.bodies:
                assert_legal_for_anthropic(body)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_summary_is_asked_for_behind_the_same_request(name: str, asynchronous: bool) -> None:
    model, provider = MODELS[name]([*["ok"] * 4, "They talked.", "after it", "and on"])
    thread = Thread(SummaryMiddleware(300, keep_tokens=80), model)
    state: Any = a_shop()
    for turn in range(6):
        given = {"messages": [HumanMessage(f"{turn}: {LONG}")], "pkv_state": state}
        state = {"cart_total": turn}
        if asynchronous:
            await thread.agent.ainvoke(given, CONFIG)
        else:
            thread.agent.invoke(given, CONFIG)
    sent = [wire_prefix(body) for body in provider.bodies]
    assert len(sent) == 7 and breaks(provider.bodies) == 1
    asking, after = provider.bodies[4], provider.bodies[5]
    assert ["Do not answer" in said(body) for body in provider.bodies] == [False] * 4 + [True] + [False] * 2
    assert sent[4][: len(sent[3])] == sent[3], "the summary's request is the last one and what came after it"
    assert asking.get("tools") == after.get("tools")
    assert "They talked." in said(after) and "0: so it" not in said(after)
    assert "cart_total: 4" in said(provider.bodies[-1])
    assert thread.codes == ["rebase_requested"]
    assert "summarised" in thread.notices[0].message
    kept = thread.agent.get_state(CONFIG).values["messages"]
    assert len(kept) == 12 and "They talked." not in texts(kept)
    record = read_ledger(thread.agent.get_state(CONFIG).values)
    assert record is not None and record.calls == 7, "the summary's call is counted too"
    assert record.usage.cache_read == 7 * 90


@pytest.mark.parametrize(
    "step", [AIMessage("", tool_calls=[call("look", "c1", order_id="K417")]), ConnectionError("no")]
)
def test_a_summary_that_fails_costs_nothing_but_itself(step: Any) -> None:
    heard: list[Notice] = []
    answers = [AIMessage(text) for text in ("ok", "ok", "an answer", "Short.", "b")]
    model = Scripted(script=[*answers[:2], step, *answers[2:]])
    thread = Thread(SummaryMiddleware(150, keep_tokens=60, on_notice=heard.append), model)
    thread.say()
    thread.say()
    assert thread.say()["messages"][-1].text == "an answer"
    assert [notice.code for notice in heard] == ["summary_failed"] and thread.codes == []
    assert len(model.requests[3]) == len(model.requests[2]) - 1
    thread.say()
    assert "Short." in texts(model.requests[-1]) and thread.codes == ["rebase_requested"]


def test_a_fork_from_before_the_cut_has_no_cut() -> None:
    model = Scripted()
    thread = Thread(TrimMiddleware(300, keep_tokens=100), model)
    thread.say("the first")
    past = thread.agent.get_state(CONFIG).config
    for _ in range(5):
        thread.say()
    assert "the first" not in texts(model.requests[-1])
    thread.agent.invoke({"messages": [HumanMessage("elsewhere")]}, past)
    assert "the first" in texts(model.requests[-1])


def test_the_summary_does_not_show_in_the_stream() -> None:
    model = Scripted(script=[AIMessage("ok"), AIMessage("ok"), AIMessage("They talked."), AIMessage("after it")])
    thread = Thread(SummaryMiddleware(150, keep_tokens=60), model)
    thread.say()
    thread.say()
    given = {"messages": [HumanMessage(LONG)]}
    seen = "".join(chunk.text for chunk, _ in thread.agent.stream(given, CONFIG, stream_mode="messages"))
    assert seen == "after it" and len(model.requests) == 4


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"max_tokens": 10, "keep_tokens": 10}])
def test_numbers_that_do_not_fit(options: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match="keep_tokens must be between"):
        TrimMiddleware(**options)


@st.composite
def threads(draw: st.DrawFn) -> list[BaseMessage]:
    """Turns of a question, steps of calls with their results, and an answer; the last may be under way."""
    made: list[BaseMessage] = []
    ids = (f"c{number}" for number in itertools.count())
    for _ in range(draw(st.integers(1, 5))):
        made.append(HumanMessage("why " * draw(st.integers(1, 9))))
        for _ in range(draw(st.integers(0, 4))):
            calls = [call("look", next(ids), order_id="K417") for _ in range(draw(st.integers(1, 3)))]
            made.append(AIMessage("", tool_calls=calls))
            made += [ToolMessage("r " * draw(st.integers(1, 30)), tool_call_id=one["id"]) for one in calls]
        made.append(AIMessage("because"))
    for number, message in enumerate(made):
        message.id = str(number)
    return made[: draw(st.integers(1, len(made)))]


@given(threads(), st.integers(1, 60))
def test_a_cut_parts_no_call_from_its_results_and_keeps_the_question(messages: list[BaseMessage], keep: int) -> None:
    def count(some: Any) -> int:
        return sum(len(one.text.split()) for one in some)

    first = cut_at(messages, keep, count)
    if first is None:
        return
    left = Cut(first).of(messages)
    known = {one["id"] for message in left if isinstance(message, AIMessage) for one in message.tool_calls}
    assert all(message.tool_call_id in known for message in left if isinstance(message, ToolMessage))
    assert isinstance(left[0], HumanMessage) and left[-1] is messages[-1]
    assert len(left) < len(messages)
    questions = [message for message in messages if isinstance(message, HumanMessage)]
    assert questions[-1] in left
