"""A small state and a conversation for the planning tests."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import BaseModel

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    GENERIC,
    Anchor,
    Ledger,
    Message,
    Pinned,
    Profile,
    RebasePolicy,
    Tracked,
    TrackedState,
    TurnPlan,
    Volatile,
    commit,
    plan,
    wire,
)
from pkv_agents.anchors import read_history
from tests.core.strategies import LATE, TAG

PROFILES = [LATE, GENERIC, replace(ANTHROPIC_MID_SYSTEM, min_cacheable_tokens=None)]
NOON = datetime(2026, 1, 1, 12)


class Todo(BaseModel):
    id: int
    status: str


class Cart(BaseModel):
    total: int = 0
    items: list[str] = []


class World(TrackedState):
    mode: str = "plan"
    todos: Annotated[list[Todo], Tracked(key="id")] = [Todo(id=1, status="pending")]
    cart: Cart = Cart()
    counter: int = 0
    region: Annotated[str, Pinned()] = "eu"


class Clocked(World):
    now: Annotated[datetime | None, Volatile(resolution=timedelta(hours=12))] = None
    steps: Annotated[int, Volatile(resolution=50)] = 0


class Talk:
    """A conversation that is planned, sent and recorded."""

    def __init__(self, profile: Profile = LATE, state: World | None = None) -> None:
        self.state = state if state is not None else World()
        self.profile = profile
        self.ledger: Ledger | None = None
        self.messages: list[Message] = []
        self.policy = RebasePolicy(floor_tokens=10**6)
        self.instructions = "Be kind."

    def plan(self, rebase: str | None = None) -> TurnPlan:
        return plan(
            self.ledger,
            self.state,
            self.messages,
            profile=self.profile,
            instructions=self.instructions,
            tag=TAG,
            policy=self.policy,
            rebase=rebase,
        )

    def say(self, text: str = "go on", rebase: str | None = None) -> TurnPlan:
        """A user message, a request, an answer."""
        self.messages.append(Message("user", text))
        made = self.plan(rebase)
        self.record(made)
        self.messages.append(Message("assistant", f"answer to {text}"))
        return made

    def record(self, made: TurnPlan) -> None:
        """The request was sent and answered."""
        self.ledger = commit(self.ledger, made)
        self.sent = wire(made, self.messages)


def errata(sent: tuple[Message, ...]) -> list[str]:
    return [message.text for message in sent[1:] if "<state-update" in message.text]


def anchors_of(messages: Sequence[Message]) -> tuple[Anchor, ...]:
    """Every place of a history."""
    return tuple(read_history(messages, range(len(messages) + 1)).anchors.values())
