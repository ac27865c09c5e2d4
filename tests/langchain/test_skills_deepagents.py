"""A folder of skills in `create_deep_agent`: theirs, ours instead, and the wire when the folder changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks._integration_payload import breaks
from langchain_pkv import StateMiddleware
from pkv_agents import Notice, SkillRegistry, load_skills
from tests.core.strategies import TAG
from tests.langchain.providers import openai_model
from tests.langchain.skilled import CONFIG, POLICY, Desk, assert_kept, assert_told_is_true, shown, state_of
from tests.langchain.support import call

deepagents = pytest.importorskip("deepagents")
backends = pytest.importorskip("deepagents.backends")

FRONT = """---
name: {name}
description: {description}
license: MIT
allowed-tools: read_file
metadata:
  author: desk
  include_tools: search
---
"""


def write(folder: Path, name: str, description: str, text: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    front = FRONT.format(name=name, description=description)
    (folder / name / "SKILL.md").write_text(f"{front}# {name}\n\n{text}\n", encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "skills", "refunds", "Rules for refunds.", "Within 30 days. Read limits.md.")
    (tmp_path / "skills" / "refunds" / "limits.md").write_text("At most 50 euros.", encoding="utf-8")
    write(tmp_path / "skills", "terms", "Words.", "Delivery is the carrier's scan.")
    return tmp_path


def deep_agent(model: Any, root: Path, ours: StateMiddleware | None, **options: Any) -> Any:
    backend = backends.FilesystemBackend(root_dir=str(root), virtual_mode=True)
    middleware = [] if ours is None else [ours]
    return deepagents.create_deep_agent(
        model, [], middleware=middleware, backend=backend, checkpointer=InMemorySaver(), **options
    )


def user(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **rest}


@pytest.mark.parametrize("frozen", [False, True], ids=["their array", "our array"])
def test_ours_on_the_same_folder_keeps_the_prefix_when_it_changes(root: Path, frozen: bool) -> None:
    asks = [
        [call("load_skill", "c1", name="refunds")],
        "30",
        [call("read_skill_file", "c2", name="refunds", path="limits.md")],
    ]
    model, provider = openai_model(script=["hi", *asks, "50", "14"])
    said: list[Notice] = []

    def registry(_: Any) -> SkillRegistry:
        return SkillRegistry(load_skills(root / "skills"))

    options: dict[str, Any] = {"tools": "tools"} if frozen else {}
    ours = StateMiddleware(Desk, instructions=POLICY, tag=TAG, skills=registry, on_notice=said.append, **options)
    agent = deep_agent(model, root, ours)
    agent.invoke(user("hello", pkv_state=Desk()), CONFIG)
    agent.invoke(user("refund?"), CONFIG)
    out = agent.invoke(user("limits?"), CONFIG)
    assert out["messages"][-2].text == "At most 50 euros."
    write(root / "skills", "refunds", "Rules for refunds.", "Within 14 days. Read limits.md.")
    write(root / "skills", "shipping", "How parcels go.", "By cargo bike.")
    agent.invoke(user("and now?"), CONFIG)
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    assert "14 days" in state_of(agent).skills.active["refunds"] and "shipping" in state_of(agent).skills.available
    assert_kept(provider)
    assert [notice.code for notice in said] == ["skills_changed"]


@pytest.mark.parametrize("beside", [False, True], ids=["theirs", "theirs beside our state"])
def test_theirs_rewrites_the_system_prompt_when_the_folder_changes(root: Path, beside: bool) -> None:
    reads = [call("read_file", "c1", file_path="/skills/refunds/SKILL.md", limit=1000)]
    model, provider = openai_model(script=["hi", reads, "30", "14", "so"])
    said: list[Notice] = []
    ours = StateMiddleware(Desk, instructions=POLICY, tag=TAG, on_notice=said.append) if beside else None
    agent = deep_agent(model, root, ours, skills=["/skills/"])
    agent.invoke(user("hello", **({"pkv_state": Desk()} if beside else {})), CONFIG)
    agent.invoke(user("refund?"), CONFIG)
    first, second, third = provider.bodies
    assert not breaks(first, second) and not breaks(second, third)  # while nothing changes, theirs keeps it, too
    assert "**refunds**" in json.dumps(first["messages"][0]) and "30 days" in shown(third)
    write(root / "skills", "refunds", "Rules for refunds.", "Within 14 days. Read limits.md.")
    write(root / "skills", "shipping", "How parcels go.", "By cargo bike.")
    agent.invoke(user("and now?"), CONFIG)
    fourth = provider.bodies[-1]
    assert "shipping" not in shown(fourth) and "14 days" not in shown(fourth)  # the thread is told of neither
    assert not breaks(third, fourth)
    agent.invoke(user("reload", skills_metadata=None), CONFIG)
    fifth = provider.bodies[-1]
    assert "shipping" in shown(fifth) and breaks(fourth, fifth)
    assert "14 days" not in shown(fifth)  # the old text stands in the messages until the model reads the file again
    assert [notice.code for notice in said] == (["instructions_changed"] if beside else [])


def test_sources_in_layers_the_last_one_wins(root: Path) -> None:
    write(root / "team", "refunds", "Rules of the team.", "Within 60 days.")
    sources = (root / "skills", root / "team")
    layered = {skill.name: skill for source in sources for skill in load_skills(source)}
    registry = SkillRegistry(layered.values())
    assert [skill.name for skill in registry] == ["refunds", "terms"] and "60 days" in registry["refunds"].body
