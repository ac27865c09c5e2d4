"""Finds out what a chat template does, by rendering short conversations and looking at the text.

Templates raise on a late system turn, drop it silently, hoist it into the head, refuse a `tool` role, demand strict
alternation, write the date, or rewrite earlier turns once a later one arrives. Each of these is asked for with
sentinels; nothing is concluded from a template's name or source, but for the names of the variables that it reads.

The first probes say how a conversation must be written for this template (`_Dialect`); the others use that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pkv_agents.errors import TemplateError
from pkv_agents.local.findings import Finding, finding
from pkv_agents.local.looking import (
    ANSWER,
    LATE,
    NEXT,
    SECOND_ANSWER,
    SYSTEM,
    THIRD,
    USER,
    Look,
    around,
    common,
    difference,
    message,
    shown,
)
from pkv_agents.local.probe_tools import tool_findings
from pkv_agents.local.probe_writes import clock_of, thinking_switch, trimmed
from pkv_agents.local.rendering import ChatMessage, Render
from pkv_agents.local.verdict import Form, LateSystem, Reach, TemplateVerdict

_RESULT = message("tool", "result zq")
_THINKING = message("assistant", "<think>\nthought zq\n</think>\n\nanswer zq")
_REASONING = message("assistant", "answer zq", reasoning_content="thought zq", thinking="thought zq")
_FORMS: tuple[tuple[Form, str], ...] = (("tool_suffix", ""), ("system_turn", "system"), ("user_turn", "user"))


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a conversation must be written, so that the template carries it."""

    head: tuple[ChatMessage, ...]
    result: ChatMessage
    required: bool


def probe(
    render: Render,
    *,
    variables: frozenset[str] = frozenset(),
    special_tokens: ChatMessage | None = None,
    options: ChatMessage | None = None,
    key: str = "",
) -> TemplateVerdict:
    """Renders the probes and returns the verdict.

    Args:
        render: The template.
        variables: What it reads and does not set itself.
        special_tokens: The tokens that it may name.
        options: Variables under which it will be used.
        key: Goes into the verdict.

    Raises:
        TemplateError: If not even one user turn and one answer can be rendered.
    """
    look = Look(render, options or {})
    found: list[Finding] = []
    dialect = _dialect(look, found)
    head, plain = dialect.head, look.text([*dialect.head, ANSWER]) or ""
    adjacent = look.has([*head, ANSWER, NEXT, THIRD], NEXT, THIRD)
    if not adjacent:
        found.append(finding("users_alternate", look.fate([*head, ANSWER, NEXT, THIRD], NEXT)))
    late, slot = _late_system(look, dialect, found)
    append_only = _moving(look, dialect, found)
    prompt = _generation_prompt(look, head)
    if not prompt:
        found.append(finding("no_generation_prompt", "nothing is appended when an answer is asked for"))
    _marks(look, head, found)
    trimmed(look, head, found)
    thinking_switch(look, head, variables, found)
    lists_tools = tool_findings(look, head, found)
    clock = clock_of(look, head, variables, found)
    bos = str((special_tokens or {}).get("bos_token") or "")
    if bos and plain.startswith(bos):
        found.append(finding("bos_written", f"the text begins with {shown(bos)}"))
    known = {"messages", "tools", "documents", "add_generation_prompt", "strftime_now", "raise_exception", "namespace"}
    return TemplateVerdict(
        late_system=late,
        leading_system=SYSTEM in head,
        tool_role=dialect.result is _RESULT,
        tools_kwarg=lists_tools,
        adjacent_users=adjacent,
        append_only=append_only,
        system_slot=slot,
        system_required=dialect.required,
        clock=clock,
        generation_prompt=prompt,
        turn_end=plain.rpartition(str(ANSWER["content"]))[2],
        variables=tuple(sorted(variables - known - set(special_tokens or ()))),
        reaches=_reaches(look, dialect),
        findings=tuple(found),
        key=key,
    )


def _dialect(look: Look, found: list[Finding]) -> _Dialect:
    alone, led = look.has([USER, ANSWER], USER, ANSWER), look.has([SYSTEM, USER, ANSWER], USER, ANSWER)
    if not alone and not led:
        raise TemplateError("the chat template cannot render one user turn and one answer")
    head: tuple[ChatMessage, ...] = (SYSTEM, USER)
    if not alone:
        found.append(finding("system_required", look.fate([USER, ANSWER], USER)))
    elif not look.has(head, SYSTEM):
        found.append(finding("system_refused", look.fate(head, SYSTEM)))
        head = (USER,)
    elif (moved := look.first_break([*head, ANSWER, NEXT], ask=False)) and not look.first_break(
        [USER, ANSWER, NEXT], ask=False
    ):
        found.append(finding("system_moves", moved))
        head = (USER,)
    else:
        _default_system(look, found)
    result: ChatMessage = _RESULT
    grown = [*head, ANSWER, _RESULT, SECOND_ANSWER, NEXT]
    if not (look.has(grown[:-2], _RESULT) and look.has(grown, ANSWER, _RESULT, NEXT)):
        found.append(finding("tool_role_refused", look.fate([*head, ANSWER, _RESULT], _RESULT)))
        result = message("user", str(_RESULT["content"]))
    return _Dialect(head, result, required=not alone)


def _default_system(look: Look, found: list[Finding]) -> None:
    """Without a system turn, is there text before the user's that is not there with one?"""
    first = str(USER["content"])
    without = (look.text([USER]) or "").partition(first)[0]
    with_it = (look.text([SYSTEM, USER]) or "").partition(first)[0]
    start = common(without, with_it)
    end = common(without[start:][::-1], with_it[start:][::-1])
    if own := without[start : len(without) - end].strip():
        found.append(finding("default_system", shown(own)))


