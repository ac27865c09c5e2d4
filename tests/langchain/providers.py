"""Providers over a mock transport, and what their payloads must obey.

The clients are the real ones with a transport that records the bytes of each request, so what a test reads is what
would have gone over the wire.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anthropic
import httpx
import httpx2
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from benchmarks._integration_payload import bare as bare
from benchmarks._integration_payload import marked as marked
from benchmarks._integration_payload import wire_prefix as wire_prefix


@dataclass
class Provider:
    """Records the requests of a provider's client and answers them from a script."""

    answer: Callable[[dict[str, Any], Any], dict[str, Any]]
    script: list[Any] = field(default_factory=list[Any])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def respond(self, content: bytes) -> tuple[int, dict[str, Any]]:
        """Status and JSON of the answer to a request's bytes."""
        body = cast("dict[str, Any]", json.loads(content))
        self.bodies.append(body)
        step = self.script.pop(0) if self.script else "ok"
        if isinstance(step, int):
            return step, {"error": {"type": "server_error", "message": "scripted"}}
        return 200, self.answer(body, step)


def _openai_answer(body: dict[str, Any], step: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if not isinstance(step, str):
        message["tool_calls"] = [
            {
                "id": one["id"],
                "type": "function",
                "function": {"name": one["name"], "arguments": json.dumps(one["args"])},
            }
            for one in step
        ]
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "total_tokens": 105,
        "prompt_tokens_details": {"cached_tokens": 90},
    }
    return {
        "id": "r1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
    }


def _anthropic_answer(body: dict[str, Any], step: Any) -> dict[str, Any]:
    blocks = (
        [{"type": "text", "text": step}]
        if isinstance(step, str)
        else [{"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["args"]} for one in step]
    )
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90},
    }


def openai_model(name: str = "gpt-4.1", script: Sequence[Any] = ()) -> tuple[ChatOpenAI, Provider]:
    """A `ChatOpenAI` over a mock transport, sync and async."""
    provider = Provider(_openai_answer, list(script))

    def handle(request: httpx.Request) -> httpx.Response:
        status, answer = provider.respond(request.content)
        return httpx.Response(status, json=answer)

    transport = httpx.MockTransport(handle)
    model = ChatOpenAI(
        model=name,
        api_key=SecretStr("k"),
        max_retries=0,
        http_client=httpx.Client(transport=transport),
        http_async_client=httpx.AsyncClient(transport=transport),
    )
    return model, provider


def anthropic_model(name: str, script: Sequence[Any] = ()) -> tuple[ChatAnthropic, Provider]:
    """A `ChatAnthropic` over a mock transport, sync and async."""
    provider = Provider(_anthropic_answer, list(script))

    def handle(request: httpx2.Request) -> httpx2.Response:
        status, answer = provider.respond(request.content)
        return httpx2.Response(status, json=answer)

    transport = httpx2.MockTransport(handle)
    model = ChatAnthropic(
        model_name=name, api_key=SecretStr("k"), max_retries=0, max_tokens_to_sample=1024, timeout=None, stop=None
    )
    # The class takes no transport: its lazily made clients are set instead.
    vars(model)["_client"] = anthropic.Client(
        api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport)
    )
    vars(model)["_async_client"] = anthropic.AsyncClient(
        api_key="k", max_retries=0, http_client=httpx2.AsyncClient(transport=transport)
    )
    return model, provider


def assert_legal_for_anthropic(body: dict[str, Any]) -> None:
    """The placement rules for system messages in a conversation, and for tool results.

    A system message stands after a user turn (or its tool results), is never first, never two in a row, never between
    a call and its result, and is last or followed by an assistant turn. Tool results answer the turn before them.
    """
    messages = cast("list[dict[str, Any]]", body["messages"])
    assert messages[0]["role"] == "user"
    for index, message in enumerate(messages):
        before = messages[index - 1] if index else None
        after = messages[index + 1] if index + 1 < len(messages) else None
        if message["role"] == "system":
            assert before is not None and before["role"] == "user", f"system at {index} after {before}"
            assert after is None or after["role"] == "assistant", f"system at {index} before {after}"
        if before is not None and message["role"] != "system":
            spoken = before if before["role"] != "system" else messages[index - 2]
            assert spoken["role"] != message["role"], f"two {message['role']} turns in a row at {index}"
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                assert before is not None and before["role"] == "assistant"
                assert block["tool_use_id"] in {part.get("id") for part in before["content"]}


def assert_append_only(bodies: Sequence[dict[str, Any]]) -> None:
    """I1 on the wire: each request's bytes are a prefix of the next one's."""
    for earlier, later in itertools.pairwise(bodies):
        first, second = wire_prefix(earlier), wire_prefix(later)
        assert second[: len(first)] == first, f"the prefix moved:\n{first}\n{second}"
