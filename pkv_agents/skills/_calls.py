"""At call time: which tool a model means, whether it may be called, and what providers can be told besides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, cast

from ..changes import Change
from ..diff import UNKNOWN, fold
from ..ledger import Epoch, Erratum
from ..messages import Part, ToolCall
from ..paths import parse_path
from ..profiles import Profile
from ..snapshots import Snapshot
from ._arguments import argument_problems
from ._fields import only
from ._tools_state import BRIDGE, Tools

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class CallDecision:
    """What to do with a model's call.

    Attributes:
        call: The call of the tool that is meant, with the id that the model gave; the call itself when it was not a
            call of the bridge.
        refusal: What to answer instead of calling it; None when it may be called.
    """

    call: ToolCall
    refusal: str | None = None


def decide_call(tools: Tools, call: ToolCall) -> CallDecision:
    """Hold a model's call to what is true now.

    A model may call what was switched off since it last read, or by the array's limits and not by today's. The refusal
    is the result to answer with; the array stays as it is.

    Args:
        tools: The conversation's tools (`state.tools`).
        call: What the model wrote.

    Raises:
        SchemaError: `tools` is something else.
    """
    name, arguments = call.name, call.arguments
    if only(Tools, tools).has_bridge and name == BRIDGE.name:
        opened = _opened(call)
        if isinstance(opened, str):
            return CallDecision(call, opened)
        call = opened
        name, arguments = call.name, call.arguments
    specs = tools.specs
    if not tools.is_on(name):
        return CallDecision(call, f"{_short(name)} is switched off at the moment; nothing was done.")
    if name not in specs:
        known = ", ".join(islice(sorted(specs), 20)) or "none"
        return CallDecision(call, f"There is no tool {_short(name)}; nothing was done. There are: {known}.")
    problems = list(islice(argument_problems(specs[name].parameters, arguments), _SHOWN))
    if problems:
        return CallDecision(call, f"{_short(name)} was not called: {'; '.join(problems)}.")
    return CallDecision(call)


def allowed_tools(
    tools: Tools, profile: Profile, *, mode: Literal["auto", "required"] = "auto", responses: bool = False
) -> dict[str, object] | None:
    """The `tool_choice` that keeps a model from calling what is off, where the provider knows such a one.

    Args:
        tools: The conversation's tools.
        profile: The provider.
        mode: Whether a tool must be called.
        responses: The shape of OpenAI's Responses API; otherwise that of its chat API.

    Returns:
        The parameter, or None: nothing is off, or everything; the provider has no such parameter; or a late tool is
        called by its own name, which the parameter could not list, so that it would be shut out.
    """
    names = [tool.name for tool in only(Tools, tools).array if tools.is_on(tool.name)]
    if not profile.allowed_tools or not 0 < len(names) < len(tools.array) or _has_native(tools):
        return None
    if responses:
        return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": name} for name in names]}
    listed = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": listed}}


def _has_native(tools: Tools) -> bool:
    sent = {tool.name for tool in tools.array}
    return any(
        name not in sent and tools.is_on(name) and getattr(change, "call_with", None) == name
        for name, change in tools.changed.items()
    )


def native_tool_blocks(
    epoch: Epoch, erratum: Erratum, *, tools: Tools, profile: Profile, field: str = "tools"
) -> tuple[Part, ...]:
    """The content blocks that say natively what an erratum says of tools.

    They are made of what is recorded, so a later turn replays them byte for byte. They go into the system turn that
    carries the erratum, behind its text.

    Args:
        epoch: The epoch, with the erratum (`TurnPlan.epoch`); of a conversation that has branched, with those errata
            only that this branch was told (`TurnPlan.insertions`).
        erratum: One of its errata.
        tools: The conversation's tools; only the names in its array are asked for.
        profile: The provider.
        field: The path of the `Tools` field in the state.

    Returns:
        Anthropic's `tool_addition` and `tool_removal` blocks, or one `additional_tools` block of OpenAI's Responses
        API; nothing where the profile has no `tool_changes`, or nothing of the kind was said.
    """
    if profile.tool_changes is None:
        return ()
    before = fold(epoch.baseline, _changes_before(epoch, erratum))
    after = fold(before, erratum.changes)
    was, now = _said(before, field), _said(after, field)
    sent = {tool.name for tool in only(Tools, tools).array}
    blocks: list[Part] = []
    added: list[dict[str, object]] = []
    for name, said in now.items():
        old = was.get(name, {})
        if said == old or said.get("call_with", name) != name:
            continue
        is_on, was_on = said.get("status") == "on", old.get("status", "on" if name in sent else "off") == "on"
        shape = _shape(said)
        if is_on and name not in sent and shape != _shape(old):
            added.append(_openai(name, shape))
            blocks.append(_anthropic(name, shape))
            continue
        if is_on != was_on:
            blocks.append(_switched(name, is_on))
    if profile.tool_changes == "additional_tools":
        return ({"type": "additional_tools", "role": "developer", "tools": added},) if added else ()
    return tuple(blocks)


def _changes_before(epoch: Epoch, erratum: Erratum) -> Iterator[Change]:
    for earlier in epoch.errata:
        if earlier == erratum:
            return
        yield from earlier.changes


def _shape(said: Mapping[str, object]) -> tuple[object, object] | None:
    return (said.get("description", ""), said["parameters"]) if "parameters" in said else None


def _switched(name: str, is_on: bool) -> dict[str, object]:
    reference = {"type": "tool_reference", "name": name}
    return {"type": "tool_addition" if is_on else "tool_removal", "tool": reference}


def _anthropic(name: str, shape: tuple[object, object] | None) -> dict[str, object]:
    description, schema = shape or ("", {})
    definition = {"name": name, "description": description, "input_schema": schema}
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}


def _openai(name: str, shape: tuple[object, object] | None) -> dict[str, object]:
    description, schema = shape or ("", {})
    return {"type": "function", "name": name, "description": description, "parameters": schema}


def _said(told: Snapshot, field: str) -> dict[str, dict[str, object]]:
    """What a reader was told of each tool: its status, how it is called, its description and parameters."""
    depth = len(parse_path(field)) + 1
    said: dict[str, dict[str, object]] = {}
    for path, text in told.leaves.items():
        if path.startswith(f"{field}.changed["):
            steps = parse_path(path)
            if text != UNKNOWN and len(steps) > depth + 1:
                said.setdefault(steps[depth].text, {})[steps[-1].text] = json.loads(text)
    return said


def _opened(call: ToolCall) -> ToolCall | str:
    """The call inside a call of the bridge, or what is wrong with it."""
    name, inner = call.arguments.get("name"), call.arguments.get("arguments", {})
    if isinstance(inner, str):  # models write arguments as text, too
        try:
            inner = json.loads(inner)
        except ValueError:
            inner = None
    if not isinstance(name, str) or not isinstance(inner, Mapping):
        return f"{BRIDGE.name} was not called: it takes a tool's name, and its arguments as an object."
    if name == BRIDGE.name:
        return f"{BRIDGE.name} does not call itself; nothing was done."
    return replace(call, name=name, arguments=dict(cast("Mapping[str, object]", inner)))


def _short(name: str) -> str:
    return ascii(name[:60])


__all__ = ["CallDecision", "allowed_tools", "decide_call", "native_tool_blocks"]
