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
from langchain_pkv._skills import SkillDesk
from langchain_pkv._switches import answer_if_off, names_off
from langchain_pkv._tools import Offer, ToolShelf
from pkv_agents import Notice, Profile, TrackedState, TurnPlan


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

    def tools(self) -> list[BaseTool]:
        """The tools that the agent gets besides its own."""
        return [*(self._skills.tools() if self._skills else ()), *(self._shelf.tools() if self._shelf else ())]

    def before_model(self, values: Mapping[str, Any], runtime: Any, given: Sequence[object], profile: Profile) -> Kept:
        """The state for a model call.

        Args:
            values: The graph's state.
            runtime: LangGraph's `Runtime`.
            given: The request's tools.
            profile: What the provider allows.

        Raises:
            SkillError: The pinned skills of a thread that begins are more than the budget.
            ToolError: Two tools have one name, or the array of a thread that begins has a schema that is none.
        """
        state = self._home.read(values, runtime)
        patch, notices = self._skills.news(state, runtime) if self._skills else (NOTHING, ())
        if self._shelf is None:
            return self._kept(state, patch, runtime, notices)
        offer = self._shelf.offer(given, runtime)
        news = self._shelf.news(state, offer, profile)
        kept = self._kept(state, {**patch, **news.patch}, runtime, (*notices, *news.notices), offer)
        return replace(kept, moves_tools=news.moves_array)

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
        return () if self._tools_on is None else names_off(getattr(state, self._tools_on), names)

    def before_tool(self, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The call to make, or the answer to one that must not be made."""
        if self._tools_on is None and self._shelf is None:
            return request
        state = self._home.read(cast("Mapping[str, Any]", request.state), cast("Any", request).runtime)
        routed = self._shelf.routed(state, request) if self._shelf is not None else request
        if isinstance(routed, ToolMessage) or self._tools_on is None:
            return routed
        return answer_if_off(getattr(state, self._tools_on), routed) or routed
