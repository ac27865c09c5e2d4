"""`StateTools`: what is sent of the tools stays, what changed is told, and a call is held to what is true now."""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.tools import QueryEngineTool, ToolOutput
from llama_index.core.workflow import Context

from llama_index.llms.pkv import ContextSession, StatefulLLM, StateTools
from pkv_agents import AgentSession, MissingSessionKeyError, SchemaError, SessionError, ToolError
from tests.llama_index.more_providers import bedrock_llm, genai_llm
from tests.llama_index.providers import call, like_llm, openai_llm, responses_llm, tool
from tests.llama_index.skills import REFUNDS, Desk, SkillTalk, cancel, refund, registry, results, track
from tests.llama_index.support import TAG, a_session, assert_append_only, errata_in, user
from tests.llama_index.talks import one_call, with_tools

owned = pytest.mark.parametrize("owned", [False, True], ids=["context", "session"])


def names(body: dict[str, Any]) -> list[str]:
    return [one["function"]["name"] for one in body["tools"]]


@with_tools
@owned
async def test_what_off_says_is_told_and_held(kind: str, owned: bool) -> None:
    ran: list[str] = []

    def close(order_id: str) -> str:
        """Closes an order."""
        ran.append(order_id)
        return "closed"

    def off(desk: Desk) -> Sequence[str]:
        return () if desk.verified else ["close"]

    talk = SkillTalk(kind, lambda llm: StateTools(llm, [close, refund], off=off), owned=owned)
    await talk.say("a", one_call("close", "1", order_id="K1"))
    await talk.patch({"verified": False})
    await talk.say("b", one_call("close", "2", order_id="K2"))
    assert results(talk.bodies[-1])[-1].endswith("'close' is switched off at the moment; nothing was done.")
    assert ran == ["K1"]
    await talk.patch({"verified": True})
    await talk.say("c", one_call("close", "3", order_id="K3"))
    assert ran == ["K1", "K3"]
    assert talk.errata == [
        'verified: false\ntools.changed[close].status: "off"',
        'verified: true\ntools.changed[close].status: "on"',
    ]
    talk.assert_append_only()
    assert "tools_changed" not in talk.codes()


async def test_what_is_switched_off_in_the_same_step_is_not_run() -> None:
    """The model was not told yet; the guard knows."""

    def block(llm: StatefulLLM) -> StateTools:
        session: Any = llm.session

        async def doubt(ctx: Context[Any]) -> str:
            await session.update(ctx, {"verified": False})
            return "doubted"

        def off(desk: Desk) -> Sequence[str]:
            return () if desk.verified else ("refund",)

        return StateTools(llm, [tool(doubt, name="doubt", description="Doubts."), refund], off=off)

    talk = SkillTalk("function", block)
    await talk.say("a", [call("doubt", "1"), call("refund", "2", amount=3)], [call("refund", "3", amount=3)])
    said = results(talk.bodies[-1])
    assert said[0] == "doubted" and "switched off" in said[2]
    assert "paid" not in said[1] or said[1] == "paid 3"  # side by side: whichever came first


@with_tools
@owned
async def test_a_late_tool_is_told_and_called_through_the_bridge(kind: str, owned: bool) -> None:
    now: list[Any] = [cancel]
    talk = SkillTalk(kind, lambda llm: StateTools(llm, lambda: now), owned=owned)
    await talk.say("a")
    now.append(track)
    through = one_call("call_tool", "1", name="track", arguments={"parcel_id": "P1"})
    await talk.say("b", through, one_call("track", "2", parcel_id="P2"), one_call("track", "3", parcel=1))
    assert talk.errata[0].split("\n")[:3] == [
        'tools.changed[track].status: "on"',
        'tools.changed[track].call_with: "call_tool"',
        'tools.changed[track].tool.name: "track"',
    ]
    one, two, three = results(talk.bodies[-1])[-3:]
    assert one.endswith("P1 is in Lyon") and two.endswith("P2 is in Lyon")
    assert "'track' was not called: arguments.parcel_id is missing" in three
    now.remove(track)
    await talk.say("c", through)
    assert talk.errata[-1].startswith('tools.changed[track].status: "off"')
    assert "switched off" in results(talk.bodies[-1])[-1]
    talk.assert_append_only()


