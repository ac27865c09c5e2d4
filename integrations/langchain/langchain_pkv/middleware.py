"""`StateMiddleware`: tracked state for agents made with `create_agent`.

The state lives in the graph (channel `pkv_state`) or in the application; the ledger of what the model was told lives
in a private channel of the graph. Each model call is planned from both, and the ledger is committed together with the
model's answer: a call that fails leaves everything as it was, and a fork of the thread finds the ledger of its past.

The messages of the thread stay the application's: errata are put on the request only.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from langchain_pkv._caching import CacheWishes
from langchain_pkv._guard import checked_result
from langchain_pkv._home import Home, OnPatch, StateSource
from langchain_pkv._ledger import LEDGER_CHANNEL, STATE_CHANNEL, LedgerRecord, pack, unpack
from langchain_pkv._native import told_in_text
from langchain_pkv._offers import LateTools
from langchain_pkv._outgoing import with_last_step
from langchain_pkv._planned import Setting, checked_words
from langchain_pkv._profiles import check_model, check_tools, model_name, model_profile, refuses_late_system
from langchain_pkv._sent import NOT_SENT, SentMessages, was_sent, watched
from langchain_pkv._skills import SkillDesk, SkillSource
from langchain_pkv._state import graph_state
from langchain_pkv._switches import checked_switch
from langchain_pkv._tools import shelf_of
from langchain_pkv._turn import NO_LEDGER, STATE_IGNORED, TOOLS_MOVED, UNREADABLE, LastStep, ModelCall, Turn, cause
from langchain_pkv._upkeep import Upkeep
from langchain_pkv._usage import usage_of
from langchain_pkv.stateful import StatefulChatModel
from pkv_agents import (
    DEFAULT_POLICY,
    DEFAULT_STYLE,
    ErrataStyle,
    Ledger,
    LedgerError,
    Notice,
    Profile,
    RebasePolicy,
    SchemaError,
    SessionError,
    StrictNoticeError,
    TrackedState,
    Ttl,
    TurnPlan,
    Usage,
    call_back,
    check_tag,
    system_refused,
    without_system,
)

_log = logging.getLogger("pkv_agents")

ToolResult = ToolMessage | Command[Any]


class StateMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps a model told about a typed state by appending errata instead of rewriting the prompt's head.

    The state is given with a thread's first call, `agent.invoke({"messages": ..., "pkv_state": Shop(...)}, config)`,
    and changed by path patches, `{"pkv_state": {"orders[K417].status": "delivered"}}`, in a later input, in
    `update_state`, in a node's return value or in a tool's `Command(update=...)`. Parallel writes merge in call order.

    A tool's patch that does not fit is not applied: the tool's message says so to the model and becomes an error
    message, everything else the tool returned is kept, and a notice `patch_refused` is reported. A bad update in the
    application's own input raises `StateError` at the next model call, until a corrected one is sent.

    List this middleware last: then it is the innermost one and sees the request as it is really sent. A system prompt
    given to `create_agent` stays in front, as the beginning of the instructions.

    Args:
        schema: The class of the state.
        instructions: Text of the head, before the state: the policy, the agent's role.
        state: Where the state is when the application owns it: an object, or a callable that takes LangGraph's
            `Runtime` (whose `context` can name the user). Then the graph has no channel `pkv_state`.
        profile: What the provider's cache and messages allow; found by the model when None.
        on_notice: Called with every notice, once for each cause.
        strict: Raise `StrictNoticeError` at a notice; for tests and CI.
        on_call: Called after every model call that succeeded, with what was planned and reported.
        tag: The tag of the state blocks, four characters of `a-z2-7`; random for each thread when None.
        rebase_policy: When errata are folded into a new baseline.
        style: The wording of baseline and errata.
        markers: Place cache markers where the provider takes them; False leaves every marker as it is.
        marker_ttl: How long a marked prefix should live, where the provider lets a request choose.
        tools_on: The field that turns tools on and off: a `dict[str, bool]` by their names (a tool that is not in it is
            on), or a list or set of those that are on. The tools that are sent stay as they are; the model is told by
            an erratum, and a call of one that is off gets an error instead of being run.
        tools: The field of type `Tools`: the tools array of a thread stays as it was first sent, and what changes of
            the tools that middleware or a new version of the agent give is told, and held at call time.
        late_tools: Finds tools that the agent was not made with, for each call: a function from LangGraph's `Runtime`
            to a list, or to lists by their servers' names, which then stand before the tools' (`files__search`). Where
            it fails in a thread that is under way, what is known stays.
        skills: A registry, or a function from `Runtime` to one. The agent gets the tools `load_skill` and
            `read_skill_file`, and each thread is brought up to the registry with its next model call.
        on_patch: Applies a patch to the application's state, given a patch and the `Runtime`; needed where `skills` or
            `tools` are used with a function as `state`.
        cache_key: Whose data this is, to send a cache key where the provider routes by one: the tenant's name, or a
            function from LangGraph's `Runtime` to it. Only a hash of it goes out. None sends no key.
    """

    def __init__(
        self,
        schema: type[TrackedState],
        *,
        instructions: str = "",
        state: StateSource | None = None,
        profile: Profile | None = None,
        on_notice: Callable[[Notice], None] | None = None,
        strict: bool = False,
        on_call: Callable[[ModelCall], None] | None = None,
        tag: str | None = None,
        rebase_policy: RebasePolicy = DEFAULT_POLICY,
        style: ErrataStyle = DEFAULT_STYLE,
        markers: bool = True,
        marker_ttl: Ttl = "5m",
        tools_on: str | None = None,
        tools: str | None = None,
        late_tools: LateTools | None = None,
        skills: SkillSource | None = None,
        on_patch: OnPatch | None = None,
        cache_key: str | Callable[[Runtime[Any]], str] | None = None,
    ) -> None:
        super().__init__()
        if not (isinstance(schema, type) and issubclass(schema, TrackedState)):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = schema.__name__ if isinstance(schema, type) else f"an instance of {type(schema).__name__}"
            raise SchemaError(f"StateMiddleware takes a class derived from TrackedState, not {given}")
        self._schema = schema
        self._home = Home(schema, state, on_patch, "skills=" if skills is not None else "tools=" if tools else "")
        desk = SkillDesk(skills, self._home) if skills is not None else None
        shelf = shelf_of(tools, late_tools, self._home, desk)
        self._upkeep = Upkeep(self._home, desk, shelf, checked_switch(schema, tools_on))
        self.tools = self._upkeep.tools()
        self._instructions, self._profile = instructions, profile
        self._on_notice, self._strict, self._on_call = on_notice, strict, on_call
        self._tag = check_tag(tag) if tag is not None else None
        self._policy, self._style = checked_words(rebase_policy, style)
        self._wishes, self._tenant = CacheWishes(markers, marker_ttl), cache_key
        self._models_seen: set[str] = set()
        # A strict session must fail on a conflict; the channel cannot raise, so it remembers the conflict as refused.
        on_conflict = None if strict else self._report
        self.state_schema = graph_state(None if state is not None else schema, on_conflict)

    # Model calls: a pure preparation, the call, a pure commit.

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Plan, call the model, commit."""
        turn = self._prepare(request)
        try:
            with watched() as sent:
                response = handler(turn.request)
        except Exception as error:
            check_tools(error, request.model, request.tools)
            if not refuses_late_system(error, turn.last_step.plan):
                raise
            turn = self._prepare(request, refused_by=model_name(request.model))
            with watched() as sent:
                response = handler(turn.request)
        return self._finish(turn, response, sent)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Plan, call the model, commit."""
        turn = self._prepare(request)
        try:
            with watched() as sent:
                response = await handler(turn.request)
        except Exception as error:
            check_tools(error, request.model, request.tools)
            if not refuses_late_system(error, turn.last_step.plan):
                raise
            turn = self._prepare(request, refused_by=model_name(request.model))
            with watched() as sent:
                response = await handler(turn.request)
        return self._finish(turn, response, sent)

    def _prepare(self, request: ModelRequest[Any], refused_by: str | None = None) -> Turn:
        if isinstance(request.model, StatefulChatModel):
            raise SessionError("the agent's model is wrapped by with_state already: use StateMiddleware or with_state")
        check_model(request.model)
        values = cast("Mapping[str, Any]", request.state)
        record = self._record(values)
        if refused_by is not None:
            self._report(system_refused(refused_by))
            known = record if record is not None else LedgerRecord(Ledger(), Usage(), 0)
            record = replace(known, ledger=without_system(known.ledger, refused_by))
        if record is None and any(isinstance(message, AIMessage) for message in request.messages):
            self._report(NO_LEDGER)
        model, refused = model_name(request.model), record.ledger.refused if record else ()
        profile = told_in_text(self._profile or self._profile_of(request.model), refused, model)
        kept = self._upkeep.before_model(values, request.runtime, request.tools, profile, begins=record is None)
        setting = Setting(
            record=record,
            state=kept.state,
            instructions=self._instructions,
            profile=profile,
            policy=self._policy,
            style=self._style,
            tag=self._tag,
            model=model,
            clock=datetime.now(UTC),
            rebase=TOOLS_MOVED if kept.moves_tools else None,
            native=kept.native,
        )
        planned = setting.planned(request.system_message, request.messages)
        anew = self._upkeep.with_new_array(kept, planned.plan, request.runtime)
        if anew is not None:
            kept, setting = anew, replace(setting, state=anew.state, native=anew.native, rebase=planned.plan.rebased)
            planned = setting.planned(request.system_message, request.messages)
        ignored = not self._home.is_graph and bool(values.get(STATE_CHANNEL))
        also = (*kept.notices, *((STATE_IGNORED,) if ignored else ()))
        tenant = self._tenant(request.runtime) if callable(self._tenant) else self._tenant
        wishes = replace(self._wishes, tenant=tenant)

        def tell(sent: TurnPlan) -> None:
            self._report_new(sent, (*sent.notices, *also), record)

        last_step = LastStep(planned, request.model, wishes, tell)
        sent = request.override(
            model=with_last_step(request.model, last_step),
            system_message=planned.system,
            messages=cast("list[Any]", planned.messages),
            tools=request.tools if kept.tools is None else kept.tools,
        )
        return Turn(also, record, sent, last_step, kept)

    def _finish(self, turn: Turn, response: ModelResponse[Any], sent: SentMessages) -> ExtendedModelResponse[Any]:
        sent_plan = turn.last_step.plan
        if turn.last_step.sent is None and not was_sent(sent_plan, sent):
            self._report(NOT_SENT)
            return ExtendedModelResponse(model_response=response)
        turn.last_step.tell()
        usage = usage_of(response.result)
        self._report_new(sent_plan, turn.found(), turn.record)
        update = {LEDGER_CHANNEL: pack(turn.recorded(response, usage))}
        if turn.kept.patch:
            update[STATE_CHANNEL] = dict(turn.kept.patch)
        call_back(self._on_call, turn.shown(response, usage), "on_call")
        return ExtendedModelResponse(model_response=response, command=Command(update=update))

    def _record(self, values: Mapping[str, Any]) -> LedgerRecord | None:
        try:
            return unpack(values.get(LEDGER_CHANNEL))
        except LedgerError as error:
            self._report(replace(UNREADABLE, message=str(error)))
            return None

    def _profile_of(self, model: BaseChatModel) -> Profile:
        profile, notices = model_profile(model)
        for notice in notices:
            if notice.path not in self._models_seen:
                self._report(notice)
                self._models_seen.add(notice.path)
        return profile

    # Tool calls: a patch that does not fit is refused here, where the model can be told.

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Run the tool that is meant, if it is on, and check the state patches that it returns."""
        meant = self._upkeep.before_tool(request)
        return meant if isinstance(meant, ToolMessage) else self._checked(meant, handler(meant))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the tool that is meant, if it is on, and check the state patches that it returns."""
        meant = self._upkeep.before_tool(request)
        return meant if isinstance(meant, ToolMessage) else self._checked(meant, await handler(meant))

    def _checked(self, request: ToolCallRequest, result: ToolResult) -> ToolResult:
        schema = self._schema if self._home.is_graph else None
        return checked_result(schema, request, result, self._report)

    def _report_new(self, plan: TurnPlan, notices: Sequence[Notice], record: LedgerRecord | None) -> None:
        told = set(record.told if record is not None else ())
        for notice in notices:
            if (name := cause(plan, notice)) not in told:
                told.add(name)
                self._report(notice)

    def _report(self, notice: Notice) -> None:
        _log.log(logging.INFO if notice.is_advice else logging.WARNING, "%s", notice)
        call_back(self._on_notice, notice, "on_notice")
        if self._strict and not notice.is_advice:
            raise StrictNoticeError(notice)
