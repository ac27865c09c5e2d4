"""Notices: what a user should know, as data.

The codes of the core:

| code | what happened |
|---|---|
| `rebase_requested` | the caller asked for a new epoch |
| `pinned_changed` | a Pinned field changed, so a new epoch began |
| `instructions_changed` | the instructions changed, so the prefix broke at its start and a new epoch began |
| `field_hidden` | a field that the head showed is Hidden now, so a new epoch began |
| `style_changed` | the style has other markers than the head declares, so a new epoch began |
| `errata_limit` | the errata outgrew the policy, so they were folded into a new baseline |
| `payback` | re-reading the errata had cost as much as a rebase, so they were folded into a new baseline |
| `cache_cold` | the provider's cache had expired, so the errata were folded into a new baseline at no cost |
| `history_rewritten` | the front of the history was trimmed or edited |
| `history_forked` | the history branched off, or was edited further down and errata were lost |
| `history_edited` | the history was edited further down, and no erratum was lost |
| `sliding_window` | the front of the history moves again and again; the head is kept, errata are told at the tail |
| `system_misplaced` | the application put a system message where the provider's profile knows of none |
| `carrier_changed` | an erratum could not be replayed in the form in which it was sent |
| `session_deleted` | the session was deleted in the store meanwhile; everything is told anew |
| `orphan_tool_result` | a tool result without its call was not sent |
| `erratum_waits` | there is no legal place for the erratum in this request |
| `system_refused` | the endpoint refused a system turn behind the head; the other carrier is used from here on |
| `unknown_model` | no profile is known for the model, the cautious one is used |
| `below_minimum` | the prompt is too short for the provider to cache anything of it |
| `markers_dropped` | cache markers of the application were left out: too many, or on a block that takes none |
| `marker_ttl` | a marker's lifetime was shortened: it stood behind a shorter one |
| `markers_beside` | the application asks the provider for a marker too, which was counted together with ours |
| `commit_conflict` | another turn was recorded first; this one is told again on the next |
| `template_moves_prefix` | a model's chat template moves the prefix; `path` is the code of the finding |
| `template_loses_text` | a model's chat template loses or refuses text; `path` is the code of the finding |
| `store_failed` | the session could not be saved; it goes on in memory |
| `skill_long` | a skill is longer than its format advises |
| `skills_changed` | skills came, went or have new texts since the conversation was told of them; the request says so |
| `skills_unreadable` | an application's function that gives the skills failed; those that are known stay |
| `tool_late` | a tool came late and went into the tools array, so the prefix broke at its start |
| `tool_parameters_changed` | a tool takes other arguments than the array says |
| `tool_refused` | a tool was left out: its name, schema or text is none that could be sent, or its name is taken |
| `tools_unreadable` | an application's function that gives tools, or says which are off, failed; what is known stays |
| `tool_unknown` | a tool that there is not is said to be on or off; it is misspelt, or not there yet |
| `kv_approximate` | a local answer rests on keys and values that were composed or edited, as it was asked for |
| `kv_prefilled` | what a local answer should edit was gone or too different, so it is a clean prefill's |
| `many_tools` | there are more tools than some providers take |
"""

from __future__ import annotations

from dataclasses import dataclass

_EVENTS = frozenset({"history_forked", "history_edited", "history_rewritten", "carrier_changed", "skills_changed"})
_ADVICE = frozenset(
    "rebase_requested payback cache_cold below_minimum markers_beside skill_long skills_changed kv_approximate".split()
)


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that a user should know.

    Attributes:
        code: What happened, for programs (see the table above).
        path: The field or block that did it; empty where there is none.
        cost: What it costs, in words with numbers.
        mend: What to do about it.
        message: What happened, for people.
    """

    code: str
    path: str = ""
    cost: str = ""
    mend: str = ""
    message: str = ""

    @property
    def is_event(self) -> bool:
        """Whether it tells of something that happened to one request, and may happen again."""
        return self.code in _EVENTS

    @property
    def is_advice(self) -> bool:
        """Whether it only says what the library did as it was told, or could do better: strict sessions let it pass."""
        return self.code in _ADVICE

    def __str__(self) -> str:
        """One line."""
        subject = f"{self.code} ({self.path})" if self.path else self.code
        parts = (self.message, f"cost: {self.cost}" if self.cost else "", f"mend: {self.mend}" if self.mend else "")
        return ": ".join([subject, "; ".join(part for part in parts if part)])
