"""A server's memory does not grow with its users: what is kept of contexts beside their stores is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from llama_index.llms.pkv import _lately, _prefix
from llama_index.llms.pkv._lately import Lately
from pkv_agents import SessionError, StrictNoticeError
from tests.llama_index.agents import a_context, an_agent, cancelling, the_session
from tests.llama_index.providers import call


def test_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lately, "MAX_CONTEXTS", 2)
    lately: Lately[list[str]] = Lately(list)
    for name in ("a", "b", "a", "c"):
        lately.of(name).append(name)
    assert lately.of("a") == ["a", "a"]
    assert lately.of("b") == []


async def test_many_contexts_of_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lately, "MAX_CONTEXTS", 3)
    session = the_session()
    agent, provider = an_agent([], session, tools=[cancelling(session)])
    for _ in range(6):
        await agent.run("a", ctx=await a_context(agent))
    kept: Any = _prefix._tools[session]
    told: Any = session._told
    assert (len(kept._values), len(told._values), len(provider.bodies)) == (3, 3, 6)


async def test_a_contexts_report_shows_its_turns() -> None:
    """The session ends with each call; what it knew of its turn does not."""
    session = the_session()
    agent, _ = an_agent([[call("cancel", "1", order_id="K417")], "done", "yes"], session, tools=[cancelling(session)])
    ctx = await a_context(agent)
    await agent.run("cancel K417", ctx=ctx)
    await agent.run("is it?", ctx=ctx)
    report = await session.report(ctx)
    assert [turn.number for turn in report.turns] == [1, 2, 3]
    assert report.turns[1].changed == ("orders[K417].status",)
    assert "in the latest 0" not in str(report)
    assert "below_minimum" in [notice.code for notice in report.notices]


async def test_a_report_of_an_agent_that_did_not_answer() -> None:
    session = the_session()
    agent, _ = an_agent([], session)
    ctx = await a_context(agent)
    assert (await session.report(ctx, "later")).total_turns == 0
    await agent.run("a", ctx=ctx)
    with pytest.raises(SessionError, match="there are those of ''"):
        await session.report(ctx, "other")


async def test_a_strict_session_raises_each_time() -> None:
    session = the_session(strict=True)
    agent, provider = an_agent([], session, initial_state={"mode": "plan"})
    ctx = await a_context(agent)
    for _ in range(2):
        with pytest.raises(StrictNoticeError, match="initial_state"):
            await agent.run("a", ctx=ctx)
    assert provider.bodies == []
