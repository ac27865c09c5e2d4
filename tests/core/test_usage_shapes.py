"""Usage as each provider, SDK and framework gives it. Payloads are those of public documentation, named at each."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import anthropic.types as claude
import pytest
from anthropic.types.beta import BetaUsage
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import ResponseUsage

from pkv_agents import Usage, normalise_usage

CHAT: dict[str, Any] = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 200},
}
CHAT_USAGE = Usage(86, 1920, None, None, 300, 200)
CLAUDE: dict[str, Any] = {
    "input_tokens": 3,
    "cache_read_input_tokens": 20000,
    "cache_creation_input_tokens": 1500,
    "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 1000},
    "output_tokens": 40,
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
    "service_tier": "standard",
}
CLAUDE_USAGE = Usage(3, 20000, 500, 1000, 40)


def completion(usage: object) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5", "choices": [choice], "usage": usage}


SHAPES: list[tuple[str, object, Usage]] = [
    # platform.openai.com, guide "Prompt caching"
    ("openai chat", CHAT, CHAT_USAGE),
    ("openai chat, a whole response", completion(CHAT), CHAT_USAGE),
    ("openai chat, objects", ChatCompletion.model_validate(completion(CHAT)), CHAT_USAGE),
    (
        "openai from GPT-5.6: writes",
        {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
        Usage(10, 60, 30),
    ),
    (
        "azure: no details",
        {"prompt_tokens": 30, "completion_tokens": 2, "prompt_tokens_details": None},
        Usage(30, output=2),
    ),
    (
        "openai responses, objects",
        ResponseUsage.model_validate(
            {
                "input_tokens": 100,
                "input_tokens_details": {
                    "cached_tokens": 20,
                    "cache_write_tokens": 50,
                    "cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 40},
                },
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 4},
                "total_tokens": 109,
            }
        ),
        Usage(30, 20, 10, 40, 9, 4),
    ),
    # docs.x.ai: reasoning is counted beside the completion, the total has both
    (
        "xai",
        {
            "prompt_tokens": 30,
            "completion_tokens": 2,
            "total_tokens": 39,
            "prompt_tokens_details": {"cached_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        Usage(20, 10, output=9, reasoning=7),
    ),
    # platform.claude.com, "Prompt caching", "Tracking cache performance"
    ("anthropic", CLAUDE, CLAUDE_USAGE),
    ("anthropic, objects", claude.Usage.model_validate(CLAUDE), CLAUDE_USAGE),
    ("anthropic, no cache fields", {"input_tokens": 30, "output_tokens": 2}, Usage(30, output=2)),
    (
        "anthropic, tiers that do not say it all",
        {"input_tokens": 3, "cache_creation_input_tokens": 9, "cache_creation": {"ephemeral_1h_input_tokens": 4}},
        Usage(3, None, 5, 4),
    ),
    (
        "anthropic, thinking",
        {**CLAUDE, "output_tokens_details": {"thinking_tokens": 30}},
        Usage(3, 20000, 500, 1000, 40, 30),
    ),
    # anthropic 2.14, BetaUsage.iterations: a compaction's tokens are not in the totals
    (
        "anthropic, a compaction",
        BetaUsage.model_validate(
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "iterations": [
                    {"type": "compaction", "input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 0,
                     "cache_creation_input_tokens": 0, "cache_creation": None},
                    {"type": "message", "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 0,
                     "cache_creation_input_tokens": 0, "cache_creation": None, "model": "claude-opus-5"},
                ],
            }
        ),
        Usage(110, 0, 0, None, 25, cache_reported_input=100),
    ),
    ("anthropic, message_delta", {"type": "message_delta", "usage": {"output_tokens": 15}}, Usage(output=15)),
    # docs.aws.amazon.com, API_runtime_TokenUsage and API_runtime_CacheDetail
    (
        "bedrock",
        {
            "usage": {
                "inputTokens": 30,
                "outputTokens": 4,
                "totalTokens": 144,
                "cacheReadInputTokens": 80,
                "cacheWriteInputTokens": 30,
                "cacheDetails": [{"ttl": "1h", "inputTokens": 20}, {"ttl": "5m", "inputTokens": 10}],
            }
        },
        Usage(30, 80, 10, 20, 4),
    ),
    ("bedrock stream", {"metadata": {"usage": {"inputTokens": 30, "outputTokens": 4}}}, Usage(30, output=4)),
    # ai.google.dev, UsageMetadata: the prompt includes cached tokens, tools and thoughts come on top
    (
        "gemini",
        {
            "usageMetadata": {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 80,
                "toolUsePromptTokenCount": 7,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 6,
                "totalTokenCount": 118,
            }
        },
        Usage(27, 80, output=11, reasoning=6),
    ),
    (
        "gemini, objects",
        SimpleNamespace(
            usage_metadata=SimpleNamespace(
                prompt_token_count=100,
                cached_content_token_count=None,
                tool_use_prompt_token_count=None,
                candidates_token_count=5,
                thoughts_token_count=None,
            )
        ),
        Usage(100, output=5),
    ),
    # api-docs.deepseek.com, "Context caching"; through the openai SDK the two fields are extras
    (
        "deepseek, objects",
        CompletionUsage.model_validate(
            {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32, "prompt_cache_hit_tokens": 20,
             "prompt_cache_miss_tokens": 10}
        ),
        Usage(10, 20, output=2),
    ),
    ("deepseek without a total", {"prompt_cache_hit_tokens": 20, "prompt_cache_miss_tokens": 10}, Usage(10, 20)),
    # openrouter.ai/docs, "Usage accounting"
    (
        "openrouter",
        {
            "completion_tokens": 2,
            "completion_tokens_details": {"reasoning_tokens": 0},
            "cost": 0.95,
            "cost_details": {"upstream_inference_cost": 19},
            "prompt_tokens": 194,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 100, "audio_tokens": 0},
            "total_tokens": 196,
        },
        Usage(94, 0, 100, None, 2, 0, reported_cost="0.95"),
    ),
    (
        "openrouter with a key of one's own",
        {"prompt_tokens": 1, "cost": 0.05, "is_byok": True, "cost_details": {"upstream_inference_cost": 1.9}},
        Usage(1, reported_cost="1.95"),
    ),
    ("perplexity", {"input_tokens": 1, "cost": {"total_cost": 0.1}}, Usage(1, reported_cost="0.1")),
    # LiteLLM's Usage for Anthropic: inclusive, with Anthropic's names beside
    (
        "litellm",
        {"prompt_tokens": 100, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 15,
         "completion_tokens": 1},
        Usage(5, 80, 15, None, 1),
    ),
    # vLLM 0.32: details only with --enable-prompt-tokens-details
    (
        "vllm",
        {"prompt_tokens": 30, "total_tokens": 31, "completion_tokens": 1, "prompt_tokens_details": None},
        Usage(30, output=1),
    ),
    # SGLang's native endpoint
    (
        "sglang",
        {"text": "x", "meta_info": {"prompt_tokens": 30, "cached_tokens": 20, "completion_tokens": 1}},
        Usage(10, 20, output=1),
    ),
    # llama.cpp's server: older ones have the cache in `timings` only
    (
        "llama.cpp",
        {
            "usage": {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34},
            "timings": {"cache_n": 20, "prompt_n": 10, "predicted_n": 4, "prompt_ms": 1.5},
        },
        Usage(10, 20, output=4),
    ),
    (
        "llama.cpp, native",
        {"content": "x", "timings": {"cache_n": 20, "prompt_n": 10, "predicted_n": 4}},
        Usage(10, 20, output=4),
    ),
    # docs.ollama.com/api/usage
    (
        "ollama",
        {"done": True, "prompt_eval_count": 11, "prompt_eval_cached_count": 8, "eval_count": 18},
        Usage(3, 8, output=18),
    ),
    ("ollama before 0.33", {"prompt_eval_count": 11, "eval_count": 18}, Usage(11, output=18)),
    # LlamaIndex keeps the provider's response in `raw`, and less of it in `additional_kwargs`
    (
        "llama-index",
        ChatResponse(
            message=ChatMessage(role="assistant", content="Yes."),
            raw=ChatCompletion.model_validate(completion(CHAT)),
            additional_kwargs={"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306},
        ),
        CHAT_USAGE,
    ),
    (
        "llama-index, no raw usage",
        ChatResponse(
            message=ChatMessage(role="assistant", content="Yes."),
            raw={"id": "c"},
            additional_kwargs={"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23},
        ),
        Usage(20, output=3),
    ),
    ("usage by model", {"gpt-5": CHAT, "claude": CLAUDE}, CHAT_USAGE + CLAUDE_USAGE),
    # LangChain's add_usage(None, None), and what its adapters make of a missing report
    ("only zeros", {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}, Usage()),
    # What is no count
    ("booleans and texts", {"prompt_tokens": True, "completion_tokens": "7"}, Usage()),
    ("below 0", {"prompt_tokens": -1, "completion_tokens": 7}, Usage(output=7)),
    ("not a number", {"input_tokens": float("nan"), "output_tokens": float("inf")}, Usage()),
    ("a fraction", {"input_tokens": 1.5, "output_tokens": 2.0}, Usage(output=2)),
    ("absurdly large", {"input_tokens": 10**400, "output_tokens": 2}, Usage(output=2)),
    ("parts that contradict the total", {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, Usage(5)),
    ("a mock", MagicMock(), Usage()),
    ("a list", [CHAT], Usage()),
    ("text", "prompt_tokens", Usage()),
    ("a class", Usage, Usage()),
]  # fmt: skip


@pytest.mark.parametrize(("reported", "expected"), [pytest.param(*shape[1:], id=shape[0]) for shape in SHAPES])
def test_a_shape(reported: object, expected: Usage) -> None:
    found = normalise_usage(reported)
    assert found == expected
    assert normalise_usage(found) is found
    assert normalise_usage(json.loads(json.dumps(asdict(found)))) == found


def test_the_last_chunk_of_an_openai_stream() -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5", "choices": [], "usage": CHAT}
    assert normalise_usage(ChatCompletionChunk.model_validate(chunk)) == CHAT_USAGE


def test_reported_estimated_and_not_reported_are_three_things() -> None:
    counted = Usage(10, output=2, estimated_by="o200k_base")
    assert Usage(10).status == "reported" and counted.status == "estimated" and Usage().status == "not reported"
    assert (Usage(1) + counted).status == "estimated" and (Usage() + Usage(0)).status == "reported"
    both = counted + Usage(1, estimated_by="characters / 4")
    assert both.estimated_by == "characters / 4; o200k_base" and (both + both).estimated_by == both.estimated_by
    assert normalise_usage(asdict(both)) == both
