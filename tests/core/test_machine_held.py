"""I1-I7 where the provider's server holds the conversation: it reads what was sent to it, whatever became of our copy.

The application sends what follows the last answer (`wire_new`), and the conversation on the server only ever grows.
Answers are plain here: nobody can take the power out of what the model wrote and the server kept.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pkv_agents import OPENAI, Ledger, Message, RebasePolicy, apply_patch, commit, plan, snapshot, wire_new
from tests.core.desk import START, Desk, hostile, writes
from tests.core.strategies import TAG, believed, examples
from tests.core.witness import agrees

HELD = {
    carrier: replace(OPENAI, name="held", holds_history=True, carrier=carrier) for carrier in ("system", "user_suffix")
}


class Held(RuleBasedStateMachine):
    """One conversation on the server, and the application's copy of it."""

    @initialize(form=st.sampled_from(sorted(HELD)), limit=st.sampled_from((60, 10**6)))
    def begin(self, form: str, limit: int) -> None:
        self.profile = HELD[form]
        self.policy = RebasePolicy(floor_tokens=limit, ratio=0, payback=0.05, restate_after_tokens=60)
        self.desk = Desk()
        self.ledger: Ledger | None = None
        self.server: list[Message] = []
        self.copy: list[Message] = []
        self.instructions = "Be kind."
        self.rebase: str | None = None
        self.count = 0
        for _ in range(2):
            self.turn("go on", None)

    @rule(patch=writes())
    def change(self, patch: dict[str, Any]) -> None:
        self.desk = apply_patch(self.desk, patch)

    @rule(region=st.sampled_from(("eu", "us")))
    def pinned_field(self, region: str) -> None:
        self.desk = self.desk.model_copy(update={"region": region})

    @rule(text=hostile, patch=st.none() | writes())
    def turn(self, text: str, patch: dict[str, Any] | None) -> None:
        if patch is not None:
            self.change(patch)
        self.count += 1
        self.copy.append(Message("user", f"{self.count} {text}"))
        begins = not self.server
        made = plan(
            self.ledger,
            self.desk,
            self.copy,
            profile=self.profile,
            instructions=self.instructions,
            rebase=self.rebase,
            tag=TAG,
            policy=self.policy,
            clock=START,
        )
        assert made.rebased is None  # the head is the server's
        assert self.rebase is None or begins or "rebase_requested" in [notice.code for notice in made.notices]
        self.server += wire_new(made, self.copy)
        known, true = believed(self.server), snapshot(self.desk)
        assert known == dict(made.told.leaves)
        assert all(agrees(path, known, true) for path in {**known, **true.leaves})
        opened = sum(message.text.count(f'<state-update id="{TAG}">') for message in self.server[1:])
        assert opened == len(made.epoch.errata)
        answer = Message("assistant", f"{self.count} answer")
        self.ledger, self.rebase = commit(self.ledger, made, answer=answer), None
        self.server.append(answer)
        self.copy.append(answer)

    @precondition(lambda self: len(self.copy) > 2)
    @rule(data=st.data())
    def trim_our_copy(self, data: st.DataObject) -> None:
        del self.copy[: data.draw(st.integers(1, len(self.copy) - 1))]

    @rule()
    def resume(self) -> None:
        assert self.ledger is not None
        self.ledger = Ledger.from_dict(json.loads(json.dumps(self.ledger.to_dict())))

    @rule()
    def ask_for_a_rebase(self) -> None:
        self.rebase = "asked"

    @rule()
    def other_instructions(self) -> None:
        self.instructions += " Be brief."


TestHeld = Held.TestCase
TestHeld.settings = settings(max_examples=examples(0.5).max_examples, stateful_step_count=20)
