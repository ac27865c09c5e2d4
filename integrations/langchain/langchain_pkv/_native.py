"""What a provider can be told of tools besides an erratum's text: content blocks, and the tools that may be called."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

from pkv_agents import Part, Profile, Tools, TurnPlan, allowed_tools, native_tool_blocks

_MODES = {None: "auto", "auto": "auto", "required": "required", "any": "required"}


@dataclass(frozen=True, slots=True)
class NativeTools:
    """The tools of a request, for what goes out beside its messages' texts.

    Attributes:
        tools: The state's.
        field: Where the state has them.
        off: Names of tools that another field of the state turns off.
    """

    tools: Tools
    field: str
    off: Collection[str] = ()

    def blocks(self, plan: TurnPlan) -> dict[int, tuple[Part, ...]]:
        """The content blocks of each system turn that carries errata, by how many messages precede it.

        They are made of the ledger, so a later request replays them byte for byte.
        """
        recorded = {(erratum.revision, erratum.text): erratum for erratum in plan.epoch.errata}
        if plan.erratum is not None:
            recorded[plan.erratum.revision, plan.erratum.text] = plan.erratum
        here = [(one, recorded.get((one.revision, one.text))) for one in plan.insertions]
        # The ledger keeps what other branches were told, too; a block is made of what this one knows.
        epoch = replace(plan.epoch, errata=tuple(erratum for _, erratum in here if erratum is not None))
        found: dict[int, tuple[Part, ...]] = {}
        for insertion, erratum in here:
            if erratum is None or insertion.carrier != "system":
                continue
            more = native_tool_blocks(epoch, erratum, tools=self.tools, profile=plan.profile, field=self.field)
            if more:
                found[insertion.after] = (*found.get(insertion.after, ()), *more)
        return found

    def bound(self, options: Mapping[str, Any], profile: Profile, model: BaseChatModel) -> dict[str, Any]:
        """A call's keyword arguments with the array, unless the call brings tools of its own."""
        if "tools" in options or not self.tools.array:
            return {**options}
        binding = cast("Any", model.bind_tools(as_records(self.tools)))
        return self.chosen({**binding.kwargs, **options}, profile, model)

    def chosen(self, options: Mapping[str, Any], profile: Profile, model: object) -> dict[str, Any]:
        """A call's keyword arguments with the tools that may be called, where the provider takes such a choice.

        A choice of the application's own that is more than a mode stays as it is.
        """
        asked = options.get("tool_choice")
        if not options.get("tools") or not (asked is None or isinstance(asked, str)) or asked not in _MODES:
            return {**options}
        responses = _uses_responses(model, options)
        mode = "required" if _MODES[asked] == "required" else "auto"
        choice = allowed_tools(_with_off(self.tools, self.off), profile, mode=mode, responses=responses)
        if choice is None:
            return {**options}
        held = choice if responses else cast("dict[str, Any]", choice["allowed_tools"])
        known = {tool.name for tool in self.tools.array}
        # What stands beside the array (a provider's own tools, the form of a structured answer) is not switched off.
        beside = [entry for name, entry in _entries(options["tools"], responses) if name not in known]
        listed = [*cast("list[object]", held["tools"]), *beside]
        made = {**held, "tools": listed}
        return {**options, "tool_choice": made if responses else {**choice, "allowed_tools": made}}


def as_records(tools: Tools) -> list[dict[str, Any]]:
    """The array as records that every chat model's `bind_tools` takes."""
    return [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": spec.description,
                "parameters": dict(spec.parameters) or {"type": "object", "properties": {}},
            },
        }
        for spec in tools.array
    ]


def _with_off(tools: Tools, off: Collection[str]) -> Tools:
    """The tools without those that another field turns off."""
    gone = {spec.name: {"status": "off"} for spec in tools.array if spec.name in off}
    return Tools.model_validate({"array": tools.array, "changed": {**tools.changed, **gone}}) if gone else tools


def _entries(tools: object, responses: bool) -> list[tuple[str, dict[str, object]]]:
    """Bound tools as entries of a choice, by name."""
    found: list[tuple[str, dict[str, object]]] = []
    for one in cast("Sequence[object]", tools) if isinstance(tools, list) else ():
        record = cast("dict[str, Any]", one) if isinstance(one, dict) else dict[str, Any]()
        inner = cast("dict[str, Any]", record.get("function", record))
        name = str(inner.get("name") or record.get("type") or "")
        if record.get("type") != "function":
            found.append((name, {"type": str(record.get("type"))}))
        elif responses:
            found.append((name, {"type": "function", "name": name}))
        else:
            found.append((name, {"type": "function", "function": {"name": name}}))
    return found


def _uses_responses(model: object, options: Mapping[str, Any]) -> bool:
    """Whether LangChain's OpenAI class sends this call by the Responses API; it decides for each call."""
    decides = getattr(model, "_use_responses_api", None)
    return bool(decides(dict(options))) if callable(decides) else False


def told_in_text(profile: Profile, refused: Collection[str], model: str) -> Profile:
    """The profile without native changes of tools where errata do not go out as system turns."""
    carries = profile.carrier == "system" and model not in refused
    return profile if carries or profile.tool_changes is None else replace(profile, tool_changes=None)
