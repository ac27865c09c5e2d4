"""I1-I7 for one session in several processes and threads, with a store that fails in between.

Processes are session objects over one store; threads are plans of one session that are open at a time. They interleave
by the order in which plans are made and recorded. Each change is told in the end, and usage is what was reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pkv_agents import (
    AgentSession,
    ConflictError,
    MemoryStore,
    Message,
    RebasePolicy,
    StoredSession,
    StoreError,
    TurnPlan,
    Usage,
    apply_patch,
    snapshot,
    wire,
)
from tests.core.desk import START, Desk, hostile, writes
from tests.core.strategies import LATE, TAG, examples
from tests.core.witness import Witness


class FailingStore(MemoryStore):
    """A store that can be down for reading, for writing or both."""

    down = ""

    def load(self, key: str) -> StoredSession | None:
        if "load" in self.down:
            raise StoreError("down")
        return super().load(key)

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        if "save" in self.down:
            raise OSError("down")
        return super().save(key, data, expected_version=expected_version)


@dataclass
class Call:
    """A request that was sent and waits for its answer."""

    session: AgentSession[Desk]
    turn: TurnPlan
    messages: list[Message]


class Sessions(RuleBasedStateMachine):
    """One conversation, whose state the application owns, in up to three processes."""

    @initialize(fails=st.booleans(), refuses=st.booleans(), limit=st.sampled_from((60, 10**6)))
    def begin(self, fails: bool, refuses: bool, limit: int) -> None:
        self.store = FailingStore()
        self.desk = Desk()
        self.may_fail, self.refuses = fails, refuses
        self.policy = RebasePolicy(floor_tokens=limit, ratio=0 if limit == 60 else 1)
        self.messages: list[Message] = [Message("user", "hello")]
        self.sessions: list[AgentSession[Desk]] = []
        self.calls: list[Call] = []
        self.witness = Witness()
        self.used = 0
        self.count = 0
        self.new_process()
        self.new_process()
        for _ in range(2):
            self.whole_turn(0, "go on")

    @precondition(lambda self: len(self.sessions) < 3 and not self.store.down)
    @rule()
    def new_process(self) -> None:
        self.sessions.append(self._session())

    def _session(self) -> AgentSession[Desk]:
        return AgentSession(
            lambda: self.desk,
            key="one",
            instructions="Be kind.",
            store=self.store,
            profile=LATE,
            tag=TAG,
            rebase_policy=self.policy,
            clock=lambda: START,
        )

    # ---- the application

    @rule(patch=writes())
    def change(self, patch: dict[str, Any]) -> None:
        self.desk = apply_patch(self.desk, patch)

    @rule(text=hostile)
    def goes_on(self, text: str) -> None:
        self.count += 1
        self.messages = [*self.messages, Message("assistant", f"{self.count} {text}"), Message("user", text)]

    @precondition(lambda self: len(self.messages) > 2)
    @rule(data=st.data())
    def cut_the_end(self, data: st.DataObject) -> None:
        self.messages = self.messages[: 2 * data.draw(st.integers(0, len(self.messages) // 2)) + 1]

    # ---- requests

    @rule(at=st.integers(0, 2), patch=st.none() | writes())
    def send(self, at: int, patch: dict[str, Any] | None) -> None:
        if patch is not None:
            self.change(patch)
        session = self.sessions[at % len(self.sessions)]
        turn = session.plan(self.messages)
        if self.refuses and any(message.role == "system" for message in wire(turn, self.messages)[1:]):
            turn = session.without_system(turn)
            assert all(message.role != "system" for message in wire(turn, self.messages)[1:])
        self.witness.check(
            turn, self.messages, snapshot(self.desk), asked="requested", torn=self.may_fail, refuses=self.refuses
        )
        self.calls.append(Call(session, turn, list(self.messages)))

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), used=st.integers(1, 9))
    def answered(self, data: st.DataObject, used: int) -> None:
        self._answered(self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1))), used)

    @precondition(lambda self: self.calls)
    @rule()
    def call_fails(self) -> None:
        self.calls.pop()

    @rule(at=st.integers(0, 2), text=hostile)
    def whole_turn(self, at: int, text: str) -> None:
        self.send(at, None)
        self._answered(self.calls.pop(), 1)
        self.goes_on(text)

    def _answered(self, call: Call, used: int) -> None:
        session, before = call.session, call.session.usage.fresh or 0
        self.count += 1
        answer = Message("assistant", f"{self.count} answer")
        try:
            session.commit(call.turn, Usage(fresh=used), answer=answer)
        except (ConflictError, StoreError) as error:
            if isinstance(error, ConflictError):  # all or nothing; another's turns may have been read
                before = session.usage.fresh or 0
            assert (session.usage.fresh or 0) == before
            session.commit(call.turn, Usage(fresh=used), answer=answer, on_conflict="report")
            assert (session.usage.fresh or 0) == before + used
            assert {notice.code for notice in session.report().notices} & {"commit_conflict", "store_failed"}
        else:
            self.witness.record(call.turn, call.messages, answer)
        self.used += used

    # ---- what stands around it

    @precondition(lambda self: self.may_fail)
    @rule(down=st.sampled_from(("", "load", "save", "load save")))
    def store_goes_down_or_up(self, down: str) -> None:
        self.store.down = down

    @rule(at=st.integers(0, 2))
    def reset(self, at: int) -> None:
        session = self.sessions[at % len(self.sessions)]
        before = session.ledger
        try:
            session.reset()
        except (ConflictError, StoreError):
            assert session.ledger is before
        else:
            self.witness = Witness()

    @rule(at=st.integers(0, 2))
    def rebase(self, at: int) -> None:
        self.sessions[at % len(self.sessions)].rebase()

    def teardown(self) -> None:
        """In the end everything is told, and everything that was used is counted."""
        if not hasattr(self, "store"):
            return
        self.store.down = ""
        for session in self.sessions:
            self._flush(session)
        fresh = self._session()
        assert fresh.usage.fresh == self.used
        turn = fresh.plan(self.messages)
        self.witness.check(turn, self.messages, snapshot(self.desk), torn=True, refuses=self.refuses)
        assert turn.changes == () or turn.restated

    def _flush(self, session: AgentSession[Desk]) -> None:
        session.commit(session.plan(self.messages), Usage(fresh=1))
        self.used += 1


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=examples(1).max_examples, stateful_step_count=20)


def test_a_store_is_down_in_these_machines() -> None:
    store = FailingStore()
    store.down = "load save"
    with pytest.raises(StoreError):
        store.load("a")
    with pytest.raises(OSError, match="down"):
        store.save("a", {}, expected_version=0)
