"""Skills and tools with `with_state`: the session has them, the calls carry the array and what is native."""

from __future__ import annotations

import itertools
import json
from typing import Any

import anthropic
import openai
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from langchain_pkv import with_state
from pkv_agents import (
    LOAD_SKILL,
    AgentSession,
    ToolCall,
    ToolSpec,
    answer_skill_call,
    decide_call,
    profile_for,
    qualified,
    start_tools,
    tool_from,
    update_tools,
)
from tests.core.strategies import TAG
from tests.langchain.providers import Provider, openai_model
from tests.langchain.skilled import (
    MODELS,
    POLICY,
    Desk,
    a_registry,
    arrays,
    assert_kept,
    assert_told_is_true,
    names,
    shown,
)
from tests.langchain.support import call

ORDER: dict[str, Any] = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
REFUND = ToolSpec("refund", "Erstattet Geld 東京.", ORDER)
CANCEL = ToolSpec("cancel", "Cancels an order.", ORDER)


class Talk:
    """A conversation without an agent: the application answers the calls."""

    def __init__(self, name: str, script: list[Any], *own: ToolSpec, bridge: bool = False) -> None:
        self.model, self.provider = MODELS[name](script)
        self.registry = a_registry()
        desk = Desk(
            skills=self.registry.start(), tools=start_tools([tool_from(LOAD_SKILL), REFUND, *own], bridge=bridge)
        )
        self.session = AgentSession(desk, key="one", tag=TAG, instructions=POLICY)
        self.llm = with_state(self.model, self.session, tools="tools")
        self.history: list[BaseMessage] = []

    async def say(self, text: str, asynchronous: bool = False) -> AIMessage:
        self.history.append(HumanMessage(text))
        while True:
            answer = await self.llm.ainvoke(self.history) if asynchronous else self.llm.invoke(self.history)
            assert_told_is_true(self.provider.bodies[-1], self.session.state)
            self.history.append(answer)
            for one in answer.tool_calls:
                self.history.append(ToolMessage(self._answer(one), tool_call_id=one["id"]))
            if not answer.tool_calls:
                return answer

    def _answer(self, one: Any) -> str:
        decision = decide_call(self.session.state.tools, ToolCall(one["name"], one["args"], one["id"]))
        if decision.refusal is not None:
            return decision.refusal
        asked = answer_skill_call(self.registry, decision.call.name, decision.call.arguments, self.session.state.skills)
        if asked is None:
            return f"{decision.call.name}: done"
        self.session.update(asked.patch)
        return asked.text

    def now(self, *tools: ToolSpec, off: tuple[str, ...] = ()) -> list[str]:
        """What the application does when its tools change."""
        update = update_tools(
            self.session.state.tools, [tool_from(LOAD_SKILL), *tools], profile=self.session.profile, off=off
        )
        self.session.update(update.patch)
        return [notice.code for notice in update.notices]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_conversation(name: str, asynchronous: bool) -> None:
    beta = ToolSpec("beta", "Late.", ORDER)
    script = [
        [call("load_skill", "c1", name="refunds")],
        "thirty days",
        [call("refund", "c2", order_id="K1")],
        "no",
        "yes",
        [
            call("beta", "c3", order_id="K1")
            if name == "anthropic-native"
            else call("call_tool", "c3", name="beta", arguments={"order_id": "K1"})
        ],
        "done",
    ]
    talk = Talk(name, script, bridge=True)
    await talk.say("refund?", asynchronous)
    assert talk.now(REFUND, off=("refund",)) == []
    await talk.say("do it", asynchronous)
    assert talk.now(REFUND) == []
    await talk.say("now?", asynchronous)
    assert talk.now(REFUND, beta) == []
    talk.session.update(talk.registry.retire("refunds", talk.session.state.skills))
    await talk.say("beta", asynchronous)
    said = [message.text for message in talk.history if isinstance(message, ToolMessage)]
    assert said[1:] == ["'refund' is switched off at the moment; nothing was done.", "beta: done"]
    assert_kept(talk.provider)
    assert len(set(arrays(talk.provider))) == 1
    blocks = json.dumps(talk.provider.bodies[-1]["messages"])
    assert ("tool_removal" in blocks and "tool_definition" in blocks) == (name == "anthropic-native")
    choices = [body.get("tool_choice") for body in talk.provider.bodies]
    assert [bool(choice) for choice in choices] == [name == "openai" and 2 <= at <= 3 for at in range(len(choices))]


async def test_r17_r18_the_same_array_in_every_order() -> None:
    odd: dict[str, Any] = {
        "type": "object",
        "properties": {"z": {"$ref": "#/$defs/Z"}, "a": {"type": "number", "maximum": 2.0}},
        "$defs": {"Z": {"type": "string", "enum": ["b", "a"]}},
    }
    searches = (ToolSpec("search", "a", odd, server="books"), ToolSpec("search", "b", server="files"))
    sent: set[str] = set()
    for order in itertools.permutations((*searches, ToolSpec("zeta"))):
        talk = Talk("openai", ["ok"], *qualified(order))
        await talk.say("hello")
        sent |= set(arrays(talk.provider))
        assert names(talk.provider.bodies[0]) == ["books__search", "files__search", "load_skill", "refund", "zeta"]
    (array,) = sent
    assert "東京" in array and '"maximum": 2,' in array and '"enum": ["b", "a"]' in array
    assert array.index('"z": {') < array.index('"a": {"max')


