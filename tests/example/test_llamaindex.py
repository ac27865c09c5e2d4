"""The support agent on LlamaIndex: the same requests as LangChain's agent makes, and so the same decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from examples.support_agent import runner
from examples.support_agent.arms import ARMS, POLICY, Arm
from examples.support_agent.llama_index_models import LlamaIndexModels
from examples.support_agent.models import Choice, choose_model
from examples.support_agent.results import RunResult
from examples.support_agent.scenario import TURNS, initial_state
from examples.support_agent.turns import expected_decision
from examples.support_agent.vocabulary import TOOL_DOCS
from examples.support_agent_llamaindex import ArmPlayer, run
from langchain_pkv import LocalChatModel
from llama_index.llms.pkv import LocalLLM
from pkv_agents import ModelError, apply_patch
from tests.example.reading_engine import ReadingModel
from tests.example.test_server import check_three_turns, served
from tests.llama_index.providers import Provider, call, openai_llm
from tests.llama_index.support import assert_append_only, errata_in
from tests.local.tiny import tiny_tokenizer

USAGE: Any = {"additional_kwargs": {"stream_options": {"include_usage": True}}}


@pytest.fixture
def loop() -> Generator[asyncio.Runner]:
    with asyncio.Runner() as found:
        yield found


def choice_of(llm: Any, ttft: Any = "stream") -> Choice:
    return Choice("mock", lambda arm: llm, len, counts_exactly=True, ttft=ttft)


def deciding(turns: int) -> tuple[Any, Provider]:
    """A model that decides each turn as the policy wants it in the state of the script."""
    shop, script = initial_state(), list[Any]()
    for number, turn in enumerate(TURNS[:turns]):
        shop = apply_patch(shop, turn.outside)
        decision = expected_decision(shop, turn)
        script.append([call(decision.tool, str(number), **decision.arguments)])
    return openai_llm(script=script, **USAGE)


def test_ours_keeps_the_prefix_and_tells_what_changed(loop: asyncio.Runner) -> None:
    llm, provider = deciding(2)
    player = ArmPlayer(choice_of(llm), "ours", loop=loop)
    first, second = player.play(1), player.play(2)
    assert first.policy_correct
    assert second.policy_correct
    assert second.erratum
    assert second.changed.keys() >= TURNS[1].outside.keys() - {"now"}
    assert (second.prompt_tokens, second.cached_tokens) == (100, 90)
    assert second.ttft_s is not None and 0 < second.ttft_s <= second.total_s
    assert provider.bodies[0]["messages"][0]["content"].startswith(POLICY)
    assert provider.bodies[0]["tool_choice"] == "required"
    assert [one["function"]["name"] for one in provider.bodies[0]["tools"]] == sorted(doc.name for doc in TOOL_DOCS)
    assert "title" not in str(provider.bodies[0]["tools"][0]["function"]["parameters"])
    assert len(provider.bodies) == 2, "a tool's words end the turn"
    assert_append_only(provider.bodies)


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm != "ours"])
def test_the_other_arms(arm: Any, loop: asyncio.Runner) -> None:
    llm, provider = deciding(2)
    player = ArmPlayer(choice_of(llm), arm, loop=loop)
    rows = [player.play(1), player.play(2)]
    heads = [body["messages"][0]["content"] for body in provider.bodies]
    assert (heads[0] == heads[1]) == (arm == "stale")
    assert [row.erratum for row in rows] == [None, None]
    assert errata_in(provider.bodies) == []


def played(make: Callable[[Any], Any], play: Callable[..., RunResult], arm: Arm, turns: int) -> tuple[Any, RunResult]:
    """The token ids of all prompts, and the result, with a reader in place of the weights."""
    model = ReadingModel(tiny_tokenizer())
    choice = Choice("m", lambda _: make(model), len, counts_exactly=True, ttft="engine")
    result = play(choice, arms=[arm], turns=turns)
    return model.prompts, result


@pytest.mark.parametrize("arm", ARMS)
def test_the_requests_are_those_of_the_other_framework(arm: Arm) -> None:
    """Token for token, for the whole script: so one model in one state decides alike."""
    turns = len(TURNS) if arm == "ours" else 4
    theirs, there = played(lambda model: LocalChatModel(local=model), runner.run, arm, turns)
    ours, here = played(lambda model: LocalLLM(local=model), run, arm, turns)
    assert ours == theirs
    assert (here.framework, there.framework) == ("LlamaIndex", "LangChain")
    for one, other in zip(here.rows, there.rows, strict=True):
        assert (one.decision, one.expected, one.reason) == (other.decision, other.expected, other.reason)
        assert (one.changed, one.outside, one.erratum) == (other.changed, other.outside, other.erratum)
        assert (one.prompt_tokens, one.cached_tokens) == (other.prompt_tokens, other.cached_tokens)
    assert here.notices == there.notices
    assert here.head_tokens == there.head_tokens
    assert here.to_json().keys() == there.to_json().keys()


def test_a_server_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with served({"prompt_tokens_details": {"cached_tokens": 3900}}) as (url, handler):
        choice = choose_model(url, models=LlamaIndexModels())
        result = run(choice, turns=3)
        handler.status = 400
        with pytest.raises(ModelError, match=r"the model's API failed: \w+: Error code: 400"):
            run(choice, arms=["ours"], turns=1)
    check_three_turns(result, handler)


def test_an_unknown_tool_again_and_again_is_one_line(loop: asyncio.Runner) -> None:
    llm, _ = openai_llm(script=[[call("sing", str(at))] for at in range(9)], **USAGE)
    with pytest.raises(ModelError, match="turn 1: the model called no tool that the shop has"):
        ArmPlayer(choice_of(llm), "ours", loop=loop).play(1)


def test_hosted_models_are_named_by_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    for spec in ("openai:gpt-4.1", "anthropic:claude-sonnet-4-5"):
        choice = choose_model(spec, models=LlamaIndexModels())
        assert (choice.name, choice.ttft, choice.counts_exactly) == (spec, "stream", False)
        assert choice.for_arm("ours").metadata.is_function_calling_model
    with pytest.raises(ModelError, match=r"cannot use 'mistral:large': with --framework llama_index there are"):
        choose_model("mistral:large", models=LlamaIndexModels())
    with pytest.raises(ModelError, match=r"cannot use 'openai:unheard-of': Unknown model"):
        choose_model("openai:unheard-of", models=LlamaIndexModels())
