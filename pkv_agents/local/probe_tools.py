"""Probes for tools in the template's own forms: where it lists them, how it writes calls and results.

The local engine lists tools and writes calls as plain text, so this concerns servers that render with this template.
"""

from __future__ import annotations

from collections.abc import Sequence

from pkv_agents.local.findings import Finding, finding
from pkv_agents.local.looking import ANSWER, NEXT, SECOND_ANSWER, SYSTEM, USER, Look, around, difference, message
from pkv_agents.local.rendering import ChatMessage

_NAME = "probe_tool_zq"
_TOOLS: tuple[ChatMessage, ...] = (
    {
        "type": "function",
        "function": {
            "name": _NAME,
            "description": "Probe.",
            "parameters": {"type": "object", "properties": {"zqb": {"type": "integer", "description": "Probe."}}},
        },
    },
)
# What a model writes most often, and what json.dumps writes by itself.
_ARGUMENTS: dict[str, object] = {"zqb": 1, "zqa": "é"}
_AS_WRITTEN = ('{"zqb": 1, "zqa": "é"}', '{"zqb":1,"zqa":"é"}')


def tool_findings(look: Look, head: Sequence[ChatMessage], found: list[Finding]) -> bool:
    """Adds what there is to say about tools; returns whether the template lists them."""
    lists_tools = _listed(look, head, found)
    _calls(look, head, found)
    return lists_tools


def _listed(look: Look, head: Sequence[ChatMessage], found: list[Finding]) -> bool:
    text = look.text(head, tools=_TOOLS)
    if text is None or _NAME not in text:
        found.append(finding("tools_ignored", f"{_NAME!r} is not in the text"))
        return False
    grown = [*head, ANSWER, NEXT, SECOND_ANSWER]
    moved = look.first_break([*grown, USER], ask=False, tools=_TOOLS)
    if moved and not look.first_break([*grown, USER], ask=False):
        found.append(finding("tools_move", moved))
        return True
    plain, first = look.text(head) or "", str(USER["content"])
    before, before_plain = text.partition(first)[0], plain.partition(first)[0]
    if SYSTEM not in head:
        return True
    system = str(SYSTEM["content"])
    between, between_plain = before.rpartition(system)[2], before_plain.rpartition(system)[2]
    if between_plain and _NAME in between:
        code = "tools_in_first_user" if between.startswith(between_plain) else "tools_behind_system"
        found.append(finding(code, around(text, _NAME)))
    elif _NAME in text.rpartition(first)[2]:
        found.append(finding("tools_in_first_user", around(text, _NAME)))
    return True


def _call(number: int) -> dict[str, object]:
    # Some templates demand ids of nine letters and digits.
    function = {"name": _NAME, "arguments": _ARGUMENTS}
    return {"id": f"probezq0{number}", "type": "function", "function": function}


def _result(number: int) -> dict[str, object]:
    return message("tool", f"result {number} zq", tool_call_id=f"probezq0{number}", name=_NAME)


def _calls(look: Look, head: Sequence[ChatMessage], found: list[Finding]) -> None:
    one = [*head, message("assistant", "", tool_calls=[_call(1)])]
    text = look.text([*one, _result(1)], tools=_TOOLS)
    plain = look.text([*head, ANSWER, _result(1)], tools=_TOOLS) or look.text(head, tools=_TOOLS) or ""
    if text is None or text.count(_NAME) <= plain.count(_NAME):
        found.append(finding("calls_dropped", look.fate([*one, _result(1)], message("assistant", _NAME))))
        return
    if not any(form in text for form in _AS_WRITTEN):
        found.append(
            finding("calls_rewritten", around(text, "zqb" if text.count("zqb") > plain.count("zqb") else _NAME))
        )
    both = [*head, message("assistant", "", tool_calls=[_call(1), _call(2)])]
    first, second = (
        look.text([*both, _result(1)], tools=_TOOLS),
        look.text([*both, _result(1), _result(2)], tools=_TOOLS),
    )
    if first is None or second is None:
        found.append(finding("parallel_calls_refused", look.fate([*both, _result(1), _result(2)], _result(2))))
    elif not second.startswith(first):
        found.append(finding("results_merged", difference(first, second)))
