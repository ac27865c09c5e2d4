"""The support agent on LlamaIndex: a few turns of each arm over a mock transport."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from examples.support_agent.arms import ARMS, POLICY
from examples.support_agent.runner import expected_decision
from examples.support_agent.scenario import TURNS, initial_state
from examples.support_agent.vocabulary import TOOL_DOCS
from examples.support_agent_llamaindex import ArmPlayer, play
from pkv_agents import apply_patch
from tests.llama_index.providers import Provider, call, openai_llm
from tests.llama_index.support import assert_append_only, errata_in

USAGE: Any = {"additional_kwargs": {"stream_options": {"include_usage": True}}}


def deciding(turns: int) -> tuple[Any, Provider]:
    """A model that decides each turn as the policy wants it in the state of the script."""
    shop, script = initial_state(), list[Any]()
    for number, turn in enumerate(TURNS[:turns]):
        shop = apply_patch(shop, turn.outside)
        decision = expected_decision(shop, turn)
        script.append([call(decision.tool, str(number), **decision.arguments)])
    return openai_llm(script=script, **USAGE)


async def test_ours_keeps_the_prefix_and_tells_what_changed() -> None:
    llm, provider = deciding(2)
    player = ArmPlayer(llm, "ours")
    first, second = await player.play(1), await player.play(2)
    assert first.policy_correct
    assert second.policy_correct
    assert second.erratum
    assert second.changed.keys() >= TURNS[1].outside.keys() - {"now"}
    assert (second.prompt_tokens, second.cached_tokens) == (100, 90)
    assert provider.bodies[0]["messages"][0]["content"].startswith(POLICY)
    assert provider.bodies[0]["tool_choice"] == "required"
    assert [one["function"]["name"] for one in provider.bodies[0]["tools"]] == sorted(doc.name for doc in TOOL_DOCS)
    assert "title" not in str(provider.bodies[0]["tools"][0]["function"]["parameters"])
    assert len(provider.bodies) == 2, "a tool's words end the turn"
    assert_append_only(provider.bodies)


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm != "ours"])
async def test_the_other_arms(arm: Any) -> None:
    llm, provider = deciding(2)
    player = ArmPlayer(llm, arm)
    rows = [await player.play(1), await player.play(2)]
    heads = [body["messages"][0]["content"] for body in provider.bodies]
    assert (heads[0] == heads[1]) == (arm == "stale")
    assert [row.erratum for row in rows] == [None, None]
    assert errata_in(provider.bodies) == []


def test_the_result_is_the_other_examples() -> None:
    result = asyncio.run(play(lambda arm: deciding(1)[0], "mock", arms=list(ARMS), turns=1))
    assert [row.arm for row in result.rows] == list(ARMS)
    assert result.totals()["ours"].agreement == 1
    assert result.to_json()["model"] == "mock, on LlamaIndex"
