"""A server's memory does not grow with its users: what is kept of contexts beside their stores is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from llama_index.llms.pkv import _lately, _prefix
from llama_index.llms.pkv._lately import Lately
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
