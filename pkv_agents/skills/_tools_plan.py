"""What becomes of a tools array when the tools change: nothing, wherever that can be had.

    a tool is gone, or switched off     its line says so; a call meets the guard
    its description changed             its line says it
    its limits changed                  told with the new schema; the guard holds calls to it
    its parameters changed              the array's form is off, the new one is called through the bridge
    a tool came late                    told with its schema, called natively or through the bridge

Without a native way or a bridge, the last two move the array, which breaks the prefix at its start, and are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from ..errors import ToolError
from ..notices import Notice
from ..paths import join_field, join_key
from ..profiles import Profile
from ..tokens import estimate_tokens
from ..tools import ToolSpec, checked_tool, order_tools, tool_json
from ._arguments import same_shape
from ._fields import only
from ._registry import Patch
from ._sendable import check_sendable, only_specs, sendable_tools
from ._state import OutsideText, SkillText
from ._tools_state import BRIDGE, Status, ToolChange, ToolNote, Tools, ToolSwitch, form, form_of, is_bridge

MANY_TOOLS = 128
"""More than so many are refused by OpenAI's API, and models choose badly long before."""


@dataclass(frozen=True, slots=True)
class ToolsUpdate:
    """What a change of the tools comes to.

    Attributes:
        patch: What to change in the state, for `AgentSession.update`; empty when nothing changed.
        notices: What the user should know.
        moves_array: The tools array is another now, so the prefix breaks at its start.
    """

    patch: Patch
    notices: tuple[Notice, ...] = ()
    moves_array: bool = False


def start_tools(tools: Iterable[ToolSpec], *, bridge: bool = False) -> Tools:
    """The tools of a new conversation, or of a new head: sorted once, and frozen.

    Args:
        tools: The tools, in any order.
        bridge: Put a constant tool into the array that calls late ones, for providers that know no late tools.

    Raises:
        ToolError: Two tools have one name, one has a name that providers do not take, the parameters of one are no JSON
            Schema, or there is something else among them.
    """
    given = [tool for tool in only_specs(tools) if not (bridge and is_bridge(tool))]
    listed = [*([BRIDGE] if bridge else []), *given]
    check_sendable(listed)
    return Tools(array=tuple(map(checked_tool, order_tools((), listed))))


