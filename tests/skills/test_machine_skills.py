"""I1 to I7 with skills that are loaded, retired and replaced, and tools that come, go and change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from pkv_agents import (
    ANTHROPIC,
    ANTHROPIC_MID_SYSTEM,
    OPENAI,
    AgentSession,
    MemoryStore,
    Message,
    Profile,
    RebasePolicy,
    Skill,
    SkillRegistry,
    Skills,
    Tools,
    ToolSpec,
    TrackedState,
    TurnPlan,
    apply_patch,
    dump_state,
    load_state,
    snapshot,
    start_tools,
    update_tools,
)
from tests.core.strategies import HOSTILE, TAG, examples
from tests.skills.reading import SkillWitness


class Desk(TrackedState):
    customer: str = "Mara"
    skills: Skills = Skills()
    tools: Tools = Tools()


NAMES = ("escalation", "refunds", "shipping", "terms")
PROFILES = [replace(profile, min_cacheable_tokens=None) for profile in (OPENAI, ANTHROPIC, ANTHROPIC_MID_SYSTEM)]
sentences = st.lists(st.sampled_from(("Refund within 30 days.", "Ask a person.", "Be brief.", *HOSTILE)), max_size=12)
bodies = sentences.map(lambda parts: ("Rules.\n\n" + "\n".join(parts)).replace("\x00", ""))


def tool(name: str, says: str, most: int | None, extra: bool) -> ToolSpec:
    amount = {"type": "integer"} if most is None else {"type": "integer", "maximum": most}
    properties: dict[str, Any] = {"amount": amount}
    if extra:
        properties["reason"] = {"type": "string"}
    return ToolSpec(name, says, {"type": "object", "properties": properties}, server="" if name < "t" else "web")


tools = st.lists(
    st.builds(
        tool,
        st.sampled_from(("cancel", "refund", "track", "weigh")),
        st.sampled_from(("Does it.", *HOSTILE[:8])),
        st.sampled_from((None, 50, 90)),
        st.booleans(),
    ),
    unique_by=lambda one: one.name,
    max_size=4,
)


class Conversation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.witness = SkillWitness()
        self.messages: list[Message] = [Message("user", "hello")]
        self.registry = SkillRegistry([Skill("terms", "The terms.", "Terms.\nNone.", pinned=True)])
        self.count = 0
        self.older: list[tuple[list[Message], dict[str, object]]] = []

    @initialize(profile=st.sampled_from(PROFILES), first=tools, bridge=st.booleans())
    def begin(self, profile: Profile, first: list[ToolSpec], bridge: bool) -> None:
        self.profile, self.store = profile, MemoryStore()
        self.desk = Desk(skills=self.registry.start(), tools=start_tools(first, bridge=bridge))
        self.array = self.desk.tools.array
        self.session = self._session()

    def _session(self) -> AgentSession[Desk]:
        return AgentSession(
            lambda: self.desk,
            key="one",
            tag=TAG,
            store=self.store,
            profile=self.profile,
            instructions="Be kind.",
            rebase_policy=RebasePolicy(floor_tokens=10**6),
        )

    def _change(self, patch: dict[str, object]) -> None:
        self.desk = apply_patch(self.desk, patch)

    @rule(name=st.sampled_from(NAMES[:3]), body=bodies, trusted=st.booleans(), needs=st.booleans())
    def new_version(self, name: str, body: str, trusted: bool, needs: bool) -> None:
        skill = Skill(name, "When it fits.", body, trusted=trusted, needs=("terms",) if needs else ())
        one = self.registry
        self.registry = one.replaced(skill) if name in one else one.added(skill)

    @rule(name=st.sampled_from(NAMES[:3]))
    def gone(self, name: str) -> None:
        self.registry = self.registry.without(name)

    @rule(name=st.sampled_from(NAMES))
    def load(self, name: str) -> None:
        if name in self.registry:
            self._change(self.registry.load(name, self.desk.skills))
            assert name in self.desk.skills.active

    @rule(name=st.sampled_from(NAMES[:3]))
    def retire(self, name: str) -> None:
        self._change(self.registry.retire(name, self.desk.skills))
        assert name not in self.desk.skills.active

    @rule()
    def refresh(self) -> None:
        self._change(self.registry.refresh(self.desk.skills))
        assert self.registry.refresh(self.desk.skills) == {}
        assert self.desk.skills.available == self.registry.start().available

    @rule(now=tools, off=st.sets(st.sampled_from(("cancel", "track"))))
    def tools_change(self, now: list[ToolSpec], off: set[str]) -> None:
        update = update_tools(self.desk.tools, now, profile=self.profile, off=off)
        self._change(update.patch)
        assert update.moves_array == (self.desk.tools.array != self.array)
        if update.moves_array:  # I7: said
            assert {notice.code for notice in update.notices} & {"tool_late", "tool_parameters_changed"}
        self.array = self.desk.tools.array
        assert update_tools(self.desk.tools, now, profile=self.profile, off=off).patch == {}
        assert dict(self.desk.tools.specs) == {one.name: one for one in now if one.name not in off}

    @rule()
    def undo(self) -> None:
        """The state goes back to what it was at the beginning."""
        self.desk = Desk(skills=self.registry.start(), tools=Tools(array=self.desk.tools.array))

    @rule()
    def another_process(self) -> None:
        self.desk = load_state(Desk, dump_state(self.desk))
        self.session = self._session()

    @rule()
    def call_fails(self) -> None:
        self._plan()

    @rule(text=st.sampled_from(HOSTILE))
    def turn(self, text: str) -> None:
        made, answer = self._plan(), Message("assistant", f"{self.count} ok")
        self.session.commit(made, answer=answer)
        self.witness.record(made, self.messages, answer)
        self.older.append((list(self.messages), dump_state(self.desk)))
        self.count += 1
        self.messages = [*self.messages, answer, Message("user", text)]

    @precondition(lambda self: self.older)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        """Back to an older request, with the state of that moment."""
        messages, state = data.draw(st.sampled_from(self.older))
        self.messages, self.desk = list(messages), load_state(Desk, state)
        self.array = self.desk.tools.array

    def _plan(self) -> TurnPlan:
        made = self.session.plan(self.messages)
        self.witness.check(made, self.messages, snapshot(self.desk))
        return made


@pytest.mark.slow
def test_a_conversation_with_skills_keeps_the_invariants() -> None:
    run_state_machine_as_test(Conversation, settings=examples(0.3))  # pyright: ignore[reportUnknownMemberType]