async def test_without_a_bridge_a_late_tool_goes_behind_the_others_and_is_reported_once() -> None:
    now: list[Any] = [track, cancel]
    talk = SkillTalk("function", lambda llm: StateTools(llm, lambda: now, bridge=False))
    await talk.patch({"customer": "Ada"})
    await talk.say("a")
    await talk.patch({"customer": "Eve"})
    await talk.say("b")
    now.insert(0, refund)
    await talk.say("c")
    await talk.say("d")
    assert [names(body) for body in talk.bodies] == [["cancel", "track"]] * 2 + [["cancel", "track", "refund"]] * 2
    assert talk.codes() == ["tool_late"], "the plain notice about other tools would say it twice"
    assert talk.errata == [] and 'customer: "Eve"' in talk.bodies[2]["messages"][0]["content"], "the head is new, too"
    assert_append_only(talk.bodies[2:])


@with_tools
async def test_a_changed_description_and_other_parameters(kind: str) -> None:
    now: list[Any] = [tool(cancel)]
    talk = SkillTalk(kind, lambda llm: StateTools(llm, lambda: now))
    await talk.say("a")
    now[0] = tool(cancel, description="Cancels an order within a day.")
    await talk.say("b")
    assert talk.errata[-1].endswith('tools.changed[cancel].description: "Cancels an order within a day."')

    def cancel_more(order_id: str, reason: str) -> str:
        """Cancels."""
        return f"{order_id} because {reason}"

    now[0] = tool(cancel_more, name="cancel")
    await talk.say("c", one_call("cancel", "1", order_id="K1", reason="late"))
    assert results(talk.bodies[-1])[-1].endswith("K1 because late")
    assert "tool_parameters_changed" in talk.codes()
    talk.assert_append_only()


async def test_tools_that_take_the_context_or_return_directly_and_query_engines() -> None:
    from llama_index.core.query_engine import CustomQueryEngine

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            return f"about {query_str}"

    async def note(ctx: Context[Any], text: str) -> str:
        """Notes."""
        await ctx.store.set("noted", text)
        return "noted"

    engine = QueryEngineTool.from_defaults(Engine(), name="search", description="Searches.")
    talk = SkillTalk("function", lambda llm: StateTools(llm, [tool(note), engine, tool(cancel, return_direct=True)]))
    await talk.say("a", [call("note", "1", text="x"), call("search", "2", input="tea")])
    assert results(talk.bodies[-1]) == ["noted", "about tea"]
    assert await talk.ctx.store.get("noted") == "x"
    assert await talk.say("b", one_call("cancel", "3", order_id="K1")) == "cancelled K1"
    assert len(talk.bodies) == 3


async def test_a_tool_that_fails_and_one_with_a_blank_result() -> None:
    def fails() -> str:
        """Fails."""
        raise RuntimeError("no network")

    talk = SkillTalk("function", lambda llm: StateTools(llm, [fails, tool(lambda: "", name="blank", description="b")]))
    await talk.say("a", [call("fails", "1"), call("blank", "2")])
    assert results(talk.bodies[-1])[0] == "no network"


PACKAGES = [openai_llm, like_llm, responses_llm, bedrock_llm]
CALLS = [(make, way) for make in PACKAGES for way in ("chat_with_tools", "achat_with_tools")]


