"""README's Python runs as it stands, against a server on loopback that answers like OpenAI's."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.guards.repo import ROOT

Body = dict[str, Any]

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 2,
        "total_tokens": 102,
        "prompt_tokens_details": {"cached_tokens": 90},
    },
}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Body]]:
    """What the server was asked, in order."""
    seen: list[Body] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = json.dumps(ANSWER).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{server.server_port}/v1")  # LlamaIndex's name for it
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    yield seen
    server.shutdown()
    thread.join()
    server.server_close()


def snippets() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_snippets_run_and_the_prefix_holds(
    requests: list[Body], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = snippets()
    assert len(code) == 4
    namespace: dict[str, object] = {"__name__": "readme"}
    for snippet in code:
        exec(compile(snippet, "README.md", "exec", dont_inherit=True), namespace)

    assert len(requests) == 6
    for first, second in (requests[:2], requests[2:4], requests[4:]):
        before, after = first["messages"], second["messages"]
        assert '"in the warehouse"' in before[0]["content"]
        assert after[: len(before)] == before
        new = json.dumps(after[len(before) :])
        assert "<state-update id=" in new
        assert "delivered" in new
    assert "orders[K417].status" in capsys.readouterr().out
