"""Finds out what a chat template does, by rendering short conversations and looking at the text.

Templates raise on a late system turn, drop it silently, hoist it into the head, refuse a `tool` role, demand strict
alternation, or rewrite earlier turns once a later one arrives. Each of these is asked for with sentinels.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Protocol

from pkv_agents.errors import TemplateError
from pkv_agents.local.turns import LateSystem, TemplateVerdict, Turn

_TOOL: dict[str, object] = {
    "type": "function",
    "function": {
        "name": "probe_tool_zq",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {}},
    },
}
_SYSTEM, _USER, _ANSWER = Turn("system", "head zq"), Turn("user", "first zq"), Turn("assistant", "answer zq")
_NEXT, _LATE, _RESULT = Turn("user", "second zq"), Turn("system", "late zq"), Turn("tool", "result zq")
_THINKING = Turn("assistant", "<think>\nthought zq\n</think>\n\nanswer zq")
_SECOND_ANSWER = Turn("assistant", "more zq")


class Render(Protocol):
    """Renders turns to text, raising TemplateError when the template refuses them."""

    def __call__(
        self, turns: Sequence[Turn], *, ask: bool = False, tools: Sequence[Mapping[str, object]] | None = None
    ) -> str:
        """The text."""
        ...


def probe(render: Render) -> TemplateVerdict:
    """Renders the probes and returns the verdict.

    Raises:
        TemplateError: If not even one user turn and one answer can be rendered.
    """
    plain = _try(render, [_USER, _ANSWER])
    if plain is None or _ANSWER.content not in plain:
        raise TemplateError("the chat template cannot render one user turn and one answer")
    findings: list[str] = []
    leading = _holds(render, [_SYSTEM, _USER], _SYSTEM)
    if not leading:
        findings.append("a leading system turn is refused: its text goes into the first user turn")
    head = [_SYSTEM, _USER] if leading else [_USER]
    adjacent = _holds(render, [*head, _ANSWER, _NEXT, _USER], _NEXT)
    if not adjacent:
        findings.append("two user turns in a row are refused: they are joined")
    tool_role = _keeps(render, [*head, _ANSWER], _RESULT) and _keeps(render, [*head, _ANSWER, _RESULT], _SECOND_ANSWER)
    if not tool_role:
        findings.append("role tool is refused or dropped: tool results travel as user turns")
    late = _late_system(render, head)
    if late != "kept":
        findings.append(f"a late system turn {_LATE_WORDS[late]}: its text joins the newest user or tool turn")
    moved = _moving(render, head, tool_role=tool_role)
    findings += moved
    listed = _try(render, head, tools=[_TOOL])
    prompt = _generation_prompt(render, head)
    if not prompt:
        findings.append("the template has no generation prompt of its own")
    return TemplateVerdict(
        late_system=late,
        leading_system=leading,
        tool_role=tool_role,
        tools_kwarg=listed is not None and "probe_tool_zq" in listed,
        adjacent_users=adjacent,
        append_only=not moved,
        generation_prompt=prompt,
        turn_end=plain.rpartition(_ANSWER.content)[2],
        findings=tuple(findings),
    )


_LATE_WORDS: dict[LateSystem, str] = {
    "dropped": "is dropped silently",
    "raises": "is refused",
    "rewrites": "changes what stands before it",
}


def _try(render: Render, turns: Sequence[Turn], *, tools: Sequence[Mapping[str, object]] | None = None) -> str | None:
    try:
        return render(turns, tools=tools)
    except TemplateError:
        return None


def _holds(render: Render, turns: Sequence[Turn], wanted: Turn) -> bool:
    text = _try(render, turns)
    return text is not None and wanted.content in text


def _keeps(render: Render, before: Sequence[Turn], added: Turn) -> bool:
    """Whether a turn is accepted, present, and leaves what stands before it alone."""
    old, new = _try(render, before), _try(render, [*before, added])
    return old is not None and new is not None and new.startswith(old) and added.content in new[len(old) :]


def _late_system(render: Render, head: Sequence[Turn]) -> LateSystem:
    """Asks after a user turn and, since history grows, once more with an answer and a user turn behind it."""
    before = [*head, _ANSWER, _NEXT]
    old, new = _try(render, before), _try(render, [*before, _LATE])
    grown = _try(render, [*before, _LATE, _SECOND_ANSWER, _USER])
    if old is None or new is None or grown is None:
        return "raises"
    if _LATE.content not in new or _LATE.content not in grown:
        return "dropped"
    if not new.startswith(old) or not grown.startswith(new):
        return "rewrites"
    return "kept"


def _moving(render: Render, head: Sequence[Turn], *, tool_role: bool) -> list[str]:
    """Sentences for each way in which a later turn changes the rendering of earlier ones."""
    found: list[str] = []
    result = _RESULT if tool_role else Turn("user", _RESULT.content)
    plain = [*head, _ANSWER, result, _SECOND_ANSWER, _NEXT]
    if not _grows(render, plain, len(head)):
        found.append("a new turn changes how earlier turns are rendered: the prefix moves")
    thinking = [*head, _THINKING, result, _SECOND_ANSWER, _NEXT]
    if not found and not _grows(render, thinking, len(head)):
        found.append("thoughts in earlier answers are dropped when a later turn arrives: the prefix moves there")
    return found


def _grows(render: Render, turns: Sequence[Turn], start: int) -> bool:
    texts = [_try(render, turns[:end]) for end in range(start, len(turns) + 1)]
    return all(old is not None and new is not None and new.startswith(old) for old, new in itertools.pairwise(texts))


def _generation_prompt(render: Render, head: Sequence[Turn]) -> str:
    plain, asked = render(head), render(head, ask=True)
    return asked[len(plain) :] if asked.startswith(plain) else ""