@pytest.mark.parametrize("name", MODELS)
async def test_a_call_that_fails_after_a_load_loses_nothing(name: str) -> None:
    talk = Talk(name, ["hello", [call("load_skill", "c1", name="refunds")], 500, "thirty days"])
    await talk.say("hello")
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError), match="scripted"):
        await talk.say("refund?")
    assert "refunds" in talk.session.state.skills.active
    talk.llm.invoke(talk.history)
    assert_told_is_true(talk.provider.bodies[-1], talk.session.state)
    assert_kept(talk.provider)


def test_r20_arguments_that_a_store_reordered() -> None:
    def sent(arguments: dict[str, Any]) -> str:
        talk = Talk("openai", [])
        asked = AIMessage("", tool_calls=[call("look", "c1", **arguments)])  # pyright: ignore[reportArgumentType]
        talk.llm.invoke([HumanMessage("go"), asked, ToolMessage("ok", tool_call_id="c1"), HumanMessage("so")])
        return json.dumps(talk.provider.bodies[0])

    assert sent({"city": "Tokyo", "unit": {"b": 1, "a": 2.0}}) == sent({"unit": {"a": 2.0, "b": 1}, "city": "Tokyo"})


async def test_a_late_tool_of_the_responses_api() -> None:
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any], step: Any) -> dict[str, Any]:
        bodies.append(body)
        text = {"type": "output_text", "text": step, "annotations": []}
        message = {"type": "message", "id": f"m{len(bodies)}", "role": "assistant", "status": "completed"}
        return {
            "id": f"r{len(bodies)}",
            "object": "response",
            "created_at": 1,
            "model": body["model"],
            "output": [{**message, "content": [text]}],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": None,
        }

    plain, provider = openai_model("gpt-5.5", ["a", "b", "c", "d"])
    provider.answer = answer
    model = ChatOpenAI(
        model="gpt-5.5",
        api_key=plain.openai_api_key,
        max_retries=0,
        use_responses_api=True,
        http_client=plain.http_client,
    )
    profile, _ = profile_for("openai_responses", "gpt-5.5")
    assert profile.tool_changes == "additional_tools"
    session = AgentSession(Desk(tools=start_tools([REFUND, CANCEL])), key="one", tag=TAG, profile=profile)
    llm, history = with_state(model, session, tools="tools"), [HumanMessage("hello")]
    beta = ToolSpec("beta", "Late.", ORDER)
    steps = (([REFUND, CANCEL], ()), ([REFUND, CANCEL, beta], ("refund",)), (None, ()), ([REFUND, CANCEL], ("refund",)))
    for tools, off in steps:
        if tools is not None:
            session.update(update_tools(session.state.tools, tools, profile=profile, off=off).patch)
        history += [llm.invoke(history), HumanMessage("and?")]
        assert_told_is_true(bodies[-1], session.state)
    late = {"type": "function", "name": "beta", "description": "Late.", "parameters": ORDER}
    items = [item for item in bodies[-1]["input"] if item.get("type") == "additional_tools"]
    assert items == [{"type": "additional_tools", "role": "developer", "tools": [late]}]
    assert bodies[1]["input"] == bodies[2]["input"][: len(bodies[1]["input"])]
    assert bodies[1]["tools"] == bodies[0]["tools"] == bodies[2]["tools"]
    only = {"type": "function", "name": "cancel"}
    assert bodies[3]["tool_choice"] == {"type": "allowed_tools", "mode": "auto", "tools": [only]}
    assert "tool_choice" not in bodies[1]  # it could not list the late tool


async def test_each_branch_of_a_history_is_told_natively() -> None:
    """One session, one ledger that keeps both branches: the second one does not know what the first was told."""
    talk = Talk("anthropic-native", ["a", "b", "another b"])
    await talk.say("a")
    history = [*talk.history]
    talk.now(REFUND, ToolSpec("beta", "Late.", ORDER))
    for text in ("b", "another b"):
        talk.history = [*history]
        await talk.say(text)
        assert json.dumps(talk.provider.bodies[-1]["messages"]).count("tool_definition") == 1
    assert_kept(Provider(talk.provider.answer, bodies=[talk.provider.bodies[0], talk.provider.bodies[2]]))


def test_tools_that_the_caller_binds_go_out_instead() -> None:
    talk = Talk("openai", ["ok", "ok"])
    own = {"type": "function", "function": {"name": "mine", "description": "m", "parameters": ORDER}}
    talk.llm.bind_tools([own]).invoke([HumanMessage("hello")])
    assert names(talk.provider.bodies[0]) == ["mine"] and "tool_choice" not in talk.provider.bodies[0]
    assert "skills.available" in shown(talk.provider.bodies[0])
