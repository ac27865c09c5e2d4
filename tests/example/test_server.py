"""`--model http://host/v1`: the whole path over HTTP, against a small server that speaks the OpenAI protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from examples.support_agent.models import choose_model
from examples.support_agent.results import RunResult
from examples.support_agent.runner import run
from pkv_agents import ModelError
from tests.example.readers import read_and_decide


class Handler(BaseHTTPRequestHandler):
    """Serves one model; it reads the request without a mistake and streams a tool call."""

    requests: list[dict[str, Any]]
    details: dict[str, Any] | None
    status = 200

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        pass

    def do_GET(self) -> None:
        self._answer("application/json", json.dumps({"object": "list", "data": [{"id": "reader", "object": "model"}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(body)
        if self.status != 200:
            self._answer("application/json", json.dumps({"error": {"message": "no\nmore"}}))
            return
        question = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
        texts = [m["content"] for m in body["messages"] if m["role"] != "assistant"]
        reason, tool, arguments = read_and_decide(question, texts)
        call = {"name": tool, "arguments": json.dumps(arguments)}
        deltas: list[dict[str, Any]] = [
            {"role": "assistant", "content": ""},
            {"content": reason},
            {"tool_calls": [{"index": 0, "id": f"c{len(self.requests)}", "type": "function", "function": call}]},
        ]
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        usage: dict[str, Any] = {"prompt_tokens": 4000, "completion_tokens": 20, "total_tokens": 4020}
        chunks.append({"choices": [], "usage": usage | (self.details or {})})
        shared = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "reader"}
        lines = [f"data: {json.dumps(shared | chunk)}\n\n" for chunk in chunks]
        self._answer("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))

    def _answer(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(self.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def served(details: dict[str, Any] | None = None) -> Generator[tuple[str, type[Handler]]]:
    handler = type("OneServer", (Handler,), {"requests": [], "details": details})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_server_plays() -> None:
    with served({"prompt_tokens_details": {"cached_tokens": 3900}}) as (url, handler):
        choice = choose_model(url)
        assert choice.name == f"reader at {url}"
        result = run(choice, turns=3)
    check_three_turns(result, handler)


def check_three_turns(result: RunResult, handler: type[Handler]) -> None:
    """What the server's reader decides in the first turns of all arms, whatever the framework."""
    totals = result.totals()
    assert {arm: sums.policy_correct for arm, sums in totals.items()} == {
        "rewrite": 3,
        "rewrite_late": 3,
        "ours": 3,
        "stale": 1,
    }
    assert all(row.reason for row in result.rows)
    assert all(row.ttft_s is not None and 0 < row.ttft_s <= row.total_s for row in result.rows)
    assert totals["ours"].cached_share_after_first == pytest.approx(3900 / 4000)
    assert {request["tool_choice"] for request in handler.requests} == {"required"}
    assert len({json.dumps(request["tools"]) for request in handler.requests}) == 1


def test_a_server_that_reports_no_cache() -> None:
    with served() as (url, _):
        result = run(choose_model(url), arms=["ours"], turns=2)
    assert result.totals()["ours"].cached_share_after_first is None
    assert [row.prompt_tokens for row in result.rows] == [4000, 4000]


def test_a_server_that_refuses_is_one_line() -> None:
    with served() as (url, handler):
        choice = choose_model(url)
        handler.status = 400
        with pytest.raises(ModelError, match=r"the model's API failed: \w+: Error code: 400") as caught:
            run(choice, arms=["ours"], turns=1)
    assert "\n" not in str(caught.value)