@pytest.mark.parametrize(("make", "way"), [*CALLS, (genai_llm, "achat_with_tools")])
async def test_plain_chat_with_every_package(make: Any, way: str) -> None:
    inner, provider = make()
    session = AgentSession(Desk(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session, skills=registry(REFUNDS))
    now: list[Any] = [cancel, refund]
    kit = StateTools(llm, lambda: now)
    for text in ("a", "b"):
        if way == "achat_with_tools":
            await llm.achat_with_tools(await kit.aretrieve(text), user_msg=text)
        else:
            llm.chat_with_tools(kit.retrieve(text), user_msg=text)
        now = [track]
    one, two = (body.get("tools") or body["toolConfig"] for body in provider.bodies)
    assert one == two and "order_id" in str(one) and "load_skill" in str(one) and "call_tool" in str(one)
    assert 'tools.changed[track].call_with: "call_tool"' in str(provider.bodies[1])
    by_name: Any = {one.metadata.name: one for one in kit.retrieve("")}
    said: ToolOutput = by_name["cancel"].call(order_id="K1")
    assert said.is_error and "switched off" in str(said)
    assert str(by_name["call_tool"].call(name="track", arguments={"parcel_id": "P1"})) == "P1 is in Lyon"
    assert str(by_name["load_skill"]("refunds")) == "Skill refunds is active now; its text is in the state."
    wrong = await by_name["call_tool"].acall(name="nothing", arguments={})
    assert wrong.is_error and "There is no tool 'nothing'" in str(wrong)


async def test_what_is_wrong_is_said_where_it_is_written() -> None:
    inner, _ = openai_llm()
    desk: Any = ContextSession(Desk, initial=Desk())
    llm = StatefulLLM(inner, desk)
    plain: Any = inner
    with pytest.raises(SessionError, match="llm: a StatefulLLM is needed, not a OpenAI"):
        StateTools(plain)
    nothing: Any = [3]
    with pytest.raises(ToolError, match="a tool is a int; pass a LlamaIndex tool or a function"):
        StateTools(llm, nothing)
    with pytest.raises(SessionError, match="a ContextSession is read asynchronously"):
        StateTools(llm, [cancel]).retrieve("")
    with pytest.raises(MissingSessionKeyError, match="no workflow step is running"):
        await StateTools(llm, [cancel]).aretrieve("")
    with pytest.raises(SessionError, match="the application owns this state"):
        StateTools(StatefulLLM(inner, ContextSession(Desk, state=lambda: Desk())), [cancel])
    with pytest.raises(SchemaError, match="Shop has no field tools of type Tools; declare it there"):
        StateTools(StatefulLLM(inner, a_session()), [cancel]).retrieve("")
    session = AgentSession(Desk(), key="k")
    with pytest.raises(ToolError, match="two tools have the"):
        StateTools(StatefulLLM(inner, session), [cancel, tool(track, name="cancel")]).retrieve("")
    assert session.state == Desk(), "nothing was changed"


@owned
async def test_a_call_that_fails_after_a_change_of_the_tools_loses_nothing(owned: bool) -> None:
    now: list[Any] = [cancel]
    talk = SkillTalk("function", lambda llm: StateTools(llm, lambda: now), owned=owned)
    await talk.say("a")
    now.append(track)
    with pytest.raises(Exception, match="scripted"):
        await talk.say("b", 500)
    await talk.say("c")
    assert len(talk.errata) == 1 and 'tools.changed[track].status: "on"' in talk.errata[0]
    assert len(set(talk.arrays)) == 1


def test_errata_of_a_conversation_that_goes_on_elsewhere() -> None:
    """Another process with other tools: the same array, and what changed is told."""
    inner, provider = openai_llm()
    session = AgentSession(Desk(), key="k", tag=TAG)
    llm = StatefulLLM(inner, session)
    llm.chat_with_tools(StateTools(llm, [cancel, refund]).retrieve(""), user_msg="a")
    llm.chat_with_tools(
        StateTools(llm, [tool(refund, description="Pays back.")]).retrieve(""), chat_history=[user("a")], user_msg="b"
    )
    assert provider.bodies[0]["tools"] == provider.bodies[1]["tools"]
    assert errata_in(provider.bodies[1]) == [
        'tools.changed[cancel].status: "off"\n'
        'tools.changed[refund].status: "on"\ntools.changed[refund].description: "Pays back."'
    ]


async def test_a_tool_that_asks_a_model_with_tools_of_its_own_offers_all_of_them() -> None:
    kept: list[StateTools] = []

    def offer(llm: StatefulLLM) -> StateTools:
        async def ask() -> str:
            """Asks."""
            return ", ".join(str(one.metadata.name) for one in await kept[0].aretrieve("what is there?"))

        kept.append(StateTools(llm, [ask, cancel]))
        return kept[0]

    talk = SkillTalk("function", offer)
    await talk.say("a", one_call("ask", "1"))
    assert results(talk.bodies[-1]) == ["ask, call_tool, cancel"]