def _late_system(
    look: Look, dialect: _Dialect, found: list[Finding]
) -> tuple[LateSystem, Literal["anywhere", "before_assistant"]]:
    """Asks behind a user turn and a tool result, with more turns behind it, and last behind an answer."""
    head = list(dialect.head)
    for before in ([*head, ANSWER, NEXT], [*head, ANSWER, dialect.result]):
        fate = _late_at(look, before, before, found)
        if fate != "kept":
            return fate, "anywhere"
    behind_answer = [*head, ANSWER, LATE, NEXT]
    if _late_at(look, head, [*head, ANSWER], []) == "kept" and look.has(behind_answer, LATE, NEXT):
        return "kept", "anywhere"
    found.append(finding("late_system_slot", look.fate(behind_answer, LATE)))
    return "kept", "before_assistant"


def _late_at(look: Look, request: list[ChatMessage], before: list[ChatMessage], found: list[Finding]) -> LateSystem:
    """What a late system turn behind `before` does to an earlier request, and what the next turns do to it."""
    there, text = [*before, LATE], str(LATE["content"])
    later = [*there, SECOND_ANSWER, THIRD]
    old, new, grown = look.text(request), look.text(there), look.text(later)
    if old is None or new is None or grown is None:
        found.append(finding("late_system_refused", look.fate(there if new is None else later, LATE)))
        return "raises"
    if text not in new or text not in grown:
        found.append(finding("late_system_dropped", f"{shown(text)} is not in the text"))
        return "dropped"
    if new.startswith(old) and grown.startswith(new):
        return "kept"
    if new.find(text) < new.find(str(USER["content"])):
        found.append(finding("late_system_hoisted", around(new, text)))
    else:
        found.append(
            finding("late_system_rewrites", difference(*((grown, new) if new.startswith(old) else (old, new))))
        )
    return "rewrites"


def _moving(look: Look, dialect: _Dialect, found: list[Finding]) -> bool:
    """Whether requests only append, with and without thoughts in answers."""
    head, result = dialect.head, dialect.result
    plain = [*head, ANSWER, result, SECOND_ANSWER, NEXT]
    if moved := look.first_break(plain, ask=False):
        found.append(finding("turns_move", moved))
        return False
    if moved := look.first_break(plain, ask=True):
        found.append(finding("prompt_rewritten", moved))
    thinking = look.text([*head, _THINKING])
    if thinking is not None and "thought zq" not in thinking:
        found.append(finding("thoughts_stripped", around(thinking, "answer zq")))
    elif dropped := _dropped(look, dialect, _THINKING):
        found.append(finding("thoughts_dropped", dropped))
        return False
    elif dropped := _dropped(look, dialect, _REASONING):
        found.append(finding("reasoning_dropped", dropped))
    return not moved


def _dropped(look: Look, dialect: _Dialect, thinking: ChatMessage) -> str | None:
    """Where thoughts were and are no more; None if they stay, or never were there."""
    before, result = [*dialect.head, thinking], dialect.result
    steps = _gone(look, before, [result, SECOND_ANSWER]) if result["role"] == "tool" else None
    if steps:
        return f"by any later turn: {steps}"
    users = _gone(look, before, [result, SECOND_ANSWER, NEXT])
    return f"by a later user turn: {users}" if users else None


def _gone(look: Look, before: list[ChatMessage], behind: list[ChatMessage]) -> str | None:
    old, new = look.text(before), look.text([*before, *behind])
    if old is None or new is None or "thought zq" not in old or "thought zq" in new:
        return None
    return difference(old, new)


def _reaches(look: Look, dialect: _Dialect) -> tuple[Reach, ...]:
    """An answer with thoughts called a tool; an erratum comes with or behind the result. What of the prompt stays?"""
    before, answer = [*dialect.head, _THINKING], str(_THINKING["content"])
    rendered, asked = look.text(before) or "", look.text(dialect.head, ask=True) or ""
    if answer in rendered:
        old = rendered.partition(answer)[0] + answer
    else:  # what the cache holds is what was generated, behind what was asked
        old = asked + answer.removeprefix("<think>\n" if asked.endswith("<think>\n") else "")
    result, text = dialect.result, "erratum zq"
    reaches: list[Reach] = []
    for form, role in _FORMS:
        suffixed = message(str(result["role"]), f"{result['content']}\n\n{text}")
        tail = [result, message(role, text)] if role else [suffixed]
        new = look.text([*before, *tail]) or ""
        reaches.append(Reach(form, common(old, new), len(old), text in new))
    # Nothing is rendered again, so nothing can move; only an engine of our own can do that.
    return (*reaches, Reach("raw_ids", len(old), len(old), True))


def _marks(look: Look, head: Sequence[ChatMessage], found: list[Finding]) -> None:
    """Is there more than white space between the generation prompt and an earlier answer?"""
    asked = look.text(head, ask=True) or ""
    before = (look.text([*head, ANSWER, NEXT]) or "").partition(str(ANSWER["content"]))[0]
    if before.startswith(asked) and (marks := before[len(asked) :].strip()):
        found.append(finding("answer_marked", shown(marks)))


def _generation_prompt(look: Look, head: Sequence[ChatMessage]) -> str:
    plain, asked = look.text(head) or "", look.text(head, ask=True) or ""
    return asked[len(plain) :] if asked.startswith(plain) else ""
