"""I1-I7 for conversations that branch: answers asked for again, forks, edits, trims, models and endpoints that change.

The state has every kind of field (`desk`), the witness keeps its own books (`witness`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pkv_agents import Message, ToolCall, merge_patches
from tests.core.conversation import MODELS, POLICIES, STYLES, Conversation
from tests.core.desk import hostile, writes
from tests.core.strategies import examples
from tests.core.witness import Recorded

SPANS = (timedelta(minutes=1), timedelta(minutes=6), timedelta(minutes=31), timedelta(hours=2), timedelta(hours=30))


class Branches(RuleBasedStateMachine):
    """One conversation with everything that can happen to it."""

    talk: Conversation

    @initialize(
        model=st.sampled_from(sorted(MODELS)),
        policy=st.sampled_from(sorted(POLICIES)),
        style=st.sampled_from(sorted(STYLES)),
        timed=st.booleans(),
        turns=st.lists(st.tuples(writes(), st.booleans()), max_size=6),
    )
    def begin(self, model: str, policy: str, style: str, timed: bool, turns: list[Any]) -> None:
        self.talk = Conversation(model, policy, timed)
        self.talk.style = style
        self.past = [self.talk.state]
        for patch, known in turns:  # most of what can go wrong needs a history
            self.parallel_writes([patch], None)
            self.turn("go on", known)

    # ---- the state

    @rule(patches=st.lists(writes(), min_size=1, max_size=3), order=st.randoms(use_true_random=False))
    def parallel_writes(self, patches: list[dict[str, Any]], order: Any) -> None:
        calls = list(enumerate(patches))
        merged = merge_patches(calls)
        if order is not None:
            order.shuffle(calls)
        assert merge_patches(calls) == merged
        self.past.append(self.talk.state)
        self.talk.set(merged.apply_to(self.talk.state))

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        self.talk.set(data.draw(st.sampled_from(self.past)))

    @rule(span=st.sampled_from(SPANS))
    def time_goes_by(self, span: timedelta) -> None:
        self.talk.wait(span)
        self.talk.state = self.talk.state.model_copy(update={"now": self.talk.state.now + span})

    @rule()
    def confirm(self) -> None:
        if self.talk.clock is not None:
            self.talk.confirmed["gate"] = self.talk.clock

    @precondition(lambda self: len(self.past) > 3)
    @rule(region=st.sampled_from(("eu", "us")))
    def pinned_field(self, region: str) -> None:
        self.talk.set(self.talk.state.model_copy(update={"region": region}))

    # ---- requests

    @rule(text=hostile, more=hostile, parts=st.booleans())
    def user_speaks(self, text: str, more: str, parts: bool) -> None:
        if parts:
            texts = ({"type": "text", "text": self.talk.number(text)}, {"type": "text", "text": more})
            self.talk.messages.append(Message("user", texts))
        else:
            self.talk.say("user", text)

    @rule(text=hostile, known=st.booleans())
    def turn(self, text: str, known: bool) -> None:
        self.talk.say("user", text)
        self.talk.ask(text, known)

    @rule(patch=writes(), text=hostile, known=st.booleans())
    def turn_with_news(self, patch: dict[str, Any], text: str, known: bool) -> None:
        self.parallel_writes([patch], None)
        self.turn(text, known)

    @precondition(lambda self: self.talk.messages)
    @rule(patch=writes(), text=hostile, known=st.booleans())
    def answer_again_with_news(self, patch: dict[str, Any], text: str, known: bool) -> None:
        while self.talk.messages and self.talk.messages[-1].role == "assistant":
            self.talk.messages.pop()
        self.parallel_writes([patch], None)
        self.talk.ask(text, known)

    @precondition(lambda self: self.talk.messages)
    @rule(text=hostile, known=st.booleans())
    def answer(self, text: str, known: bool) -> None:
        self.talk.ask(text, known)

    @precondition(lambda self: self.talk.messages and self.talk.messages[-1].role in ("user", "tool"))
    @rule(text=hostile, results=st.integers(0, 3), early=st.booleans())
    def turn_with_tools(self, text: str, results: int, early: bool) -> None:
        calls = tuple(ToolCall("look", {"n": self.talk.count, text: text}, name) for name in "abc"[: max(1, results)])
        self.talk.ask(text, tool_calls=calls)
        for at, call in enumerate(calls[:results]):
            self.talk.say("tool", text, tool_call_id=call.id)
            if early and at + 1 < len(calls):
                assert self.talk.request().erratum is None
        if not results:
            assert self.talk.request().erratum is None

    @rule()
    def failed_or_slow_call(self) -> None:
        self.talk.send_slowly()

    @rule()
    def recorded_late(self) -> None:
        self.talk.record_late()

    # ---- the history

    @precondition(lambda self: self.talk.witness.recorded)
    @rule(data=st.data(), again=st.booleans())
    def go_back_to_a_request(self, data: st.DataObject, again: bool) -> None:
        recorded = self.talk.witness.recorded
        chosen: Recorded = data.draw(st.sampled_from(recorded))
        self.talk.messages = list(chosen.messages)
        if chosen.answer is not None and not again:
            self.talk.messages.append(chosen.answer)

    @precondition(lambda self: len(self.talk.messages) > 1)
    @rule(data=st.data())
    def cut_the_end(self, data: st.DataObject) -> None:
        del self.talk.messages[data.draw(st.integers(0, len(self.talk.messages))) :]

    @precondition(lambda self: len(self.talk.messages) > 2)
    @rule(data=st.data())
    def trim_the_front(self, data: st.DataObject) -> None:
        del self.talk.messages[: data.draw(st.integers(1, len(self.talk.messages) - 1))]

    @precondition(lambda self: self.talk.messages)
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.talk.messages) - 1))
        old = self.talk.messages[at]
        edited = Message(old.role, self.talk.number("edited"), old.tool_calls, old.tool_call_id)
        self.talk.messages[at] = edited

    # ---- what stands around it

    @rule()
    def resume_elsewhere(self) -> None:
        self.talk.resume()

    @precondition(lambda self: self.talk.ledger is not None)
    @rule()
    def ask_for_a_rebase(self) -> None:
        self.talk.rebase = "asked"

    @rule(model=st.sampled_from(sorted(MODELS)))
    def other_model(self, model: str) -> None:
        self.talk.model = model

    @rule(style=st.sampled_from(sorted(STYLES)))
    def other_style(self, style: str) -> None:
        self.talk.style = style

    @precondition(lambda self: len(self.talk.messages) > 5)
    @rule()
    def other_instructions(self) -> None:
        self.talk.instructions = f"Be kind, {len(self.talk.instructions)}."


TestBranches = Branches.TestCase
TestBranches.settings = settings(max_examples=examples(1).max_examples, stateful_step_count=20)
