"""A server's memory does not grow with its users: what is kept of contexts beside their stores is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from llama_index.llms.pkv import _lately, _prefix
from llama_index.llms.pkv._lately import Lately
from tests.llama_index.agents import a_context, an_agent, cancelling, the_session


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
