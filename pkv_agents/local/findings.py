"""What a probe can find in a chat template: each finding with its consequence, and what becomes of it.

| code | what the template does |
|---|---|
| `late_system_refused` | raises on a system turn behind the first user turn |
| `late_system_dropped` | leaves such a turn out, silently |
| `late_system_hoisted` | moves it to the top |
| `late_system_rewrites` | changes earlier turns when it arrives |
| `late_system_slot` | takes it only behind a user or tool turn and before an answer |
| `system_refused` | raises on a leading system turn, or leaves it out |
| `system_moves` | writes the system text anew beside each newest user turn |
| `system_required` | raises without a leading system turn |
| `default_system` | writes a system text of its own where there is none |
| `users_alternate` | raises on two user turns in a row, or leaves one out |
| `tool_role_refused` | raises on a plain tool turn, or leaves it out |
| `turns_move` | renders earlier turns otherwise once a later one arrives |
| `thoughts_dropped` | drops the thoughts in an answer once a later turn arrives |
| `reasoning_dropped` | does so with thoughts in a field of their own (`reasoning_content`, `thinking`) |
| `thoughts_stripped` | never renders the thoughts in an answer |
| `prompt_rewritten` | asks for an answer with text that it does not write before an answer |
| `answer_marked` | writes marks before an answer that its generation prompt leaves to the model |
| `thinking_switch` | asks otherwise with thinking on and off |
| `no_generation_prompt` | has no generation prompt |
| `tools_move` | writes the tools anew beside each newest turn |
| `tools_in_first_user` | writes the tools into the first user turn |
| `tools_behind_system` | writes the tools behind the system text |
| `tools_ignored` | does not list tools that are passed to it |
| `calls_dropped` | does not render native tool calls |
| `calls_rewritten` | renders a call's arguments in white space or key order of its own |
| `parallel_calls_refused` | raises on an answer with two calls |
| `results_merged` | renders the results of one answer's calls as one turn |
| `contents_trimmed` | strips white space from contents |
| `clock` | writes the date or the time |
| `bos_written` | writes the token that begins a text itself |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pkv_agents.errors import TemplateError

Weight = Literal["prefix", "text", "form"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a chat template does.

    Attributes:
        code: What it does, for programs (see the table above).
        seen: What a probe saw, in a few words around the place.
        weight: `prefix`: the prefix moves; `text`: text is lost or refused; `form`: good to know.
        consequence: What follows for a request.
        engine: What the local engine does about it.
        mend: What the user of a server with this template can do.
        is_mended: In the local engine nothing remains of it.
    """

    code: str
    seen: str
    weight: Weight
    consequence: str
    engine: str
    mend: str
    is_mended: bool

    def explain(self) -> str:
        """The finding in words, four lines at most."""
        mend = f"\n  mend: {self.mend}" if self.mend else ""
        return f"{self.code}: {self.consequence}\n  seen: {self.seen}\n  engine: {self.engine}{mend}"


def finding(code: str, seen: str) -> Finding:
    """The finding with this code.

    Raises:
        TemplateError: There is no such code.
    """
    if code not in _KNOWN:
        raise TemplateError(f"unknown finding {code!r}: it was written by another version; probe the template again")
    return Finding(code, seen, *_KNOWN[code])


class _Text(NamedTuple):
    weight: Weight
    consequence: str
    engine: str
    mend: str = ""
    is_mended: bool = True


_JOINS = "errata join the newest user turn or tool result"
_SUFFIX = "plan with profile_of(verdict), so that errata ride on user turns and tool results"
_FIRST = "the head goes into the first user turn"

