"""What is done with the state before a model call and before a tool call: its skills and tools are kept up.

What comes of it is a patch. It is planned with the state that it makes, and written with the model's answer: a call
that fails leaves the thread as it was, and the next one finds the same patch, or another where more has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from langchain_pkv._home import NOTHING, Home, Patch
from langchain_pkv._native import NativeTools, as_records
from langchain_pkv._offers import Offer
from langchain_pkv._skills import SkillDesk
from langchain_pkv._switches import answer_if_off, name_of, names_off
from langchain_pkv._tools import ToolShelf, not_now
from pkv_agents import Notice, Profile, ToolError, Tools, ToolSpec, TrackedState, TurnPlan


@dataclass(frozen=True, slots=True)
class Kept:
    """The state of a model call, and what the call's success is to change.

    Attributes:
        state: What is planned with.
        patch: What is to be written to the graph; empty where the application owns the state.
        notices: What there is to say.
        moves_tools: The tools array is another than before.
        native: The tools, for what goes out beside the texts; None where the state has none.
        tools: The request's tools; None: as they are.
        offer: What tools there are.
    """

    state: TrackedState
    patch: Patch
    notices: tuple[Notice, ...] = ()
    moves_tools: bool = False
    native: NativeTools | None = None
    tools: list[Any] | None = None
    offer: Offer | None = None


class Upkeep:
    """Keeps up the states of an agent's threads.

    Args:
        home: Where they are.
        skills: Answers for the skills, or None.
        shelf: Keeps the tools, or None.
        tools_on: The field that turns tools on and off, or None.
    """

    def __init__(self, home: Home, skills: SkillDesk | None, shelf: ToolShelf | None, tools_on: str | None) -> None:
        self._home = home
        self._skills = skills
        self._shelf = shelf
        self._tools_on = tools_on
        brought = [*(skills.tools() if skills else ()), *(shelf.tools() if shelf else ())]
        self._ours = {one.name: one for one in brought}
        self._seen: set[str] = set()

    def tools(self) -> list[BaseTool]:
        """The tools that the agent gets besides its own."""
        return list(self._ours.values())

    def before_model(
        self, values: Mapping[str, Any], runtime: Any, given: Sequence[object], profile: Profile, *, begins: bool
    ) -> Kept:
        """The state for a model call.

        Args:
            values: The graph's state.
            runtime: LangGraph's `Runtime`.
            given: The request's tools.
            profile: What the provider allows.
            begins: Nothing was sent in this thread, so what is wrong with its tools is an error.

        Raises:
            SkillError: The pinned skills of a thread that begins are more than the budget.
            ToolError: A thread that begins has tools that cannot be sent.
        """
        state = self._home.read(values, runtime)
        patch, notices = self._skills.news(state, runtime, begins=begins) if self._skills else (NOTHING, ())
        mended, clashes = self._with_ours(given, begins)
        notices = (*notices, *clashes)
        if self._shelf is None:
            kept = self._kept(state, patch, runtime, (*notices, *self._unknown(state, mended)))
            return replace(kept, tools=mended if clashes else None)
        offer = self._shelf.offer(mended, runtime, None if begins else self._shelf.of(state))
        news = self._shelf.news(state, offer, profile, begins=begins)
        unknown = self._unknown(state, mended, *offer.specs, *self._shelf.of(state).array)
        kept = self._kept(state, {**patch, **news.patch}, runtime, (*notices, *news.notices, *unknown), offer)
        return replace(kept, moves_tools=news.moves_array)

    def _with_ours(self, given: Sequence[object], begins: bool) -> tuple[list[Any], tuple[Notice, ...]]:
        """A request's tools where one of the agent's has the name of one of ours: LangChain keeps that one then.

        Raises:
            ToolError: There is one, and the thread begins.
        """
        made, notices = list(given), list[Notice]()
        for at, one in enumerate(given):
            ours = self._ours.get(name := name_of(one))
            if ours is None or not isinstance(one, BaseTool) or _is_copy(one, ours):
                continue
            problem = f"the agent has a tool {name!r} of its own, and StateMiddleware brings one of this name"
            if begins:
                raise ToolError(f"{problem}; rename the agent's")
            made[at] = ours
            notices.append(Notice("tool_refused", path=name, mend="rename the agent's tool", message=problem))
        return made, tuple(notices)

    def _unknown(self, state: TrackedState, given: Sequence[object], *specs: ToolSpec) -> tuple[Notice, ...]:
        """What the field that turns tools on and off names and what is no tool, now or in an earlier request."""
        if self._tools_on is None:
            return ()
        self._seen |= {*map(name_of, given), *(spec.name for spec in specs)}
        named = cast("Collection[str]", getattr(state, self._tools_on))
        return tuple(Tools.unknown(self._tools_on, name) for name in map(str, named) if name not in self._seen)

    def with_new_array(self, kept: Kept, plan: TurnPlan, runtime: Any) -> Kept | None:
        """The same for a request whose head begins anew, where its tools should too; None where they need not.

        Args:
            kept: What the request was planned with.
            plan: Its plan.
            runtime: LangGraph's `Runtime`.
        """
        is_new = plan.rebased is not None or not plan.base
        if self._shelf is None or kept.offer is None or not is_new:
            return None
        if not self._shelf.needs_anew(kept.state, plan.rebased, plan.profile):
            return None
        again = self._kept(kept.state, self._shelf.anew(kept.offer), runtime, kept.notices, kept.offer)
        field = self._shelf.field  # its whole value is new, so nothing below it is left to write
        rest = {path: value for path, value in kept.patch.items() if not path.startswith((f"{field}.", f"{field}["))}
        return replace(again, patch={**rest, **again.patch}, moves_tools=True)

    def _kept(
        self,
        state: TrackedState,
        patch: Patch,
        runtime: Any,
        notices: tuple[Notice, ...],
        offer: Offer | None = None,
    ) -> Kept:
        now = self._home.changed(state, patch, runtime)
        left = patch if self._home.is_graph else NOTHING
        if self._shelf is None or offer is None:
            return Kept(now, left, notices)
        tools = self._shelf.of(now)
        native = NativeTools(tools, self._shelf.field, self._off(now, [spec.name for spec in tools.array]))
        return Kept(now, left, notices, native=native, tools=[*as_records(tools), *offer.beside], offer=offer)

    def _off(self, state: TrackedState, names: Collection[str]) -> Collection[str]:
        return () if self._tools_on is None else names_off(getattr(state, self._tools_on), names, self._ours)

    def before_tool(self, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The call to make, or the answer to one that must not be made."""
        if self._tools_on is None and self._shelf is None:
            return self._run(request)
        state = self._home.read(cast("Mapping[str, Any]", request.state), cast("Any", request).runtime)
        routed = self._shelf.routed(state, request) if self._shelf is not None else request
        if not isinstance(routed, ToolMessage) and self._tools_on is not None:
            routed = answer_if_off(getattr(state, self._tools_on), routed, self._ours) or routed
        return routed if isinstance(routed, ToolMessage) else self._run(routed)

    def _run(self, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The call, unless it is one of ours in whose place LangChain has one of the agent's."""
        call = request.tool_call
        ours = self._ours.get(call["name"])
        if ours is None:
            return request
        if not _is_copy(request.tool, ours):
            return not_now(request, ours.name)
        # Arguments that a model makes up (`self`) would go to the function that LangChain calls with them.
        known = {name: value for name, value in call["args"].items() if name in ours.args}
        return request.override(tool_call={**call, "args": known})


def _is_copy(one: object, ours: BaseTool) -> bool:
    """Whether a tool of a request is ours, perhaps as another middleware has wrapped or described it."""
    return isinstance(one, BaseTool) and (one.description == ours.description or one.args_schema == ours.args_schema)
