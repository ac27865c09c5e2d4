"""Histories of random states (I1-I7): each request says what is true, and what was sent stays as it was sent."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    GENERIC,
    OPENAI,
    Anchor,
    Ledger,
    Message,
    Profile,
    RebasePolicy,
    ToolCall,
    TurnPlan,
    commit,
    plan,
    snapshot,
)
from tests.core.strategies import HOSTILE, SECRET, TAG, Kind, examples, fields_of, schemas
from tests.core.talk import anchors_of
from tests.core.witness import Witness

LONG = ("story", "todos", "rows")
PROFILES = (OPENAI, GENERIC, ANTHROPIC_MID_SYSTEM)


class History(RuleBasedStateMachine):
    """One conversation with everything that can happen to it."""

    @initialize(data=st.data(), schema=schemas(), profile=st.sampled_from(PROFILES), limit=st.sampled_from((60, 10**6)))
    def begin(self, data: st.DataObject, schema: Kind, profile: Profile, limit: int) -> None:
        self.values = schema.values
        self.state: Any = data.draw(schema.values)
        self.past: list[Any] = [self.state]
        self.profile = profile
        self.policy = RebasePolicy(floor_tokens=limit, ratio=0 if limit == 60 else 1)
        self.ledger: Ledger | None = None
        self.messages: list[Message] = []
        self.rebase: str | None = None
        self.witness = Witness()
        self.sent_texts: dict[tuple[int, Anchor], list[str]] = {}
        self.count = 0

    def _new_text(self, text: str) -> str:
        self.count += 1
        return f"{self.count} {text}"

    # ---- the state

    @rule(data=st.data())
    def set_everything(self, data: st.DataObject) -> None:
        self.past.append(self.state)
        self.state = data.draw(self.values)

    @rule(data=st.data())
    def set_or_delete_in_one_field(self, data: st.DataObject) -> None:
        fields, other = fields_of(self.state), fields_of(data.draw(self.values))
        name = data.draw(st.sampled_from(sorted(fields)))
        self.past.append(self.state)
        self.state = type(self.state)(**{**fields, name: other[name]})

    @precondition(lambda self: any(name in fields_of(self.state) for name in LONG))
    @rule(data=st.data())
    def change_what_is_long(self, data: st.DataObject) -> None:
        fields, other = fields_of(self.state), fields_of(data.draw(self.values))
        self.past.append(self.state)
        self.state = type(self.state)(**{**fields, **{name: other[name] for name in LONG if name in fields}})

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        self.state = data.draw(st.sampled_from(self.past))

    # ---- requests

    @rule(text=st.sampled_from(HOSTILE))
    def user_speaks(self, text: str) -> None:
        self.messages.append(Message("user", self._new_text(text)))

    @precondition(lambda self: self.messages and self.messages[-1].role in ("user", "tool"))
    @rule(text=st.sampled_from(HOSTILE))
    def turn(self, text: str) -> None:
        self._commit(self._request())
        self.messages.append(Message("assistant", self._new_text(text)))

    @precondition(lambda self: self.messages and self.messages[-1].role == "user")
    @rule(results=st.integers(0, 2))
    def turn_with_tools(self, results: int) -> None:
        self._commit(self._request())
        calls = (ToolCall("look", {"n": self.count}, "a"), ToolCall("look", {"n": self.count}, "b"))
        self.messages.append(Message("assistant", self._new_text("calls"), tool_calls=calls))
        for call in calls[:results]:
            self.messages.append(Message("tool", self._new_text("result"), tool_call_id=call.id))
        if results < 2:  # a client that asks too early: reported, not told, not raised
            turn = self._request()
            assert turn.erratum is None
            for call in calls[results:]:
                self.messages.append(Message("tool", self._new_text("result"), tool_call_id=call.id))

    @precondition(lambda self: self.messages)
    @rule()
    def failed_call(self) -> None:
        self._request()

    @precondition(lambda self: self.messages and self.messages[-1].role == "user" and self.ledger is not None)
    @rule()
    def the_same_request_again(self) -> None:
        self._commit(self._request())
        again = self._request()
        assert again.erratum is None and again.rebased is None
        self._commit(again)

    # ---- the history

    @precondition(lambda self: len(self.messages) > 1)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        del self.messages[data.draw(st.integers(0, len(self.messages))) :]

    @precondition(lambda self: len(self.messages) > 2)
    @rule(data=st.data())
    def trim_the_front(self, data: st.DataObject) -> None:
        del self.messages[: data.draw(st.integers(1, len(self.messages) - 1))]

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.messages) - 1))
        old = self.messages[at]
        self.messages[at] = Message(old.role, self._new_text("edited"), old.tool_calls, old.tool_call_id)

    @precondition(lambda self: self.ledger is not None)
    @rule()
    def resume_elsewhere(self) -> None:
        assert self.ledger is not None
        stored = json.dumps(self.ledger.to_dict(), sort_keys=True)
        assert SECRET not in stored
        ledger = Ledger.from_dict(json.loads(stored))
        assert ledger == self.ledger and json.dumps(ledger.to_dict(), sort_keys=True) == stored
        self.ledger = ledger

    @rule()
    def ask_for_a_rebase(self) -> None:
        self.rebase = "asked"

    @rule(profile=st.sampled_from(PROFILES))
    def other_model(self, profile: Profile) -> None:
        if profile is not self.profile:
            self.profile = profile

    # ---- what must hold

    def _request(self) -> TurnPlan:
        turn = plan(
            self.ledger,
            self.state,
            self.messages,
            profile=self.profile,
            instructions="Be kind.",
            rebase=self.rebase,
            tag=TAG,
            policy=self.policy,
        )
        self.witness.check(turn, self.messages, snapshot(self.state), asked=self.rebase)
        assert SECRET not in str(turn.explain(self.messages))
        return turn

    def _commit(self, turn: TurnPlan) -> None:
        ledger = commit(self.ledger, turn)
        assert commit(ledger, turn) == ledger
        index = {anchor: at for at, anchor in enumerate(anchors_of(self.messages))}
        # I3: what is replayed was sent, in the same words at the same place.
        for erratum in turn.epoch.errata:
            if erratum.anchor in index:
                texts = self.sent_texts.setdefault((turn.epoch.number, erratum.anchor), [])
                if erratum.text not in texts:
                    assert erratum is turn.erratum
                    texts.append(erratum.text)
        self.ledger = ledger
        self.rebase = None
        self.witness.record(turn, self.messages)


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=examples(1).max_examples,
    stateful_step_count=20,
)
