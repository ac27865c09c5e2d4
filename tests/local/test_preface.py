"""A line of text before a call that must come: valid within any budget that holds one, kept in the history."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pkv_agents.local import Delta, Done, LocalModel
from pkv_agents.local.turns import assistant_text
from pkv_agents.messages import Message
from tests.local.test_model import CANCEL, HEAD
from tests.local.tiny import tiny_llama, tiny_model, tiny_tokenizer

ASKED = [HEAD, Message("user", "Please cancel order K417.")]


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return tiny_model()


@settings(max_examples=15, deadline=None)
@given(limit=st.integers(1, 60), seed=st.integers(0, 99), budget=st.integers(90, 220))
def test_a_random_model_writes_one_line_and_a_valid_call(limit: int, seed: int, budget: int) -> None:
    model = tiny_model()
    options: Any = {"tools": [CANCEL], "tool_choice": "any", "temperature": 1.0, "seed": seed, "max_tokens": budget}
    reply = model.generate(ASKED, preface=limit, **options)
    assert reply.finish_reason == "tool_calls"
    assert 0 < len(reply.text) <= limit
    assert "\n" not in reply.text
    assert reply.tool_calls[0].name == "cancel_order"
    assert isinstance(reply.tool_calls[0].arguments["order_id"], str)


def test_the_line_and_the_call_are_the_turn_that_is_replayed(model: LocalModel) -> None:
    reply = model.generate(ASKED, tools=[CANCEL], tool_choice="cancel_order", preface=40, max_tokens=160)
    prompt = model.render_ids(ASKED, [CANCEL])
    text, _, call = assistant_text(reply.message).partition("\n")
    assert text == reply.text
    assert call.startswith('{"name":"cancel_order","arguments":{"order_id":"')
    later = [*ASKED, reply.message, Message("tool", "done", tool_call_id=reply.tool_calls[0].id)]
    assert model.render_ids(later, [CANCEL])[: len(prompt) + len(reply.ids)] == [*prompt, *reply.ids]


def test_a_stream_hands_out_the_line_and_not_the_call(model: LocalModel) -> None:
    events = list(model.stream(ASKED, tools=[CANCEL], tool_choice="any", preface=40, max_tokens=160))
    done = events[-1]
    assert isinstance(done, Done)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == done.reply.text


def test_auto_and_no_tools_know_no_preface(model: LocalModel) -> None:
    for choice, tools in (("auto", [CANCEL]), ("none", [CANCEL]), ("auto", [])):
        with_line: Any = {"tools": tools, "tool_choice": choice, "max_tokens": 20}
        plain, noted = model.generate(ASKED, **with_line), model.generate(ASKED, preface=40, **with_line)
        assert plain.ids == noted.ids
        assert plain.text == noted.text


def test_a_negative_length_is_refused(model: LocalModel) -> None:
    with pytest.raises(ValueError, match="preface is -1"):
        model.generate(ASKED, tools=[CANCEL], tool_choice="any", preface=-1)


def test_the_margin_is_taken_where_the_tool_is_chosen() -> None:
    llama, tokenizer = tiny_llama(), tiny_tokenizer()
    model = LocalModel(llama, tokenizer)
    names = ("cancel_order", "hold_order", "open_return")
    function: Any = CANCEL["function"]
    tools = [{**CANCEL, "function": {**function, "name": name}} for name in names]
    reply = model.generate(ASKED, tools=tools, tool_choice="any", preface=20, max_tokens=160)
    openings = [tokenizer.encode(f'{{"name":"{name}"', add_special_tokens=False) for name in names]
    shared = next(at for at, column in enumerate(zip(*openings, strict=False)) if len(set(column)) > 1)
    written = list(reply.ids)
    start = next(at for at in range(len(written)) if written[at : at + shared] == openings[0][:shared])
    ids = torch.tensor([[*model.render_ids(ASKED, tools), *written[: start + shared]]])
    with torch.no_grad():
        scores = llama(ids).logits[0, -1, [opening[shared] for opening in openings]].sort(descending=True).values
    assert reply.decision_margin == pytest.approx(float(scores[0] - scores[1]), abs=1e-3)
