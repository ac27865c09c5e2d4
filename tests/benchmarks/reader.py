"""A stand-in for the model that really reads: it takes the deciding field's last value in the request, and the rule.

What it decides is what a perfect model would, so it shows what each arm of a case says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Unpack, cast

from benchmarks._cases import Case
from pkv_agents import LOCAL, Message, Profile, ToolCall
from pkv_agents.local import LocalModel, OptionFields, Reply


class Reader:
    """Answers the question of one case.

    Args:
        case: The case.
    """

    profile: Profile = LOCAL

    def __init__(self, case: Case) -> None:
        self.case = case
        self.asked: list[tuple[Message, ...]] = []

    def clear_cache(self) -> None:
        self.asked.clear()

    def render_ids(self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()) -> list[int]:
        return [ord(letter) for message in messages for letter in f"{message.role}\n{message.text}\n"]

    def generate(self, messages: Sequence[Message], **options: Unpack[OptionFields]) -> Reply:
        self.asked.append(tuple(messages))
        rule, question = self.case.world.rules[self.case.question.topic], self.case.question
        tool = rule.tool(told(messages, self.case.path))
        arguments = {"order_id": question.order_id}
        if tool == "change_address":
            arguments["town"] = question.town
        return Reply(
            text=f"{self.case.path}: {json.dumps(told(messages, self.case.path))}",
            tool_calls=(ToolCall(tool, arguments),),
            finish_reason="tool_calls",
            prompt_tokens=len(messages),
            cached_tokens=0,
            output_tokens=1,
            ttft_s=0.1,
            total_s=0.1,
            ids=(),
            decision_margin=float("inf"),
        )


def reader(case: Case) -> LocalModel:
    """A reader where an engine is asked for."""
    return cast("LocalModel", Reader(case))


def told(messages: Sequence[Message], path: str) -> str:
    """The last value that state blocks give a field."""
    text = "\n".join(message.text for message in messages)
    blocks = "\n".join(re.findall(r'^<state(?:-update)? id="\w{4}">\n(.*?)\n</state', text, re.DOTALL | re.MULTILINE))
    return json.loads(re.findall(rf"^{re.escape(path)}: (.*)$", blocks, re.MULTILINE)[-1])
