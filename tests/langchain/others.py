"""More providers over mock transports; those whose packages are not installed are skipped.

As in `providers`, the clients are the real ones and the bytes of each request are recorded.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.langchain.providers import Provider
from tests.responses_api import responses_answer


def responses_model(name: str = "gpt-4.1", script: Sequence[Any] = (), **options: Any) -> tuple[ChatOpenAI, Provider]:
    """A `ChatOpenAI` that uses the Responses API."""
    provider = Provider(responses_answer, list(script))

    def handle(request: httpx.Request) -> httpx.Response:
        status, answer = provider.respond(request.content)
        return httpx.Response(status, json=answer)

    transport = httpx.MockTransport(handle)
    model = ChatOpenAI(
        model=name,
        api_key=SecretStr("k"),
        max_retries=0,
        use_responses_api=True,
        http_client=httpx.Client(transport=transport),
        http_async_client=httpx.AsyncClient(transport=transport),
        **options,
    )
    return model, provider


def _converse_answer(body: dict[str, Any], step: Any) -> dict[str, Any]:
    content = (
        [{"text": step}]
        if isinstance(step, str)
        else [{"toolUse": {"toolUseId": one["id"], "name": one["name"], "input": one["args"]}} for one in step]
    )
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "end_turn" if isinstance(step, str) else "tool_use",
        "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 105, "cacheReadInputTokens": 90},
        "metrics": {"latencyMs": 1},
    }


def bedrock_model(name: str, script: Sequence[Any] = ()) -> tuple[Any, Provider]:
    """A `ChatBedrockConverse` whose client never sends: what botocore would have sent is answered here."""
    aws = pytest.importorskip("langchain_aws")
    awsrequest = pytest.importorskip("botocore.awsrequest")
    provider = Provider(_converse_answer, list(script))
    model = aws.ChatBedrockConverse(
        model=name,
        region_name="us-east-1",
        aws_access_key_id=SecretStr("k"),
        aws_secret_access_key=SecretStr("s"),
    )

    def before_send(request: Any, **_: Any) -> Any:
        status, answer = provider.respond(request.body)

        class Raw(io.BytesIO):
            def stream(self, **_: Any) -> Any:
                yield self.read()

        headers = {"content-type": "application/json"}
        return awsrequest.AWSResponse(request.url, status, headers, Raw(json.dumps(answer).encode()))

    model.client.meta.events.register("before-send.bedrock-runtime.Converse", before_send)
    return model, provider


def _gemini_answer(body: dict[str, Any], step: Any) -> dict[str, Any]:
    parts = (
        [{"text": step}]
        if isinstance(step, str)
        else [{"functionCall": {"id": one["id"], "name": one["name"], "args": one["args"]}} for one in step]
    )
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 5, "totalTokenCount": 105, "cachedContentTokenCount": 90}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}


def gemini_model(name: str, script: Sequence[Any] = ()) -> tuple[Any, Provider]:
    """A `ChatGoogleGenerativeAI` over a mock transport, sync and async."""
    genai = pytest.importorskip("langchain_google_genai")
    provider = Provider(_gemini_answer, list(script))

    def handle(request: httpx.Request) -> httpx.Response:
        status, answer = provider.respond(request.content)
        return httpx.Response(status, json=answer)

    model = genai.ChatGoogleGenerativeAI(
        model=name,
        google_api_key=SecretStr("k"),
        max_retries=0,
        client_args={"transport": httpx.MockTransport(handle)},
    )
    return model, provider


def _ollama_answer(body: dict[str, Any], step: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else ""}
    if not isinstance(step, str):
        message["tool_calls"] = [{"function": {"name": one["name"], "arguments": one["args"]}} for one in step]
    counts = {"prompt_eval_count": 100, "eval_count": 5, "total_duration": 1, "load_duration": 1}
    return {"model": body["model"], "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True, **counts}


def ollama_model(name: str, script: Sequence[Any] = ()) -> tuple[Any, Provider]:
    """A `ChatOllama` over a mock transport, sync and async."""
    ollama = pytest.importorskip("langchain_ollama")
    provider = Provider(_ollama_answer, list(script))

    def handle(request: httpx.Request) -> httpx.Response:
        status, answer = provider.respond(request.content)
        return httpx.Response(status, content=json.dumps({"done_reason": "stop", **answer}) + "\n")

    return ollama.ChatOllama(model=name, client_kwargs={"transport": httpx.MockTransport(handle)}), provider
