"""The other providers' classes over mock transports: Anthropic, Bedrock Converse, Google GenAI, Ollama."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import anthropic
import boto3  # pyright: ignore[reportMissingTypeStubs]
import httpx
import httpx2
import llama_index.llms.anthropic.utils as anthropic_utils
import ollama
import pytest
from botocore.awsrequest import AWSResponse  # pyright: ignore[reportMissingTypeStubs]
from google import genai
from llama_index.llms.anthropic import Anthropic
from llama_index.llms.bedrock_converse import BedrockConverse  # pyright: ignore[reportMissingTypeStubs]
from llama_index.llms.google_genai import GoogleGenAI
from llama_index.llms.ollama import Ollama  # pyright: ignore[reportMissingTypeStubs]

from llama_index.llms.pkv import _versions
from tests.llama_index.providers import Provider


def _anthropic_message(body: dict[str, Any], step: Any) -> dict[str, Any]:
    blocks = (
        [{"type": "text", "text": step}]
        if isinstance(step, str)
        else [{"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["args"]} for one in step]
    )
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0}
    record = {"id": "m1", "type": "message", "role": "assistant", "model": body["model"]}
    return {**record, "content": blocks, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}


def _anthropic_events(body: dict[str, Any], step: Any, *, whole_usage: bool) -> Iterator[str]:
    whole = _anthropic_message(body, step)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    for at, word in enumerate(step.split(" ")):
        text = word if at == 0 else f" {word}"
        events.append({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": whole["usage"] if whole_usage else {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def anthropic_llm(
    patch: pytest.MonkeyPatch,
    name: str = "claude-opus-4-8",
    script: Sequence[Any] = (),
    *,
    whole_usage: bool = False,
) -> tuple[Anthropic, Provider]:
    """An `Anthropic` over a mock transport, sync and async.

    The package does not work with this client (`_versions` has it, and a test of its own). What breaks is one call of
    a name that became a union of types; with a plain dict in its place the rest is what users have, byte for byte.
    With `whole_usage` a stream's end tells all counts, as the API does, and not the output's alone.
    """
    patch.setattr(_versions, "BROKEN", ())
    patch.setattr(anthropic_utils, "MessageParam", dict)
    provider = Provider(list(script))

    def handle(request: httpx2.Request) -> httpx2.Response:
        body, step = provider.step(request.content)
        if isinstance(step, int):
            return httpx2.Response(step, json={"type": "error", "error": {"type": "api_error", "message": "scripted"}})
        if body.get("stream"):
            headers = {"content-type": "text/event-stream"}
            return httpx2.Response(
                200, text="".join(_anthropic_events(body, step, whole_usage=whole_usage)), headers=headers
            )
        return httpx2.Response(200, json=_anthropic_message(body, step))

    mock = httpx2.MockTransport(handle)
    llm: Any = Anthropic(model=name, api_key="k", max_retries=0, max_tokens=1024)
    llm._client = anthropic.Anthropic(api_key="k", max_retries=0, http_client=httpx2.Client(transport=mock))
    llm._aclient = anthropic.AsyncAnthropic(api_key="k", max_retries=0, http_client=httpx2.AsyncClient(transport=mock))
    return llm, provider


class InThreads(BedrockConverse):
    """Its own asynchronous client, aioboto3's, cannot be answered in place; the requests of both are built alike."""

    async def achat(self, messages: Any, **kwargs: Any) -> Any:
        return self.chat(messages, **kwargs)


def aws_response(url: str, raw: httpx.Response) -> AWSResponse:
    """A response as botocore reads it."""
    response = AWSResponse(url, raw.status_code, {"content-type": "application/json"}, None)
    vars(response)["_content"] = raw.content
    return response


class _Frames:
    """The body of a streamed response as botocore reads it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self, *_: Any) -> Iterator[bytes]:
        yield self._data

    def close(self) -> None:
        pass


def _frame(kind: str, payload: dict[str, Any]) -> bytes:
    """One message of AWS's event stream: lengths, their checksum, headers, payload, the checksum of all."""
    headers = b""
    for name, value in ((":event-type", kind), (":content-type", "application/json"), (":message-type", "event")):
        headers += struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
    data = json.dumps(payload).encode()
    start = struct.pack(">II", 16 + len(headers) + len(data), len(headers))
    frame = start + struct.pack(">I", zlib.crc32(start)) + headers + data
    return frame + struct.pack(">I", zlib.crc32(frame))