def qualified(tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools, of which those that share a name are called `server__name`.

    Args:
        tools: The tools of all servers. The original name of a renamed one is kept as its `id`.

    Raises:
        ToolError: Two tools of one server share a name.
    """
    listed = order_tools((), tools)
    names = [tool.name for tool in listed]
    made = tuple(tool.of_server(tool.server) if names.count(tool.name) > 1 and tool.server else tool for tool in listed)
    _check_names(made)
    return made


def update_tools(
    tools: Tools,
    now: Iterable[ToolSpec],
    *,
    profile: Profile,
    off: Collection[str] = (),
    field: str = "tools",
    prefix_tokens: int = 0,
) -> ToolsUpdate:
    """Bring a conversation's tools up to what is true now.

    A tool that cannot be sent is left out, with a notice; of several that share a name, all but the first.

    Args:
        tools: What the conversation has (`state.tools`).
        now: All tools that there are now, in any order.
        profile: What the provider knows: late tools are native where it has `tool_changes`.
        off: Names of tools that must not be called now.
        field: The path of the `Tools` field in the state.
        prefix_tokens: How many tokens the last request had, for the cost in notices.

    Raises:
        SchemaError: `tools` is something else.
        ToolError: There is something else than specs in `now`, or than names in `off`.
    """
    switched_off = Tools.names("off", off)
    taken = [BRIDGE.name] if only(Tools, tools).has_bridge else []
    good, refused = sendable_tools((tool for tool in only_specs(now) if not is_bridge(tool)), taken=taken)
    current, notices = {tool.name: tool for tool in good}, list(refused)
    sent = {tool.name: tool for tool in tools.array if not is_bridge(tool)}
    moves = _Moves(tools, profile, prefix_tokens)
    for name in sorted({*sent, *current, *tools.changed}):
        status: Status = "on" if name in current and name not in switched_off else "off"
        moves.decide(name, sent.get(name), current.get(name), status)
    patch = _patch(field, tools, moves.wanted)
    if moves.moved:
        patch[join_field(field, "array")] = [asdict(tool) for tool in _with(tools.array, moves.moved)]
    notices += moves.notices
    if (total := len(sent.keys() | current.keys())) > MANY_TOOLS:
        notices.append(_many(total))
    return ToolsUpdate(patch, tuple(notices), bool(moves.moved))


@dataclass(slots=True)
class _Moves:
    """What is told of each tool, and which must go into the array."""

    tools: Tools
    profile: Profile
    prefix_tokens: int
    wanted: dict[str, ToolChange] = field(default_factory=dict[str, ToolChange])
    moved: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    notices: list[Notice] = field(default_factory=list[Notice])

    def decide(self, name: str, old: ToolSpec | None, new: ToolSpec | None, status: Status) -> None:
        """Decide about one tool: as the array has it, and as it is now."""
        entry: ToolChange | None = None
        if new is not None:
            entry = self._late(new, status) if old is None else self._known(old, new, status)
        if entry is None and (status == "off" or name in self.tools.changed):
            entry = ToolSwitch(status=status)
        if entry is not None:
            self.wanted[name] = entry

    def _late(self, new: ToolSpec, status: Status) -> ToolChange | None:
        if self.profile.tool_changes is not None:
            return form(status, new.name, new)
        if self.tools.has_bridge:
            return form(status, BRIDGE.name, new)
        self.moved[new.name] = new
        self.notices.append(_late(new.name, _anew(self.prefix_tokens)))
        return None

    def _known(self, old: ToolSpec, new: ToolSpec, status: Status) -> ToolChange | None:
        if tool_json(old) == tool_json(replace(new, description=old.description)):
            if old.description == new.description:
                return None
            return ToolNote(status=status, description=_words(new))
        if same_shape(old.parameters, new.parameters):
            return form(status, new.name, new)
        if self.tools.has_bridge:
            cost = f"about {estimate_tokens(tool_json(new))} tokens more; {_anew(self.prefix_tokens)} otherwise"
            self.notices.append(_parameters(new.name, cost, "give the new form a new name"))
            return form(status, BRIDGE.name, new)
        mend = "give the new form a new name, or start_tools(..., bridge=True)"
        self.notices.append(_parameters(new.name, _anew(self.prefix_tokens), mend))
        self.moved[new.name] = new
        return None


def _words(tool: ToolSpec) -> SkillText:
    return OutsideText(text=tool.description) if tool.server else tool.description


def _anew(prefix_tokens: int) -> str:
    return f"about {prefix_tokens} tokens are read anew" if prefix_tokens else "the whole prompt is read anew"


def _check_names(tools: Sequence[ToolSpec]) -> None:
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ToolError(f"two tools have the name {twice[0]!r}, and providers take a name once; see `qualified`")


def _with(array: Sequence[ToolSpec], moved: Mapping[str, ToolSpec]) -> tuple[ToolSpec, ...]:
    """The array with tools replaced at their places, and new ones behind it."""
    kept = [moved.get(tool.name, tool) for tool in array]
    late = [moved[name] for name in sorted(moved) if all(tool.name != name for tool in array)]
    return tuple(map(checked_tool, (*kept, *late)))


def _patch(field: str, tools: Tools, wanted: Mapping[str, ToolChange]) -> Patch:
    def path(name: str) -> str:
        return join_key(join_field(field, "changed"), name)

    gone: Patch = {path(name): {"$remove": True} for name in tools.changed if name not in wanted}
    new = {name: change for name, change in wanted.items() if _differs(tools.changed.get(name), change)}
    return gone | {path(name): change.model_dump(mode="json") for name, change in new.items()}


def _differs(old: ToolChange | None, new: ToolChange) -> bool:
    if old is None or type(old) is not type(new):
        return True
    before, after = form_of(old), form_of(new)
    if before is not None and after is not None:
        fields = {"status", "call_with"}
        return old.model_dump(include=fields) != new.model_dump(include=fields) or tool_json(before) != tool_json(after)
    return old != new


def _late(name: str, cost: str) -> Notice:
    return Notice(
        "tool_late",
        path=name,
        cost=cost,
        mend="start_tools(..., bridge=True) keeps late tools out of the array",
        message="a tool came after the first request, and this provider has no other place for it than the array",
    )


def _parameters(name: str, cost: str, mend: str) -> Notice:
    return Notice(
        "tool_parameters_changed",
        path=name,
        cost=cost,
        mend=mend,
        message="a tool takes other arguments than the array says",
    )


def _many(count: int) -> Notice:
    return Notice(
        "many_tools",
        cost="each request carries them all, and models choose worse among so many",
        mend="offer those that a task needs, as skills that are loaded or as a server's own search",
        message=f"there are {count} tools, and some providers refuse more than {MANY_TOOLS}",
    )


__all__ = ["ToolsUpdate", "qualified", "start_tools", "update_tools"]
