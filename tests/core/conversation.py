"""One conversation over a state of every kind, with a model of what an application can do to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    CALM_STYLE,
    DEFAULT_STYLE,
    GENERIC,
    LOCAL,
    OPENAI,
    PLAIN_STYLE,
    ConflictError,
    ErrataStyle,
    Ledger,
    Message,
    Profile,
    RebasePolicy,
    TurnPlan,
    commit,
    plan,
    snapshot,
    wire,
    without_system,
)
from tests.core.desk import START, Desk
from tests.core.strategies import LATE, SECRET, TAG
from tests.core.witness import Witness, stale_since

MODELS: Mapping[str, Profile] = {
    "gpt": OPENAI,
    "gpt-late": LATE,
    "claude": ANTHROPIC_MID_SYSTEM,
    "other": GENERIC,
    "small": replace(LOCAL, min_cacheable_tokens=None),
    "compatible": replace(LATE, name="compatible"),
}
REFUSING = "compatible"
"""This endpoint takes no system turn behind the head, whatever its profile says."""

POLICIES: Mapping[str, RebasePolicy] = {
    "tight": RebasePolicy(payback=None, floor_tokens=60, ratio=0),
    "eager": RebasePolicy(payback=0.05, floor_tokens=10**6, restate_after_tokens=40),
    "few statements": RebasePolicy(payback=None, floor_tokens=10**6, statements=3, restate_after_tokens=100),
    "wide": RebasePolicy(payback=None, floor_tokens=10**6),
}
STYLES: Mapping[str, ErrataStyle] = {"default": DEFAULT_STYLE, "calm": CALM_STYLE, "plain": PLAIN_STYLE}


class Conversation:
    """A conversation that is planned, sent and recorded, and watched by a witness."""

    def __init__(self, model: str = "gpt-late", policy: str = "wide", timed: bool = True) -> None:
        self.state: Any = Desk()
        self.ledger: Ledger | None = None
        self.messages: list[Message] = []
        self.witness = Witness()
        self.model = model
        self.policy = policy
        self.style = "default"
        self.instructions = "Be kind."
        self.clock: datetime | None = START if timed else None
        self.confirmed: dict[str, datetime] = {}
        self.rebase: str | None = None
        self.slow: tuple[TurnPlan, list[Message]] | None = None
        self.count = 0

    def number(self, text: str) -> str:
        """A text that occurs once."""
        self.count += 1
        return f"{self.count} {text}"

    def say(self, role: Any, text: str, **more: Any) -> None:
        """A message of its own at the end."""
        self.messages.append(Message(role, self.number(text), **more))

    def set(self, state: Any) -> None:
        """Another state; a value that was set is confirmed."""
        if self.clock is not None and state.gate != self.state.gate:
            self.confirmed["gate"] = self.clock
        self.state = state

    def wait(self, span: timedelta) -> None:
        """Time goes by."""
        if self.clock is not None:
            self.clock += span

    def request(self) -> TurnPlan:
        """A request as it goes out, checked; an endpoint that refuses system turns is asked again without them."""
        turn = self._plan()
        if self.model == REFUSING and any(message.role == "system" for message in wire(turn, self.messages)[1:]):
            self.ledger = without_system(self.ledger, self.model)
            turn = self._plan()
            assert all(message.role != "system" for message in wire(turn, self.messages)[1:])
        refuses = self.model == REFUSING
        self.witness.check(turn, self.messages, snapshot(self.state), asked=self.rebase, refuses=refuses)
        if (since := stale_since(turn.told.get("gate", ""))) is not None:
            assert self.clock is not None and START + timedelta(minutes=30) <= since <= self.clock
        return turn

    def _plan(self) -> TurnPlan:
        return plan(
            self.ledger,
            self.state,
            self.messages,
            profile=MODELS[self.model],
            instructions=self.instructions,
            rebase=self.rebase,
            tag=TAG,
            policy=POLICIES[self.policy],
            style=STYLES[self.style],
            clock=self.clock,
            confirmed=self.confirmed,
            model=self.model,
        )

    def record(self, turn: TurnPlan, answer: Message | None = None) -> None:
        """The call succeeded."""
        ledger = commit(self.ledger, turn, answer=answer)
        assert commit(ledger, turn, answer=answer) == ledger  # I4: twice is once
        self.ledger, self.rebase = ledger, None
        self.witness.record(turn, self.messages, answer)
        assert SECRET not in str(turn.explain(self.messages)) + json.dumps(ledger.to_dict())

    def ask(self, text: str, known: bool = True, **more: Any) -> None:
        """A request and its answer; the answer is recorded with it, or not."""
        answer = Message("assistant", self.number(text), **more)
        self.record(self.request(), answer if known else None)
        self.messages.append(answer)

    def send_slowly(self) -> None:
        """A request whose answer comes when others were recorded, or never."""
        self.slow = self.request(), list(self.messages)

    def record_late(self) -> None:
        """The answer of the slow request comes: recorded where it told nothing, else another turn was faster."""
        if self.slow is None or self.ledger is None:
            return
        (turn, messages), self.slow = self.slow, None
        if self.ledger.last in (turn.base, turn.id) or turn.id == turn.base:
            ledger = commit(self.ledger, turn)
            assert ledger.epochs == self.ledger.epochs or self.ledger.last == turn.base
            if self.ledger.last == turn.id != turn.base:
                assert ledger is self.ledger
                return
            self.ledger = ledger
            self.witness.record(turn, messages)
            return
        with pytest.raises(ConflictError):
            commit(self.ledger, turn)

    def resume(self) -> None:
        """Another process goes on from what was stored: the same bytes and the same records (I3)."""
        if self.ledger is None:
            return
        before = self._plan()
        stored = json.dumps(self.ledger.to_dict(), sort_keys=True)
        ledger = Ledger.from_dict(json.loads(stored))
        assert ledger == self.ledger and json.dumps(ledger.to_dict(), sort_keys=True) == stored
        self.ledger = ledger
        after = self._plan()
        assert after.id == before.id and wire(after, self.messages) == wire(before, self.messages)
        assert commit(ledger, after).to_dict() == commit(ledger, before).to_dict()
