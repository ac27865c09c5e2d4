"""Providers over a mock transport, answering whole or in pieces, as the request asks.

The classes and clients are the real ones with a transport that records the bytes of each request, so what a test reads
is what would have gone over the wire.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike  # pyright: ignore[reportMissingTypeStubs]

from tests.responses_api import responses_answer

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 5,
    "total_tokens": 105,
    "prompt_tokens_details": {"cached_tokens": 90},
}


def call(name: str, call_id: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool call of a script."""
    return {"name": name, "id": call_id, "args": arguments}


@dataclass
class Provider:
    """Records requests and answers them from a script.

    A step is a text, a list of tool calls, or the status of an error; or a function of the request's body that returns
    one of them. An empty script answers "ok".
    """

    script: list[Any] = field(default_factory=list[Any])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def step(self, content: bytes) -> tuple[dict[str, Any], Any]:
        """The request and the answer's step."""
        body = cast("dict[str, Any]", json.loads(content))
        self.bodies.append(body)
        step = self.script.pop(0) if self.script else "ok"
        return body, step(body) if callable(step) else step


def transport(
    provider: Provider, whole: Callable[[Any, Any], Any], pieces: Callable[[Any, Any], Iterator[str]]
) -> httpx.MockTransport:
    """A transport that answers as JSON or as server-sent events."""

    def handle(request: httpx.Request) -> httpx.Response:
        body, step = provider.step(request.content)
        if isinstance(step, tuple):
            return httpx.Response(step[0], json={"error": {"type": "invalid_request_error", "message": step[1]}})
        if isinstance(step, int):
            return httpx.Response(step, json={"error": {"type": "server_error", "message": "scripted"}})
        if body.get("stream"):
            text = "".join(pieces(body, step))
            return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})
        return httpx.Response(200, json=whole(body, step))

    return httpx.MockTransport(handle)


def _openai_calls(step: Any) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "id": one["id"],
            "type": "function",
            "function": {"name": one["name"], "arguments": json.dumps(one["args"])},
        }
        for index, one in enumerate(step)
    ]


def _openai_whole(body: dict[str, Any], step: Any) -> dict[str, Any]:
    record = {"id": "r1", "created": 1, "model": body["model"], "usage": USAGE}
    if "prompt" in body:
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "text": step, "logprobs": None}
        return {**record, "object": "text_completion", "choices": [choice]}
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if not isinstance(step, str):
        message["tool_calls"] = _openai_calls(step)
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {**record, "object": "chat.completion", "choices": [choice]}


def _openai_pieces(body: dict[str, Any], step: Any) -> Iterator[str]:
    record = {"id": "r1", "created": 1, "model": body["model"]}

    def event(choices: list[Any], **more: Any) -> str:
        kind = "text_completion" if "prompt" in body else "chat.completion.chunk"
        return f"data: {json.dumps({**record, 'object': kind, 'choices': choices, **more})}\n\n"

    if "prompt" in body:
        for piece in step.split(" "):
            yield event([{"index": 0, "text": piece, "finish_reason": None, "logprobs": None}])
    elif isinstance(step, str):
        for at, piece in enumerate(step.split(" ")):
            delta = {"role": "assistant", "content": piece if at == 0 else f" {piece}"}
            yield event([{"index": 0, "delta": delta, "finish_reason": None}])
    else:
        for one in _openai_calls(step):
            yield event([{"index": 0, "delta": {"role": "assistant", "tool_calls": [one]}, "finish_reason": None}])
    if body.get("stream_options", {}).get("include_usage"):
        yield event([], usage=USAGE)
    yield "data: [DONE]\n\n"


def openai_llm(name: str = "gpt-4.1", script: Sequence[Any] = (), **options: Any) -> tuple[OpenAI, Provider]:
    """An `OpenAI` over a mock transport, sync and async."""
    provider = Provider(list(script))
    return OpenAI(model=name, **_clients(provider), **options), provider


def responses_llm(name: str = "gpt-4.1", script: Sequence[Any] = (), **options: Any) -> tuple[Any, Provider]:
    """An `OpenAIResponses` over a mock transport, sync and async; it answers whole."""
    provider = Provider(list(script))
    given: Any = {"model": name, **_clients(provider, responses_answer), **options}
    return OpenAIResponses(**given), provider


def like_llm(script: Sequence[Any] = (), **options: Any) -> tuple[OpenAILike, Provider]:
    """An `OpenAILike` for a server of one's own."""
    provider = Provider(list(script))
    given: Any = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 8192, **options}
    return OpenAILike(model="mine", api_base="http://127.0.0.1:1/v1", **_clients(provider), **given), provider


def _clients(provider: Provider, whole: Callable[[Any, Any], Any] = _openai_whole) -> dict[str, Any]:
    mock = transport(provider, whole, _openai_pieces)
    return {
        "api_key": "k",
        "max_retries": 0,
        "http_client": httpx.Client(transport=mock),
        "async_http_client": httpx.AsyncClient(transport=mock),
    }


def tool(function: Callable[..., Any], **options: Any) -> FunctionTool:
    """A function as a tool; an asynchronous one too."""
    return FunctionTool.from_defaults(function, **options)
