"""LocalModel: cached equals cold, forks, sessions, eviction, interruption, threads, tool calls, limits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from pkv_agents.errors import ContextLengthError, GrammarError, TemplateError
from pkv_agents.local import Delta, LocalModel
from pkv_agents.messages import Message
from tests.local.tiny import LATE_RAISES, STRICT, TEMPLATES, tiny_llama, tiny_model, tiny_tokenizer

HEAD = Message("system", "You are a shop agent. customer.tier: gold, orders[K417].status: delivered. " * 4)
CANCEL = {
    "type": "function",
    "function": {
        "name": "cancel_order",
        "description": "Stop an order.",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    },
}


def same(model: LocalModel, history: Sequence[Message], *, session: str | None = None) -> None:
    """The cached turn equals a cold prefill of the same ids."""
    cached, cold = model.logits(history, session=session), model.logits(history, cold=True)
    torch.testing.assert_close(cached, cold, atol=1e-3, rtol=0)
    assert int(cached.argmax()) == int(cold.argmax())


@pytest.mark.parametrize("name", TEMPLATES)
def test_twelve_turns_are_exact_and_only_new_tokens_are_forwarded(name: str) -> None:
    model = tiny_model(TEMPLATES[name])
    history, before = [HEAD, Message("user", "Please cancel the order 0.")], 0
    for turn in range(1, 13):
        same(model, history)
        reply = model.generate(history, max_tokens=6, session="s")
        prompt = model.render_ids(history)
        assert reply.prompt_tokens == len(prompt)
        assert reply.cached_tokens >= before
        before = reply.prompt_tokens
        history += [reply.message, Message("user", f"Thanks, and order {turn}?"), Message("system", f"erratum {turn}")]
        assert model.render_ids(history)[: len(prompt) + len(reply.ids)] == [*prompt, *reply.ids]
    stats = model.cache_stats
    assert stats.cold == 1
    model.check_integrity()


def test_greedy_answers_do_not_depend_on_the_cache() -> None:
    warm, cold = tiny_model(), tiny_model()
    history = [HEAD, Message("user", "one")]
    for turn in range(4):
        cold.clear_cache()
        reply, again = warm.generate(history, max_tokens=12), cold.generate(history, max_tokens=12)
        assert reply.ids == again.ids
        assert again.cached_tokens == 0
        history += [reply.message, Message("user", f"more {turn}")]


def test_forks_interleaved_stay_exact_and_cached() -> None:
    model = tiny_model()
    stem = [HEAD, Message("user", "q")]
    stem.append(model.generate(stem, max_tokens=4).message)
    a, b = [*stem, Message("user", "left")], [*stem, Message("user", "right")]
    floor = len(model.render_ids(stem)) - 8
    for turn in range(3):
        for branch in (a, b):
            same(model, branch)
            reply = model.generate(branch, max_tokens=4)
            assert reply.cached_tokens >= floor
            branch += [reply.message, Message("user", f"next {turn}")]


def test_sessions_share_a_head_without_prefilling_it_again() -> None:
    model = tiny_model()
    model.generate([HEAD, Message("user", "I am Mara")], max_tokens=4, session="mara")
    shared = len(model.render_ids([HEAD]))
    second = [HEAD, Message("user", "You are Tom?")]
    reply = model.generate(second, max_tokens=4, session="tom")
    assert reply.cached_tokens >= shared - 5
    assert model.cache_stats.cold == 1
    same(model, second, session="tom")


def test_a_salt_shares_nothing() -> None:
    model = tiny_model()
    history = [HEAD, Message("user", "q")]
    model.generate(history, max_tokens=2, salt="a")
    assert model.generate(history, max_tokens=2, salt="b").cached_tokens == 0


def test_a_tiny_budget_still_gives_right_answers() -> None:
    small, wide = tiny_model(cache_bytes=120_000), tiny_model()
    talks = [[HEAD, Message("user", f"session {i}")] for i in range(4)]
    for turn in range(3):
        for i, talk in enumerate(talks):
            reply = small.generate(talk, max_tokens=4, session=str(i))
            assert reply.ids == wide.generate(talk, max_tokens=4, session=str(i)).ids
            small.check_integrity()
            talk += [reply.message, Message("user", f"turn {turn}")]
    assert small.cache_stats.evicted > 0
    assert small.cache_stats.bytes <= 120_000


def test_the_whole_prompt_cached_still_forwards_its_last_token() -> None:
    model, history = tiny_model(), [HEAD, Message("user", "q")]
    first = model.generate(history, max_tokens=3)
    again = model.generate(history, max_tokens=3)
    assert (first.cached_tokens, again.cached_tokens) == (0, again.prompt_tokens - 1)
    assert first.ids == again.ids


def test_a_closed_stream_leaves_the_cache_right_and_its_text_remembered() -> None:
    model, history = tiny_model(), [HEAD, Message("user", "q")]
    stream = model.stream(history, max_tokens=40, session="s")
    text = ""
    for event in stream:
        assert isinstance(event, Delta)
        text += event.text
        if len(text) > 6:
            break
    stream.close()
    model.check_integrity()
    history += [Message("assistant", text), Message("user", "go on")]
    prompt = len(model.render_ids(history[:2]))
    same(model, history, session="s")
    assert model.generate(history, max_tokens=2, session="s").cached_tokens > prompt


def test_ctrl_c_in_a_forward_leaves_the_cache_right() -> None:
    llama = tiny_llama()
    model = LocalModel(llama, tiny_tokenizer())
    history = [HEAD, Message("user", "q")]
    model.generate(history, max_tokens=2)
    history.append(Message("user", "again"))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    hook = llama.model.layers[1].register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.generate(history, max_tokens=2)
    hook.remove()
    model.check_integrity()
    same(model, history)
    fresh = LocalModel(llama, tiny_tokenizer())
    assert model.generate(history, max_tokens=8).ids == fresh.generate(history, max_tokens=8).ids


def test_threads_give_what_one_after_the_other_gives() -> None:
    model = tiny_model()
    serial = tiny_model()

    def talk(on: LocalModel, name: str, out: list[tuple[int, ...]]) -> None:
        history = [HEAD, Message("user", f"I am {name}")]
        for turn in range(4):
            reply = on.generate(history, max_tokens=6, session=name)
            out.append(reply.ids)
            history += [reply.message, Message("user", f"turn {turn}")]

    got: dict[str, list[tuple[int, ...]]] = {"mara": [], "tom": [], "ada": []}
    threads = [threading.Thread(target=talk, args=(model, name, out)) for name, out in got.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model.check_integrity()
    for name, out in got.items():
        expected: list[tuple[int, ...]] = []
        talk(serial, name, expected)
        assert out == expected


def test_a_stop_string_is_cut_and_the_next_turn_continues_from_there() -> None:
    model, history = tiny_model(), [HEAD, Message("user", "q")]
    text = model.generate(history, max_tokens=24).text
    stop = text[len(text) // 2 :][:3]
    assert stop
    reply = model.generate(history, max_tokens=24, stop=[stop])
    assert reply.text == text[: text.find(stop)]
    assert reply.finish_reason == "stop"
    history += [reply.message, Message("user", "more")]
    same(model, history)
    prompt = model.render_ids(history[:2])
    assert model.render_ids(history)[: len(prompt) + len(reply.ids)] == [*prompt, *reply.ids]


def test_a_prompt_beyond_the_context_is_refused_before_any_forward() -> None:
    llama = tiny_llama(max_position_embeddings=128)
    model = LocalModel(llama, tiny_tokenizer())
    llama.forward = None  # pyright: ignore[reportAttributeAccessIssue] -- any forward would fail
    history = [Message("user", "x " * 400)]
    size = len(model.render_ids(history))
    with pytest.raises(ContextLengthError, match=rf"{size} tokens.*128"):
        model.generate(history)
    with pytest.raises(ContextLengthError):
        model.logits(history)
    assert model.cache_stats.slabs == 0


def test_an_answer_ends_at_the_context_limit() -> None:
    model = LocalModel(tiny_llama(max_position_embeddings=128), tiny_tokenizer())
    reply = model.generate([Message("user", "x " * 50)], max_tokens=500)
    assert reply.prompt_tokens + reply.output_tokens <= 128
    model.check_integrity()


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"temperature": -1.0}, {"temperature": float("nan")}])
def test_wrong_options_are_the_callers_mistake(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        tiny_model().generate([HEAD], **wrong)  # pyright: ignore[reportArgumentType]


def test_faults_leave_nothing_leased() -> None:
    model = tiny_model(STRICT)
    with pytest.raises(TemplateError, match="alternate"):
        model.generate([Message("assistant", "first")])
    with pytest.raises(GrammarError):
        model.generate([HEAD], response_schema={"type": "strnig"})
    model.check_integrity()
    assert model.cache_stats.slabs == 0


def test_the_profile_carries_the_probed_carrier() -> None:
    assert tiny_model().profile.carrier == "system"
    assert tiny_model(LATE_RAISES).profile.carrier == "user_suffix"


@pytest.mark.embedded
@pytest.mark.slow
def test_the_embedded_model_is_exact_on_its_cache(embedded_model: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(embedded_model, dtype=torch.float32).eval()
    model = LocalModel(loaded, AutoTokenizer.from_pretrained(embedded_model))
    history = [HEAD, Message("user", "Please cancel order K417.")]
    for turn in range(3):
        reply = model.generate(history, tools=[CANCEL], tool_choice="any", max_tokens=40, session="s")
        assert reply.tool_calls
        history += [reply.message, Message("tool", f"done {turn}"), Message("user", f"And order K{turn}?")]
        same(model, history, session="s")
