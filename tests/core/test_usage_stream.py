"""R29: a stream's usage, wherever in the stream it stands, is that of the call and is counted once."""

from __future__ import annotations

from typing import Any

import anthropic.types as claude
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from pkv_agents import Usage, merge_stream_usage, normalise_usage

WHOLE: dict[str, Any] = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 90},
}
USAGE = Usage(10, 90, output=7)
TEXT: dict[str, Any] = {"choices": [{"delta": {"content": "x"}}], "usage": None}
START: dict[str, Any] = {
    "input_tokens": 3,
    "cache_read_input_tokens": 20000,
    "cache_creation_input_tokens": 1500,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1500},
    "output_tokens": 1,
}
CLAUDE = Usage(3, 20000, 0, 1500, 15)


def growing(output: int) -> dict[str, Any]:
    return {"usage": {**WHOLE, "completion_tokens": output, "total_tokens": 100 + output}}


def started() -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": START}}


def delta(**usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "usage": usage}


def part(input_tokens: int, output_tokens: int, **details: int) -> ChatGenerationChunk:
    usage: dict[str, Any] = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    usage["total_tokens"] = input_tokens + output_tokens
    if details:
        usage["input_token_details"] = details
    message = AIMessageChunk(content="x", usage_metadata=usage)  # pyright: ignore[reportArgumentType]
    return ChatGenerationChunk(message=message)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([TEXT, TEXT], Usage(), id="none"),
        pytest.param([{"usage": WHOLE}, TEXT], USAGE, id="first only"),
        pytest.param([TEXT, TEXT, {"usage": WHOLE}], USAGE, id="last only"),
        pytest.param([{"usage": WHOLE}, TEXT, {"usage": WHOLE}], USAGE, id="both"),
        pytest.param([growing(0), growing(3), growing(7)], USAGE, id="each, growing (vLLM, Gemini)"),
        pytest.param([{"usage": {"prompt_tokens": 100}}, {"usage": WHOLE}], USAGE, id="details only at the end"),
        pytest.param(
            [{"usage": WHOLE}, {"usage": {"prompt_tokens": 100, "completion_tokens": 7}}], USAGE, id="only at the start"
        ),
        pytest.param(
            [{"usage": WHOLE}, {"usage": {"prompt_tokens": 120, "completion_tokens": 7}}],
            Usage(120, output=7),
            id="a breakdown that the last total does not fit",
        ),
        # platform.claude.com, "Streaming messages": the delta's counts are cumulative
        pytest.param([started(), delta(output_tokens=15)], CLAUDE, id="anthropic"),
        pytest.param([started(), delta(output_tokens=15, input_tokens=3)], CLAUDE, id="anthropic, input again"),
        pytest.param(
            [
                started(),
                delta(
                    output_tokens=15, input_tokens=3, cache_read_input_tokens=20000, cache_creation_input_tokens=1500
                ),
            ],
            CLAUDE,
            id="anthropic, all again but the ttl",
        ),
        pytest.param(
            [started(), delta(output_tokens=15, input_tokens=10682, cache_read_input_tokens=20000)],
            Usage(10682, 20000, output=15),
            id="anthropic, input grown by a server's tool",
        ),
        pytest.param(
            [{"message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}, delta(output_tokens=15, input_tokens=9)],
            Usage(9, output=15),
            id="anthropic's protocol, input only at the end",
        ),
        # LangChain's chunks are parts (add_usage), but some providers restate
        pytest.param([part(100, 0, cache_read=90), part(0, 7)], USAGE, id="langchain, parts"),
        pytest.param([part(100, 1, cache_read=90), part(0, 2), part(0, 4)], USAGE, id="langchain, many parts"),
        pytest.param([part(100, 0, cache_read=90), part(100, 7, cache_read=90)], USAGE, id="langchain, both"),
        pytest.param([part(100, 0), part(100, 7, cache_read=90)], USAGE, id="langchain, details only at the end"),
        pytest.param([part(0, 5), part(100, 2, cache_read=90)], USAGE, id="langchain, input at the end"),
        pytest.param([part(0, 5), part(100, 7, cache_read=90)], USAGE, id="langchain, all at the end"),
    ],
)  # fmt: skip
def test_r29_a_stream(chunks: list[object], expected: Usage) -> None:
    assert merge_stream_usage(chunks) == expected
    so_far = Usage()
    for chunk in chunks:
        so_far = merge_stream_usage([chunk], so_far=so_far)
    assert so_far == expected


def test_anthropic_events_as_objects() -> None:
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-opus-5",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": START,
    }
    events = [
        claude.RawMessageStartEvent.model_validate({"type": "message_start", "message": message}),
        claude.RawMessageDeltaEvent.model_validate(
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}
        ),
        claude.RawMessageStopEvent(type="message_stop"),
    ]
    assert merge_stream_usage(events) == CLAUDE


COUNTS = st.integers(0, 1000)


@given(st.lists(st.none() | st.text(), max_size=3), COUNTS, COUNTS, COUNTS, st.integers(1, 4))
def test_however_often_a_whole_is_restated_it_counts_once(
    noise: list[object], fresh: int, read: int, output: int, times: int
) -> None:
    whole = {
        "prompt_tokens": fresh + read,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": read},
    }
    chunks = [*noise, *[{"usage": whole}] * times, *noise]
    assert merge_stream_usage(chunks) == normalise_usage(whole)


@given(COUNTS, st.lists(COUNTS, max_size=4))
def test_langchain_parts_add_up(total: int, outputs: list[int]) -> None:
    chunks = [part(total + 1, 0, cache_read=1), *(part(0, output) for output in outputs)]
    assert merge_stream_usage(chunks) == Usage(total, 1, output=sum(outputs))
