"""One model call of an agent: its plan, its record, and what is said about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from langchain_pkv._caching import CacheWishes, Outgoing, bare, outgoing
from langchain_pkv._ledger import LedgerRecord
from langchain_pkv._messages import to_core
from langchain_pkv._planned import Planned
from langchain_pkv._upkeep import Kept
from pkv_agents import Notice, TurnPlan, Usage, commit


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One model call that succeeded, for reports.

    Attributes:
        plan: What was decided for it.
        usage: What the provider reported; None when it reported nothing.
        messages: What was sent, the head first.
        answer: What came back.
    """

    plan: TurnPlan
    usage: Usage | None
    messages: tuple[BaseMessage, ...]
    answer: tuple[BaseMessage, ...]


class LastStep:
    """What is done with a planned request just before it leaves.

    Args:
        planned: The request.
        model: Who gets it.
        wishes: What the application wants of the cache.
        tell: Reports the notices of the plan that is really sent; asked again only where there are others.

    Attributes:
        planned: The request as it was planned last.
        sent: The request as it left; None while it did not.
        beside: What names the text that others have put beside ours into the system message; None as above.
    """

    def __init__(
        self, planned: Planned, model: BaseChatModel, wishes: CacheWishes, tell: Callable[[TurnPlan], None]
    ) -> None:
        self.planned = self._first = planned
        self._model, self._wishes, self._tell = model, wishes, tell
        self._causes: list[str] | None = None
        self.sent: Outgoing | None = None
        self.beside: str | None = None

    def __call__(
        self, messages: list[BaseMessage], options: dict[str, Any]
    ) -> tuple[list[BaseMessage], dict[str, Any]]:
        """Plan anew what others have changed; add the cache's markers and key."""
        self.planned = self._first.as_it_leaves(messages)
        if self.planned is not self._first:
            messages = [self.planned.system, *self.planned.messages]
        self.tell()
        self.beside = _named(messages[0].text.replace(self.planned.system.text, "", 1))
        native = self.planned.setting.native
        if native is not None:
            options = native.chosen(options, self.plan.profile, self._model)
        self.sent = outgoing(messages, options, self._model, self.plan, self._wishes)
        return self.sent.messages, self.sent.options

    def tell(self) -> None:
        """Report the plan's notices, unless that was done."""
        causes = [cause(self.plan, notice) for notice in self.plan.notices]
        if causes != self._causes:
            self._causes = causes
            self._tell(self.plan)

    @property
    def plan(self) -> TurnPlan:
        """What is sent."""
        return self.planned.plan

    @property
    def tools(self) -> str:
        """What names the tools that were sent, and whose cache they stand in; empty while nothing was."""
        if self.sent is None:
            return ""
        data = json.dumps(bare(self.sent.options.get("tools")), default=str)
        return f"{self.plan.sent.model}/{_named(data)}"


def _named(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call that was planned and not made yet.

    Attributes:
        notices: What there is to say beside the plan's.
        record: What the thread's ledger channel holds.
        request: The request for those behind us.
        last_step: What is done when it leaves.
        kept: The state that it was planned with.
    """

    notices: tuple[Notice, ...]
    record: LedgerRecord | None
    request: ModelRequest[Any]
    last_step: LastStep
    kept: Kept

    def found(self) -> tuple[Notice, ...]:
        """What there is to say of the request as it left."""
        left, before = self.last_step.sent, self.record.tools if self.record else ""
        # Where the array was made anew, that was said with its cause.
        moved = None if self.kept.moves_tools else tools_notice(before, self.last_step.tools)
        known = self.record.beside if self.record else None
        changed = known is not None and left is not None and self.last_step.beside != known
        is_kept = self.last_step.plan.rebased is None
        return (
            *(left.notices if left else ()),
            *((moved,) if moved else ()),
            *((BESIDE_CHANGED,) if changed and is_kept else ()),
        )

    def recorded(self, response: ModelResponse[Any], usage: Usage | None) -> LedgerRecord:
        """What the ledger's channel holds once the call has succeeded."""
        plan, old = self.last_step.plan, self.record
        total = old.usage + usage if old and usage else usage or (old.usage if old else Usage())
        answer = next((message for message in response.result if isinstance(message, AIMessage)), None)
        ledger = commit(old.ledger if old else None, plan, answer=to_core([answer])[0] if answer else None)
        causes = (cause(plan, notice) for notice in (*plan.notices, *self.notices, *self.found()))
        told = tuple(dict.fromkeys((*(old.told if old else ()), *causes)))
        tools = self.last_step.tools or (old.tools if old else "")
        beside = self.last_step.beside or (old.beside if old else None)
        return LedgerRecord(ledger, total, (old.calls if old else 0) + 1, told, tools=tools, beside=beside)

    def shown(self, response: ModelResponse[Any], usage: Usage | None) -> ModelCall:
        """The call, for reports."""
        own, left = self.request.system_message, self.last_step.sent
        messages = left.messages if left else (*([own] if own else []), *self.request.messages)
        return ModelCall(self.last_step.plan, usage, tuple(messages), tuple(response.result))


def cause(plan: TurnPlan, notice: Notice) -> str:
    """A notice is reported once for each cause: its code and path in one epoch, or on one request."""
    occasion = plan.sent.end.hash if notice.is_event else plan.epoch.number
    return f"{occasion}/{notice.code}/{notice.path}"


def tools_notice(before: str, now: str) -> Notice | None:
    """The notice for tools that are not those of the latest request to the same model; None when they are."""
    same_model = bool(before and now) and before.rpartition("/")[0] == now.rpartition("/")[0]
    if not same_model or before == now:
        return None
    return Notice(
        code="tools_changed",
        path="tools",
        cost="the tools stand before everything, so nothing of the request was served from the cache",
        mend="send the same tools in the same order on every call; a middleware that selects tools changes them",
        message="the tools are not those of the latest request",
    )


TOOLS_MOVED = "tools changed"
"""Why a head begins anew when the tools before it do."""

BESIDE_CHANGED = Notice(
    code="instructions_changed",
    path="system",
    cost="it stands before the messages, so all of them are read anew",
    mend="list StateMiddleware last, and move what changes into the state",
    message="another middleware wrote something else beside the state into the system message",
)

STATE_IGNORED = Notice(
    code="state_ignored",
    path="pkv_state",
    cost="what was given there is not the state, and the model is not told of it",
    mend="change the state where state= reads it, or leave state= out to keep it in the graph",
    message="pkv_state was given to an agent whose state belongs to the application",
)

NO_LEDGER = Notice(
    code="ledger_missing",
    path="",
    cost="the head is rendered anew for a conversation that is already under way",
    mend="compile the agent with a checkpointer and call it with the thread's id, so that the ledger is kept (an agent "
    "inside another graph: checkpointer=True); for a thread that is older than this middleware there is nothing to do",
    message="the conversation has answers but no ledger",
)

UNREADABLE = Notice(
    code="ledger_unreadable",
    path="",
    cost="the head is rendered anew and the whole conversation is read again",
    mend="run one version of langchain-pkv on all workers of a thread",
)
