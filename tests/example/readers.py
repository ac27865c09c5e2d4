"""Chat models that need no weights: one that reads the request without a mistake, and one that says what it is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from examples.support_agent.models import Choice
from examples.support_agent.policy import field_path, shop_rules
from examples.support_agent.scenario import TURNS

_LINE = re.compile(r'^([a-z]+(?:\[\w+\])?(?:\.\w+)*): (".*")$', re.MULTILINE)


def read_and_decide(question: str, texts: Sequence[str]) -> tuple[str, str, dict[str, Any]]:
    """What decides, tool and arguments: the policy's answer by the values that the texts tell last."""
    turn = next(turn for turn in TURNS if turn.text == question.partition("\n\n")[0])
    rule = shop_rules()[turn.topic]
    told = dict(_LINE.findall("\n".join(texts)))
    path = field_path(rule.field, turn.order_id)
    tool = dict(rule.actions).get(json.loads(told[path]), "escalate_case")
    town = {"town": turn.town} if tool == "change_address" else {}
    return f"{path}: {told[path]}", tool, {"order_id": turn.order_id, **town}


def common_length(one: str, two: str) -> int:
    """How many characters two texts have in common from their beginning."""
    return next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


class PerfectReader(BaseChatModel):
    """Reads the newest value of every field from the request's own text, and applies the shop's policy to it.

    Its cache holds every request that it has seen; a token is four characters of the longest common prefix.
    """

    reports_cache: bool = True
    seen: list[str] = Field(default_factory=list)
    requests: list[list[BaseMessage]] = Field(default_factory=list)
    options: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "perfect-reader"

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Any:
        return self.bind(tool_choice=tool_choice, tool_names=[tool.name for tool in tools], **kwargs)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self.requests.append(list(messages))
        self.options.append(kwargs)
        question = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))
        reason, name, arguments = read_and_decide(question, [m.text for m in messages if not isinstance(m, AIMessage)])
        call = {"name": name, "args": arguments, "id": f"call-{len(self.requests)}", "type": "tool_call"}
        answer = AIMessage(reason, tool_calls=[call], usage_metadata=self._usage(messages))
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _usage(self, messages: list[BaseMessage]) -> UsageMetadata:
        text = "\x00".join(f"{m.type}{m.text}{getattr(m, 'tool_calls', '')}" for m in messages)
        cached = max((common_length(text, old) // 4 for old in self.seen), default=0)
        self.seen.append(text)
        size = len(text) // 4 + 1
        usage = UsageMetadata(input_tokens=size, output_tokens=9, total_tokens=size + 9)
        if self.reports_cache:
            usage["input_token_details"] = InputTokenDetails(cache_read=cached)
        return usage


class Scripted(PerfectReader):
    """Calls what it was given, turn by turn; an exception is raised, an empty list is an answer in words."""

    script: list[Any]

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        step = self.script[len(self.requests)]
        self.requests.append(list(messages))
        if isinstance(step, BaseException):
            raise step
        calls = [
            {"name": name, "args": arguments, "id": f"call-{len(self.requests)}-{n}", "type": "tool_call"}
            for n, (name, arguments) in enumerate(step)
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "Well.", tool_calls=calls))])


def choice_of(make: Callable[[], BaseChatModel], name: str = "a reader") -> Choice:
    """A choice that gives each arm a fresh model."""
    return Choice(name, lambda arm: make(), lambda text: len(text) // 4, counts_exactly=False, ttft="call")