_SYSTEM = {
    "late_system_refused": _Text("text", "a request with a late system turn fails", _JOINS, _SUFFIX),
    "late_system_dropped": _Text("text", "the model never sees a late system turn", _JOINS, _SUFFIX),
    "late_system_hoisted": _Text("prefix", "a late system turn rewrites the top of the prompt", _JOINS, _SUFFIX),
    "late_system_rewrites": _Text("prefix", "a late system turn changes what stands before it", _JOINS, _SUFFIX),
    "late_system_slot": _Text(
        "form",
        "a system turn is safe only behind a user turn or a tool result, and before an answer",
        "a system turn elsewhere becomes a user turn",
        "plan with profile_of(verdict)",
    ),
    "system_refused": _Text(
        "text",
        "instructions sent as a system turn are refused or lost",
        _FIRST,
        "send the instructions in the first user message",
    ),
    "system_moves": _Text(
        "prefix",
        "the system text stands beside the newest user turn, so every user turn moves it",
        _FIRST,
        "send the instructions in the first user message",
    ),
    "system_required": _Text(
        "text",
        "a request without a system turn fails",
        "an empty system turn is put first where there is none",
        "always send a system message first",
    ),
    "default_system": _Text(
        "form",
        "a request without a system turn has another head than one with it",
        "a session always has a head of its own",
        "send a system message in every request of a conversation, or in none",
    ),
}
_TURNS = {
    "users_alternate": _Text(
        "text",
        "a request with two user turns in a row is refused or loses one",
        "neighbouring user turns are joined before they are sent",
        "join them yourself; errata already join the newest",
    ),
    "tool_role_refused": _Text(
        "text",
        "a tool result without the template's own form of a call is refused or lost",
        "tool results travel as user turns",
    ),
    "turns_move": _Text(
        "prefix",
        "a new turn changes how earlier ones are rendered, so a request is read again from there",
        "nothing: the cache serves what stands before it",
        "use a chat template that only appends",
        is_mended=False,
    ),
    "thoughts_dropped": _Text(
        "prefix",
        "an answer with thoughts, and all behind it, is read again once",
        "a user's turn is served from the cache with its thoughts; errata ride on tool results meanwhile",
        "never send an erratum as a user message of its own: let it ride on a tool result",
        is_mended=False,
    ),
    "reasoning_dropped": _Text(
        "prefix",
        "an answer that was sent back with its reasoning, and all behind it, is read again once",
        "thoughts are part of an answer's text",
        "never send an erratum as a user message of its own: let it ride on a tool result",
    ),
    "thoughts_stripped": _Text(
        "prefix",
        "an answer with thoughts was generated with them and is rendered without: each is read again once",
        "the answer is read again from its first token; what stands before it is not",
        "none is needed: the cost is one answer a turn",
        is_mended=False,
    ),
    "prompt_rewritten": _Text(
        "prefix",
        "the end of a request is not what the next request has in its place: each answer is read again once",
        "the answer is read again with its first marks; what stands before it is not",
        "keep thinking on or off for a whole conversation, as the template's own switch allows",
        is_mended=False,
    ),
    "answer_marked": _Text(
        "prefix",
        "an answer is what the next request has in its place only if the model wrote those marks just so",
        "an answer without those marks is read again from its first token; what stands before it is not",
        "keep the marks that the model wrote, or complete the generation prompt with them",
        is_mended=False,
    ),
    "thinking_switch": _Text(
        "form",
        "an answer asked for with thinking off may be rendered otherwise from what was asked",
        "the template's options are fixed for an engine and part of the verdict",
        "do not change the switch within a conversation",
    ),
    "no_generation_prompt": _Text(
        "form", "the model is not asked for an answer by a mark of its own", "the request ends behind the newest turn"
    ),
    "contents_trimmed": _Text(
        "form",
        "white space at the ends of a text is lost, so an answer that ends with it is read again",
        "an answer is known by its text without that white space, and its generated ids are fed back",
        "strip texts before they are kept",
    ),
}
_TOOLS = {
    "tools_move": _Text(
        "prefix",
        "the tools stand beside the newest turn, so every turn moves them and what follows is read again",
        "tools are listed in the head, as text",
        "list the tools in the system message yourself, or use a template that lists them first",
    ),
    "tools_in_first_user": _Text(
        "form",
        "trimming the history moves the tools; sessions share them only if all before is equal",
        "tools are listed in the head, as text",
        "keep the first user message when a history is trimmed",
    ),
    "tools_behind_system": _Text(
        "form",
        "sessions share the tools in the cache only if their system texts are equal",
        "tools are listed first in the head, as text",
        "keep what is personal out of the system message, or list the tools in it yourself",
    ),
    "tools_ignored": _Text(
        "text",
        "tools passed to the template do not reach the model",
        "tools are listed in the head, as text",
        "list the tools in the system message",
    ),
    "calls_dropped": _Text(
        "text",
        "the model does not see its own native tool calls again",
        "a call is the assistant's text, in canonical JSON",
        "write calls into the content of the assistant message",
    ),
    "calls_rewritten": _Text(
        "form",
        "a call that the model wrote with other white space or key order is read again from its first difference",
        "a call is written in canonical JSON and fed back by its ids",
    ),
    "parallel_calls_refused": _Text(
        "text",
        "a history with two calls in one answer fails",
        "calls are the assistant's text",
        "turn parallel tool calls off",
    ),
    "results_merged": _Text(
        "form",
        "a request between two results of one answer would be read again from the first",
        "all results of an answer are sent together",
        "send all results of an answer in one request",
    ),
}
_WRITES = {
    "clock": _Text(
        "prefix",
        "the prompt is read again from there whenever the written date or time changes",
        "the template's own date is kept, since it is true; a fixed one is an option",
        "give the template a fixed date and track the date as a Volatile field",
        is_mended=False,
    ),
    "bos_written": _Text(
        "form",
        "tokenising the text with special tokens would write that token twice",
        "text is tokenised without adding tokens",
        "tokenise rendered text with add_special_tokens=False",
    ),
}
_KNOWN: dict[str, _Text] = {**_SYSTEM, **_TURNS, **_TOOLS, **_WRITES}
