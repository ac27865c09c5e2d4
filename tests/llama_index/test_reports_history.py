"""Reports about usage and the history, through each kind of agent and engine; `test_reports` has the table."""

import json
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.react.formatter import ReActChatFormatter
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.workflow import Context

from llama_index.llms.pkv import StatefulLLM, StateMemory
from pkv_agents import AgentSession, SQLiteStore
from tests.llama_index.providers import call, openai_llm
from tests.llama_index.support import (
    STREAMED,
    TAG,
    a_shop,
    assert_append_only,
)
from tests.llama_index.talks import Talk, changing, every_kind, roles, texts


@every_kind
@pytest.mark.parametrize("asked", [True, False])
async def test_r28_r29_usage_is_counted_once(kind: str, asked: bool) -> None:
    """All but the engine stream here; a stream tells its usage where it is asked to, and else it is None and not 0."""
    talk = Talk(kind, make=lambda: openai_llm(**(STREAMED if asked and kind != "engine" else {})))
    await talk.say("a")
    await talk.say("b")
    report = talk.session.report() if kind == "engine" else await talk.session.report(talk.ctx, _agent(kind))
    usage, known = report.usage, asked or kind == "engine"
    assert report.total_turns == 2
    assert (usage.input, usage.cache_read, usage.output) == ((200, 180, 10) if known else (None, None, None))
    assert usage.fresh == (20 if known else None)


def _agent(kind: str) -> str:
    return "one" if kind == "workflow" else ""


@every_kind
async def test_r30_a_history_cut_at_each_place(kind: str) -> None:
    def tools(session: Any) -> list[Any]:
        return [changing(session, "one", {"mode": "auto"}), changing(session, "two", {"cart_total": 2})]

    async def a_talk() -> tuple[Talk, Any]:
        talk = Talk(kind, tools=tools)
        await talk.say("before")
        calls = [call("one", "1"), call("two", "2")]
        await talk.say("go", *([] if kind == "engine" else [calls] if kind != "react" else [calls[:1], calls[1:]]))
        if kind == "engine":
            await talk.change(mode="auto", cart_total=2)
        await talk.say("thanks")
        memory = talk.runs._memory if kind == "engine" else await talk.ctx.store.get("memory")
        return talk, memory

    length = len((await a_talk())[1].get_all())
    for cut in range(1, length + 1):
        talk, memory = await a_talk()
        memory.set(memory.get_all()[cut:])
        if kind != "engine":
            await talk.ctx.store.set("memory", memory)
        await talk.say("and now?")
        said = roles(talk.bodies[-1])
        results = [at for at, role in enumerate(said) if role == "tool"]
        assert not results or said[results[0] - 1] == "assistant"
        known = json.dumps(talk.bodies[-1]).replace("\\", "")
        assert known.rindex('mode: "auto"') > known.rfind('mode: "plan"')
        assert known.rindex("cart_total: 2") > known.rfind("cart_total: 0")
        assert talk.codes(), f"cut at {cut}, and nothing was said"


@every_kind
async def test_r31_saved_and_read_back(kind: str, tmp_path: Path) -> None:
    """The next request has the same bytes, whether the conversation went on or was saved and read back."""
    went_on, saved = Talk(kind), Talk(kind)
    store = SQLiteStore(tmp_path / "sessions.db")
    if kind == "engine":
        saved.session = AgentSession(a_shop(), key="k", instructions="You help.", tag=TAG, store=store)
        saved.runs = SimpleChatEngine.from_defaults(llm=StatefulLLM(saved.inner, saved.session), memory=StateMemory())
    for talk in (went_on, saved):
        await talk.say("a")
        await talk.change(mode="auto")
        await talk.say("b")
    if kind == "engine":
        history = json.loads(json.dumps([message.model_dump(mode="json") for message in saved.runs.chat_history]))
        state = saved.session.state
        saved.session = AgentSession(state, key="k", instructions="You help.", tag="zzzz", store=store)
        memory = StateMemory(messages=history)
        saved.runs = SimpleChatEngine.from_defaults(llm=StatefulLLM(saved.inner, saved.session), memory=memory)
    else:
        saved.ctx = Context.from_dict(saved.runs, json.loads(json.dumps(saved.ctx.to_dict())))
    for talk in (went_on, saved):
        await talk.change(cart_total=7)
        await talk.say("c")
        talk.assert_append_only()
    assert saved.bodies == went_on.bodies
    store.close()


@every_kind
async def test_r32_another_system_prompt(kind: str) -> None:
    """Exactly one head, the newest; and the same head again with what changed as one erratum."""
    talk = Talk(kind)

    def prompt(text: str) -> None:
        if kind == "engine":
            llm, memory = StatefulLLM(talk.inner, talk.session), talk.runs._memory
            talk.runs = SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt=text)
        elif kind == "react":  # its own `system_prompt` is read once, by LlamaIndex
            talk.runs.formatter = ReActChatFormatter.from_defaults(context=text)
        else:
            agent = talk.runs.agents["one"] if kind == "workflow" else talk.runs
            agent.system_prompt = text

    prompt("Be brief.")
    await talk.say("a")
    prompt("Be kind.")
    await talk.change(mode="auto")
    await talk.say("b")
    assert roles(talk.bodies[1]).count("system") == 1
    head = texts(talk.bodies[1])[0]
    assert "Be kind." in head and "Be brief." not in head and 'mode: "auto"' in head
    assert talk.errata == []
    assert talk.codes() == ["instructions_changed"]
    await talk.change(mode="plan")
    await talk.say("c")
    assert talk.errata == ['mode: "plan"']
    assert_append_only(talk.bodies[1:])
