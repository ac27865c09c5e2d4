"""The adapter is trained on the very tokens that the library sends: a row equals the conversation through the agent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.support_agent.arms import POLICY, Arm
from examples.support_agent.models import Choice
from examples.support_agent.policy import Request, decide, shop_rules, shop_sections
from examples.support_agent.runner import ArmPlayer
from examples.support_agent.scenario import TURNS, initial_state
from examples.support_agent.tools import EFFECTS
from examples.support_agent.training.rows import Head, Row, RowMaker, RowPlan
from examples.support_agent.vocabulary import TOOL_DOCS
from examples.support_agent.worlds import Size, World, draw_world
from langchain_pkv import LocalChatModel
from pkv_agents import AgentSession, Message, ToolCall, apply_patch, render_baseline, snapshot, wire
from tests.example.reading_engine import ReadingModel
from tests.local.tiny import tiny_tokenizer

SEED = 7
DOCS = {doc.name: doc for doc in TOOL_DOCS}


@pytest.fixture(params=["tiny", pytest.param("embedded", marks=pytest.mark.embedded)])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    if request.param == "tiny":
        return tiny_tokenizer()
    from transformers import AutoTokenizer

    folder: Path = request.getfixturevalue("embedded_model")
    return AutoTokenizer.from_pretrained(folder)


def sent_by(arm: Arm, tokenizer: Any, turns: int) -> list[tuple[int, ...]]:
    """The prompts of the agent."""
    model = ReadingModel(tokenizer)
    rng = random.Random(SEED)
    tag = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(4))  # what a row maker draws first
    choice = Choice("m", lambda _: LocalChatModel(local=model), len, counts_exactly=True, ttft="engine")
    player = ArmPlayer(choice, arm, tag=tag)
    for number in range(1, turns + 1):
        assert player.play(number).policy_correct
    return model.prompts


def row_of(requests: Sequence[Request], tokenizer: Any, head: Head) -> Row:
    world = World(POLICY, shop_rules(), initial_state(), tuple(requests))
    return RowMaker(tokenizer, random.Random(SEED)).row(world, RowPlan(Size(), head))


def the_script() -> list[Request]:
    """The scripted turns; what the tools of one turn did is among the changes before the next."""
    shop, done = initial_state(), dict[str, str]()
    requests: list[Request] = []
    for turn in TURNS:
        requests.append(Request({**done, **turn.outside}, turn.topic, turn.order_id, turn.text, turn.town))
        shop = apply_patch(shop, requests[-1].patch)
        done = EFFECTS[decide(shop_rules(), shop, requests[-1])[0]](shop, turn.order_id)
    return requests


def test_a_row_with_errata_is_what_our_arm_sends(tokenizer: Any) -> None:
    row = row_of(the_script(), tokenizer, "errata")
    prompts = sent_by("ours", tokenizer, len(TURNS))
    assert len(prompts) == len(TURNS)
    for prompt in prompts:  # each but the first holds all answers before it
        assert prompt == row.ids[: len(prompt)]
    rest = tokenizer.decode(row.ids[len(prompts[-1]) : row.trunk])
    assert rest.startswith(
        'account.standing: "restricted"\n{"name":"decline_request","arguments":{"order_id":"M802"}}<'
    )


@pytest.mark.parametrize(("arm", "head"), [("rewrite_late", "end"), ("rewrite", "top")])
def test_a_row_with_a_rewritten_head_is_what_the_other_arms_send(tokenizer: Any, arm: Arm, head: Head) -> None:
    """A row has one head, the agent one a turn: compared on the first turn, the only one of this row."""
    row = row_of(the_script()[:1], tokenizer, head)
    (prompt,) = sent_by(arm, tokenizer, 1)
    assert prompt == row.ids[: len(prompt)]


@pytest.mark.parametrize("before", [False, True])
def test_a_row_without_lines_before_the_calls_is_what_a_session_sends(tokenizer: Any, before: bool) -> None:
    """A session has the state behind the policy; where the row has it before, the head's text is swapped."""
    world = draw_world(random.Random(SEED), Size(topics=1, orders=2, prose=0.0, turns=3, changes=(0.0, 1.0)))
    policy = world.policy.removeprefix(shop_sections()[0]).strip()
    world = replace(world, policy=policy)
    plan = RowPlan(Size(), tools=False, at_once=True, before=before)
    row = RowMaker(tokenizer, random.Random(SEED)).row(world, plan)

    rng, model = random.Random(SEED), ReadingModel(tokenizer)
    tag = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(4))
    session = AgentSession(
        world.shop.model_copy(deep=True), key="k", instructions=policy, profile=model.profile, tag=tag
    )
    shop, history = world.shop, list[Message]()
    for number, request in enumerate(world.requests):
        shop = apply_patch(shop, request.patch)
        session.update(request.patch)
        history.append(Message("user", request.text))
        sent = session.plan(history)
        asked = wire(sent, history)
        session.commit(sent)
        state = render_baseline(snapshot(world.shop), tag=tag)
        assert asked[0].text == f"{policy}\n\n{state}"
        head = Message("system", f"{state}\n\n{policy}" if before else asked[0].text)
        ids = model.render_ids([head, *asked[1:]])
        assert tuple(ids) == row.ids[: len(ids)]
        tool, arguments = world.answer(shop, request)
        call = ToolCall(tool, arguments, id=f"c{number}")
        reply = DOCS[tool].reply.format(**arguments)
        history += [Message("assistant", "", (call,)), Message("tool", reply, tool_call_id=call.id)]
    assert len(history) == 9
