"""Any order of loads, new versions, retirements, late tools and failures: told is true, what was sent stays."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index.llms.pkv import ModelCall, StatefulLLM, StateTools, skill_tools
from pkv_agents import AgentSession, Skill, SkillError, SkillRegistry, diff, fold, snapshot
from tests.llama_index.providers import openai_llm
from tests.llama_index.skills import OUTSIDE, TONE, Desk, cancel, refund, track
from tests.llama_index.support import TAG, assert_append_only, assistant, user

NAMES = ("rules", "tone", "tips")
STEPS = st.one_of(
    st.tuples(st.just("load"), st.sampled_from((*NAMES, "nothing"))),
    st.tuples(st.just("retire"), st.sampled_from(NAMES)),
    st.tuples(st.just("set_version"), st.integers(0, 3)),
    st.tuples(st.just("set_off"), st.sets(st.sampled_from(("cancel", "refund", "track")))),
    st.tuples(st.just("set_tools"), st.sets(st.integers(0, 2))),
    st.tuples(st.just("call"), st.integers(0, 2)),
    st.tuples(st.just("fail"), st.none()),
    st.tuples(st.just("say"), st.none()),
)
TOOLS = (("cancel", "order_id", "1"), ("refund", "amount", 1), ("track", "parcel_id", "1"))


class Conversation:
    """A chat of an application, whose registry, tools and switches change between any two calls."""

    def __init__(self) -> None:
        self.version, self.off, self.there = 0, set[str](), {0, 1}
        self.inner, self.provider = openai_llm()
        self.session = AgentSession(Desk(), key="k", tag=TAG)
        self.calls: list[ModelCall] = []
        llm = StatefulLLM(self.inner, self.session, skills=self.registry, on_call=self.calls.append)
        self.llm, self.kit = llm, StateTools(llm, self.tools, off=lambda _: self.off)
        self.history = [user("hi")]

    def registry(self) -> SkillRegistry:
        rules = Skill("rules", f"Rules {self.version}.", f"# Rules\n\nNumber {self.version}.")
        return SkillRegistry([rules, TONE, *([OUTSIDE] if self.version < 2 else [])])

    def tools(self) -> list[Any]:
        return [(cancel, refund, track)[one] for one in sorted(self.there)]

    def say(self, _: object = None) -> None:
        """A call that succeeds: I1 and I2 hold on what really went out."""
        self.llm.chat_with_tools(self.kit.retrieve(""), chat_history=self.history)
        epoch = self.calls[-1].plan.epoch
        told = fold(epoch.baseline, [change for erratum in epoch.errata for change in erratum.changes])
        assert list(diff(told, snapshot(self.session.state))) == []
        assert set(self.session.state.skills.available) == {one.name for one in self.registry()}
        self.history += [assistant("ok"), user("and?")]

    def fail(self, _: object) -> None:
        self.provider.script[:] = [500]
        with pytest.raises(Exception, match="scripted"):
            self.llm.chat_with_tools(self.kit.retrieve(""), chat_history=self.history)
        self.provider.bodies.pop()

    def load(self, name: str) -> None:
        with nullcontext() if name in self.registry() else pytest.raises(SkillError, match="there is no skill"):
            skill_tools(self.llm)[0].call(name=name)

    def retire(self, name: str) -> None:
        self.session.update(self.registry().retire(name, self.session.state.skills))

    def set_version(self, version: int) -> None:
        self.version = version

    def set_off(self, names: set[str]) -> None:
        self.off = names

    def set_tools(self, which: set[int]) -> None:
        self.there = which

    def call(self, which: int) -> None:
        """What is off or gone is refused, whatever the model was told."""
        name, argument, value = TOOLS[which]
        by_name: Any = {tool.metadata.name: tool for tool in self.kit.retrieve("")}
        result = by_name["call_tool"].call(name=name, arguments={argument: value})
        known = which in self.there
        assert result.is_error == (not known or name in self.off)


@given(st.lists(STEPS, max_size=12))
def test_what_was_sent_stays_and_told_is_true(steps: list[tuple[str, Any]]) -> None:
    talk = Conversation()
    talk.say()
    for step, value in steps:
        getattr(talk, step)(value)
    talk.say()
    assert len({str(body["tools"]) for body in talk.provider.bodies}) == 1
    assert_append_only(talk.provider.bodies)
