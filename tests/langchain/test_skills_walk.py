"""Random conversations with skills and tools through `create_agent`: what is told is true, and the prefix is kept."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks._integration_payload import breaks
from pkv_agents import Notice, Skill, SkillRegistry
from tests.langchain.skilled import (
    CONFIG,
    MODELS,
    Desk,
    a_registry,
    agent_for,
    assert_told_is_true,
    made,
    state_of,
    user,
    without_choice,
)
from tests.langchain.support import call

NAMES = ("refunds", "terms", "tips", "shipping")
LATE = ("beta", "gamma")
STEPS = st.one_of(
    st.tuples(st.sampled_from(("load", "retire", "toggle", "late", "describe")), st.integers(0, 3)),
    st.tuples(st.sampled_from(("version", "fail", "restart", "say", "fork")), st.integers(0, 3)),
)


class Walk:
    """One conversation, an application that changes, and a provider that fails now and then."""

    def __init__(self, name: str) -> None:
        self.model, self.provider = MODELS[name]([])
        self.saver = InMemorySaver()
        self.versions = dict.fromkeys(NAMES, 0)
        self.late: dict[str, int] = {}
        self.off: set[str] = set()
        self.said: list[Notice] = []
        self.config: RunnableConfig = CONFIG
        self.past: list[tuple[RunnableConfig, dict[str, Any]]] = []
        self.turns = 0
        self.restart()
        self.say({"pkv_state": Desk()})

    def registry(self) -> SkillRegistry:
        registry = a_registry(Skill("shipping", "How parcels go.", "By bike."))
        for name, version in self.versions.items():
            if version % 3 == 1:
                registry = registry.replaced(Skill(name, f"About {name}.", f"Version {version} of {name}."))
        return registry if self.versions["tips"] % 3 != 2 else registry.without("tips")

    def tools(self) -> dict[str, list[Any]]:
        found = [made(name, description=f"Does {name} {version}.") for name, version in sorted(self.late.items())]
        return {"web": found}

    def restart(self) -> None:
        own = [made(name) for name in ("alpha", "mu")]
        self.agent = agent_for(
            self.model,
            own,
            saver=self.saver,
            skills=lambda _: self.registry(),  # pyright: ignore[reportUnknownLambdaType]
            tools="tools",
            tools_on="switches",
            late_tools=lambda _: self.tools(),  # pyright: ignore[reportUnknownLambdaType]
            on_notice=self.said.append,
        )

    def say(self, rest: dict[str, Any], *answers: Any) -> None:
        before = self.past[-1][1] if self.past else None
        self.provider.script[:] = answers
        self.turns += 1
        self.said.clear()
        sent = len(self.provider.bodies)
        try:
            self.agent.invoke(user(f"turn {self.turns}", **rest), self.config)
        except (openai.APIStatusError, anthropic.APIStatusError):
            self.provider.script.clear()
            self.agent.invoke(None, CONFIG)
        self.config = CONFIG
        assert_told_is_true(self.provider.bodies[-1], state_of(self.agent))
        codes = {notice.code for notice in self.said}
        assert codes <= {"skills_changed", "rebase_requested", "errata_limit", "payback"}, codes
        kept = not codes & {"rebase_requested", "errata_limit", "payback"}
        for body in self.provider.bodies[sent:] if kept else ():
            assert before is None or not breaks(without_choice(before), without_choice(body))
            before = body
        self.past.append((self.agent.get_state(CONFIG).config, self.provider.bodies[-1]))

    def step(self, kind: str, number: int) -> None:
        name, late = NAMES[number], LATE[number % 2]
        answers: list[Any] = []
        rest: dict[str, Any] = {}
        if kind == "load":
            answers = [[call("load_skill", f"c{self.turns}", name=name), call("web__beta", f"d{self.turns}")], "ok"]
        elif kind == "retire":
            rest = {"pkv_state": a_registry().retire(name, state_of(self.agent).skills)} if number < 3 else {}
        elif kind == "toggle":
            rest = {"pkv_state": {"switches[alpha]": number % 2 == 0}}
        elif kind == "late" and self.late.pop(late, None) is None:
            self.late[late] = number
        elif kind == "describe" and late in self.late:
            self.late[late] += 1
        elif kind == "version":
            self.versions[name] += 1
        elif kind == "fail":
            answers = [[call("load_skill", f"c{self.turns}", name=name)], 500]
        elif kind == "restart":
            self.restart()
        elif kind == "fork":
            self.past = self.past[: number + 1]
            self.config = self.past[-1][0]
        self.say(rest, *answers)


@pytest.mark.parametrize("name", MODELS)
@given(steps=st.lists(STEPS, min_size=1, max_size=8))
def test_what_is_told_is_true_and_the_prefix_is_kept(name: str, steps: list[tuple[str, int]]) -> None:
    walk = Walk(name)
    for kind, number in steps:
        walk.step(kind, number)
