"""OpenAI's Responses API as the mock transports of both frameworks' tests answer it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4


def responses_answer(body: dict[str, Any], step: Any) -> dict[str, Any]:
    """An answer of OpenAI's Responses API; each has an id that no other one has in any process."""
    number = uuid4().hex
    if isinstance(step, str):
        text = {"type": "output_text", "text": step, "annotations": []}
        output = [
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
        ]
    else:
        output = [
            {
                "type": "function_call",
                "id": f"fc_{one['id']}",
                "call_id": one["id"],
                "name": one["name"],
                "arguments": json.dumps(one["args"]),
                "status": "completed",
            }
            for one in step
        ]
    usage = {
        "input_tokens": 100,
        "output_tokens": 5,
        "total_tokens": 105,
        "input_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": output,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
