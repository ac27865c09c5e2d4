"""What an answer is: tool calls, schemas, choices, streams, sampling."""

from __future__ import annotations

import json

from pkv_agents.local import Delta, Done
from pkv_agents.messages import Message, ToolCall
from tests.local.test_model import CANCEL, HEAD
from tests.local.tiny import tiny_model, tiny_tokenizer


def test_a_tool_call_round_trip_keeps_the_prefix() -> None:
    model = tiny_model()
    history = [HEAD, Message("user", "cancel K417")]
    reply = model.generate(history, tools=[CANCEL], tool_choice="any", max_tokens=60)
    (call,) = reply.tool_calls
    assert (call.name, reply.finish_reason, reply.text) == ("cancel_order", "tool_calls", "")
    assert set(call.arguments) == {"order_id"}
    prompt = model.render_ids(history, [CANCEL])
    assert "- cancel_order(order_id): Stop an order." in tiny_tokenizer().decode(prompt)
    history += [reply.message, Message("tool", "done", tool_call_id=call.id), Message("user", "and now?")]
    assert model.render_ids(history, [CANCEL])[: len(prompt) + len(reply.ids)] == [*prompt, *reply.ids]
    next_reply = model.generate(history, tools=[CANCEL], tool_choice="none", max_tokens=4)
    assert next_reply.cached_tokens >= len(prompt)
    assert next_reply.tool_calls == ()


def test_a_call_is_not_streamed_as_text() -> None:
    events = list(tiny_model().stream([HEAD], tools=[CANCEL], tool_choice="cancel_order", max_tokens=40))
    assert len(events) == 1
    assert isinstance(events[0], Done)
    assert events[0].reply.tool_calls


def test_a_call_that_the_budget_cuts_off_is_no_call() -> None:
    reply = tiny_model().generate([HEAD], tools=[CANCEL], tool_choice="any", max_tokens=4)
    assert (reply.tool_calls, reply.finish_reason, reply.output_tokens) == ((), "length", 4)


def test_auto_gives_text_or_a_call() -> None:
    reply = tiny_model().generate([HEAD, Message("user", "hi")], tools=[CANCEL], max_tokens=50)
    assert bool(reply.tool_calls) != bool(reply.text)
    assert reply.tool_calls or not reply.text.startswith("{")


def test_a_schema_and_choices_are_kept() -> None:
    model = tiny_model()
    schema = {"type": "object", "properties": {"tier": {"enum": ["gold", "basic"]}}, "required": ["tier"]}
    assert json.loads(model.generate([HEAD], response_schema=schema).text)["tier"] in {"gold", "basic"}
    reply = model.generate([HEAD], choices=["refund", "cancel", "escalate"])
    assert reply.text in {"refund", "cancel", "escalate"}
    assert reply.decision_margin is not None
    assert reply.finish_reason == "stop"


def test_the_stream_is_the_reply() -> None:
    model = tiny_model()
    events = list(model.stream([HEAD, Message("user", "q")], max_tokens=20))
    done = events[-1]
    assert isinstance(done, Done)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == done.reply.text
    assert done.reply.ids == model.generate([HEAD, Message("user", "q")], max_tokens=20).ids


def test_seeds_repeat_and_differ() -> None:
    model, history = tiny_model(), [HEAD, Message("user", "q")]

    def sample(seed: int) -> tuple[int, ...]:
        return model.generate(history, temperature=1.5, seed=seed, max_tokens=16).ids

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1


def test_history_with_foreign_calls_renders() -> None:
    history = [HEAD, Message("user", "q"), Message("assistant", "ok", (ToolCall("t", {"a": 1}), ToolCall("u")))]
    text = tiny_tokenizer().decode(tiny_model().render_ids(history))
    assert 'ok\n{"name":"t","arguments":{"a":1}}\n{"name":"u","arguments":{}}' in text
