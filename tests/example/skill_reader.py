"""Models without weights that read the skills in a request's own text, and so show what each request says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from examples.support_agent.policy import Rule, field_path, rules_of
from examples.support_agent.scenario import TURNS
from tests.example.readers import PerfectReader

_STANDING = re.compile(r'<text path="skills\.active\[([\w-]+)\]">\n(.*?)\n</text>', re.DOTALL)
_TOLD = re.compile(r"^skills\.active\[([\w-]+)\]: (.*)$", re.MULTILINE)
_EDIT = re.compile(r'replace "((?:[^"\\]|\\.)*)" with "((?:[^"\\]|\\.)*)"')
_FIELD = re.compile(r'^([a-z]+(?:\[\w+\])?(?:\.\w+)*): (".*")$', re.MULTILINE)


def rules_told(texts: Sequence[str]) -> Mapping[str, Rule]:
    """The rules that a reader knows who takes in some texts, one after the other."""
    skills: dict[str, str] = {}
    for text in texts:
        skills |= dict(_STANDING.findall(text))
        for name, value in _TOLD.findall(text):
            if value == "removed":
                del skills[name]
            elif value.startswith('"'):
                skills[name] = json.loads(value)
            else:
                for was, now in _EDIT.findall(value):
                    was, now = json.loads(f'"{was}"'), json.loads(f'"{now}"')
                    assert skills[name].count(was) == 1
                    skills[name] = skills[name].replace(was, now)
    return {topic: rule for text in skills.values() for topic, rule in rules_of(text).items()}


def fields_told(texts: Sequence[str]) -> Mapping[str, str]:
    """The values, as JSON texts, that a reader knows who takes in some texts, one after the other."""
    return dict(_FIELD.findall("\n".join(texts)))


def decide_by_text(question: str, texts: Sequence[str]) -> tuple[str, str, dict[str, Any]]:
    """What decides, tool and arguments, by the rules and values that the texts tell last."""
    turn = next(turn for turn in TURNS if turn.text == question.partition("\n\n")[0])
    rule = rules_told(texts).get(turn.topic)
    if rule is None:
        return "no rule", "escalate_case", {"order_id": turn.order_id}
    told = fields_told(texts)
    path = field_path(rule.field, turn.order_id)
    tool = dict(rule.actions).get(json.loads(told[path]), "escalate_case")
    town = {"town": turn.town} if tool == "change_address" else {}
    return f"{path}: {told[path]}", tool, {"order_id": turn.order_id, **town}


class SkillReader(PerfectReader):
    """Reads skills and values from the request's own text."""

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self.requests.append(list(messages))
        self.options.append(kwargs)
        question = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))
        texts = [m.text for m in messages if not isinstance(m, AIMessage)]
        reason, name, arguments = decide_by_text(question, texts)
        call = {"name": name, "args": arguments, "id": f"call-{len(self.requests)}", "type": "tool_call"}
        answer = AIMessage(reason, tool_calls=[call], usage_metadata=self._usage(messages))
        return ChatResult(generations=[ChatGeneration(message=answer)])
