"""The verdict on a chat template: frozen data that explains itself, travels as JSON, and becomes a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, cast

from pkv_agents.errors import TemplateError
from pkv_agents.local.findings import Finding, finding
from pkv_agents.notices import Notice
from pkv_agents.profiles import LOCAL, Profile

PROBE_VERSION = 1
"""Counts up whenever the same template may get another verdict; a stored verdict of another version is not used."""

LateSystem = Literal["kept", "dropped", "raises", "rewrites"]
Form = Literal["tool_suffix", "system_turn", "user_turn", "raw_ids"]
Clock = Literal["", "second", "minute", "hour", "day", "month", "year"]


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of a rendered prompt stays when an erratum follows a tool result in one form.

    Attributes:
        form: At the end of the newest tool result, a system turn, a user turn, or ids behind the generated ids.
        kept: Characters of the earlier prompt that the new one begins with.
        of: Characters of the earlier prompt.
        is_carried: The erratum's text reached the prompt.
    """

    form: Form
    kept: int
    of: int
    is_carried: bool

    @property
    def is_whole(self) -> bool:
        """The erratum arrives and nothing before it moves."""
        return self.is_carried and self.kept == self.of

    def __str__(self) -> str:
        """One line."""
        return f"{self.form}: keeps {self.kept} of {self.of} characters" + ("" if self.is_carried else ", text lost")


@dataclass(frozen=True, slots=True)
class TemplateVerdict:
    """What a chat template does with a conversation, found by rendering probes.

    Attributes:
        late_system: What becomes of a system turn after the first user turn.
        leading_system: A system turn at the start is accepted and stays where it is.
        tool_role: A turn with role `tool` is accepted and kept.
        tools_kwarg: The template lists tools that are passed to it (the engine still lists them itself).
        adjacent_users: Two user turns in a row are accepted; if not they are joined.
        append_only: The text of a request, with its generation prompt, begins the text of the next one, as long as
            messages have only a role and a content (which is how the engine writes them).
        system_slot: Where a late system turn may stand, in the words of `Profile.system_slot`.
        system_required: Without a leading system turn the template raises.
        clock: The finest unit of time that is written into the prompt; empty if none is.
        generation_prompt: What the template appends to ask for an answer.
        turn_end: What it writes behind an assistant's text.
        variables: What the template reads beside messages, tools and special tokens: its options, sorted.
        reaches: How an erratum after a tool result travels, in each form.
        findings: What is not as it might be expected.
        key: Digest of template, special tokens, options and `PROBE_VERSION`; empty if unknown.
    """

    late_system: LateSystem
    leading_system: bool = True
    tool_role: bool = True
    tools_kwarg: bool = False
    adjacent_users: bool = True
    append_only: bool = True
    system_slot: Literal["anywhere", "before_assistant"] = "anywhere"
    system_required: bool = False
    clock: Clock = ""
    generation_prompt: str = ""
    turn_end: str = ""
    variables: tuple[str, ...] = ()
    reaches: tuple[Reach, ...] = ()
    findings: tuple[Finding, ...] = ()
    key: str = ""

    @property
    def carrier(self) -> Literal["system", "user_suffix"]:
        """The form in which an erratum reaches the model through this template."""
        return "system" if self.late_system == "kept" else "user_suffix"

    @property
    def best_reach(self) -> Reach | None:
        """The form that keeps most; among equals the plainest. Raw ids win only where every rendering loses something.

        None if the template was not probed.
        """
        carried = [reach for reach in self.reaches if reach.is_carried]
        return max(carried, key=lambda reach: reach.kept, default=None)  # the first of equals: plainest first

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings, in order."""
        return tuple(found.code for found in self.findings)

    def explain(self) -> str:
        """The verdict in words."""
        lines = [
            f"errata travel as {self.carrier} (late system turns: {self.late_system})",
            f"requests only append: {'yes' if self.append_only else 'no'}",
            *(f"after a tool result, {reach}" for reach in self.reaches),
        ]
        if self.best_reach is not None:
            lines.append(f"best after a tool result: {self.best_reach.form}")
        return "\n".join([*lines, *(found.explain() for found in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data = asdict(self)
        data["variables"] = list(self.variables)
        data["reaches"] = [asdict(reach) for reach in self.reaches]
        data["findings"] = [{"code": found.code, "seen": found.seen} for found in self.findings]
        return {"probe_version": PROBE_VERSION, **data}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TemplateVerdict:
        """A verdict from plain data.

        Args:
            data: What `to_dict` gave.

        Raises:
            TemplateError: The data are of another version of the probe, or no verdict.
        """
        if data.get("probe_version") != PROBE_VERSION:
            raise TemplateError(f"the verdict is not of probe version {PROBE_VERSION}: probe the template again")
        names = {field.name for field in fields(cls)}
        if set(data) != {"probe_version", *names}:
            raise TemplateError("the data are no verdict on a chat template: probe the template again")
        plain = {name: data[name] for name in names}
        try:
            plain["variables"] = tuple(cast("list[str]", data["variables"]))
            plain["reaches"] = tuple(Reach(**reach) for reach in data["reaches"])
            plain["findings"] = tuple(finding(found["code"], found["seen"]) for found in data["findings"])
        except (TypeError, KeyError) as error:
            raise TemplateError("the data are no verdict on a chat template: probe the template again") from error
        return cls(**plain)


def profile_of(verdict: TemplateVerdict, *, base: Profile = LOCAL) -> Profile:
    """The profile by which errata reach a model through this template.

    Args:
        verdict: The verdict on its chat template.
        base: What else is known of the engine or server, as `profile_for("vllm")[0]`.

    Returns:
        The base with the carrier and the slots that the template takes.
    """
    return replace(base, carrier=verdict.carrier, system_slot=verdict.system_slot)


def notices_of(verdict: TemplateVerdict, *, served: bool = False) -> tuple[Notice, ...]:
    """What a user should know about this template.

    Args:
        verdict: The verdict.
        served: A server renders the messages with it, so nothing is mended as the local engine does.

    Returns:
        One notice for each finding by which the prefix moves or text is lost, and which remains.
    """
    return tuple(
        Notice(
            "template_moves_prefix" if found.weight == "prefix" else "template_loses_text",
            path=found.code,
            cost=found.consequence,
            mend=found.mend,
            message=f"the chat template: {found.seen}",
        )
        for found in verdict.findings
        if found.weight != "form" and (served or not found.is_mended)
    )
