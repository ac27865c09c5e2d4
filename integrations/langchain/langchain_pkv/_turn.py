"""One model call of an agent: its plan, its record, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import BaseMessage

from langchain_pkv._ledger import LedgerRecord
from pkv_agents import Notice, TurnPlan, Usage


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


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call that was planned and not made yet."""

    plan: TurnPlan
    record: LedgerRecord | None
    request: ModelRequest[Any]


def cause(plan: TurnPlan, notice: Notice) -> str:
    """A notice is reported once for each cause: its code and path in one epoch, or on one request."""
    occasion = plan.sent.end.hash if notice.is_event else plan.epoch.number
    return f"{occasion}/{notice.code}/{notice.path}"


NO_LEDGER = Notice(
    code="ledger_missing",
    path="",
    cost="the head is rendered anew for a conversation that is already under way",
    mend="compile the agent with a checkpointer and call it with the thread's id, so that the ledger is kept; "
    "for a thread that is older than this middleware there is nothing to do",
    message="the conversation has answers but no ledger",
)