def bedrock_llm(
    name: str = "anthropic.claude-sonnet-4-5-20250929-v1:0", script: Sequence[Any] = ()
) -> tuple[BedrockConverse, Provider]:
    """A `BedrockConverse` whose client answers before anything is sent."""
    provider = Provider(list(script))
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "k", "region_name": "us-east-1"}
    client: Any = boto3.client("bedrock-runtime", **keys)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def answer(request: Any, **_: Any) -> AWSResponse:
        _, step = provider.step(request.body)
        if isinstance(step, int):
            return aws_response(request.url, httpx.Response(step, json={"message": "scripted"}))
        content = (
            [{"text": step}]
            if isinstance(step, str)
            else [{"toolUse": {"toolUseId": one["id"], "name": one["name"], "input": one["args"]}} for one in step]
        )
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 105, "cacheReadInputTokens": 90}
        body = {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "end_turn",
            "usage": {**usage, "cacheWriteInputTokens": 0},
            "metrics": {"latencyMs": 1},
        }
        return aws_response(request.url, httpx.Response(200, json=body))

    def stream(request: Any, **_: Any) -> AWSResponse:
        _, step = provider.step(request.body)
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 105, "cacheReadInputTokens": 90}
        events: list[tuple[str, dict[str, Any]]] = [
            ("messageStart", {"role": "assistant"}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": step}}),
            ("messageStop", {"stopReason": "end_turn"}),
            ("metadata", {"usage": {**usage, "cacheWriteInputTokens": 0}, "metrics": {"latencyMs": 1}}),
        ]
        raw: Any = _Frames(b"".join(_frame(kind, payload) for kind, payload in events))
        return AWSResponse(request.url, 200, {"content-type": "application/vnd.amazon.eventstream"}, raw)

    client.meta.events.register("before-send.bedrock-runtime.Converse", answer)
    client.meta.events.register("before-send.bedrock-runtime.ConverseStream", stream)
    options: Any = {"model": name, "client": client, "region_name": "us-east-1", "max_retries": 1}
    return InThreads(**options), provider


def genai_llm(script: Sequence[Any] = ()) -> tuple[GoogleGenAI, Provider]:
    """A `GoogleGenAI` over a mock transport; what is no call in a step goes out as the part that it is."""
    provider = Provider(list(script))

    def handle(request: httpx.Request) -> httpx.Response:
        _, step = provider.step(request.content)
        if isinstance(step, int):
            return httpx.Response(step, json={"error": {"code": step, "message": "scripted", "status": "SCRIPTED"}})
        usage = {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 90,
            "candidatesTokenCount": 5,
            "totalTokenCount": 105,
        }
        parts = (
            [{"text": step}]
            if isinstance(step, str)
            else [
                {"functionCall": {"id": one["id"], "name": one["name"], "args": one["args"]}} if "args" in one else one
                for one in step
            ]
        )
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        if "streamGenerateContent" in str(request.url):
            chunks: list[dict[str, Any]] = [{"candidates": [{**candidate, "finishReason": None}]}]
            chunks.append({"candidates": [{**candidate, "content": {"role": "model", "parts": [{"text": ""}]}}]})
            chunks[-1]["usageMetadata"] = usage
            text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
            return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})
        return httpx.Response(200, json={"candidates": [candidate], "usageMetadata": usage})

    mock = httpx.MockTransport(handle)
    llm: Any = GoogleGenAI(model="gemini-2.5-flash", api_key="k", max_tokens=100, context_window=100_000)
    options: Any = {"client_args": {"transport": mock}, "async_client_args": {"transport": mock}}
    llm._client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(**options))
    return llm, provider


def ollama_llm(script: Sequence[Any] = ()) -> tuple[Ollama, Provider]:
    """An `Ollama` over a mock transport, sync and async."""
    provider = Provider(list(script))

    def handle(request: httpx.Request) -> httpx.Response:
        body, step = provider.step(request.content)
        if isinstance(step, int):
            return httpx.Response(step, json={"error": "scripted"})
        message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else ""}
        if not isinstance(step, str):
            message["tool_calls"] = [{"function": {"name": one["name"], "arguments": one["args"]}} for one in step]
        counts = {"prompt_eval_count": 100, "eval_count": 5}
        if body.get("stream"):
            end = {"model": "mine", "message": {"role": "assistant", "content": ""}, "done": True, **counts}
            lines = ({"model": "mine", "message": message, "done": False}, end)
            return httpx.Response(200, text="".join(f"{json.dumps(line)}\n" for line in lines))
        return httpx.Response(200, json={"model": "mine", "message": message, "done": True, **counts})

    mock = httpx.MockTransport(handle)
    sync, other = ollama.Client(transport=mock), ollama.AsyncClient(transport=mock)
    return Ollama(model="mine", context_window=8192, client=sync, async_client=other), provider
