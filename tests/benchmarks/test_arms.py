"""The arms: what each one says, what is recorded, and a run on a tiny random model."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._arms import ARMS, openai_tools, requests_of, run_case
from benchmarks._cases import draw_case
from benchmarks.parity import Results, jobs_of, run_jobs
from examples.support_agent.vocabulary import TOOL_DOCS
from pkv_agents import GENERIC, LOCAL, Profile, diff, render_baseline, snapshot
from tests.benchmarks.reader import reader
from tests.benchmarks.support import IDENTITY, MACHINE
from tests.langchain.tiny import tiny_model

SEEDS = st.integers(0, 10_000)


@given(seed=SEEDS)
def test_who_reads_is_right_but_for_the_stale_head(seed: int) -> None:
    case = draw_case(seed)
    row = run_case(reader(case), case)
    assert row.rewritten.right
    assert row.ours.right
    assert row.agree
    assert row.stale.right is (case.stale_answer() == case.answers()[-1])


@given(seed=SEEDS, profile=st.sampled_from((LOCAL, GENERIC)))
def test_arms_differ_in_nothing_but_what_is_said_about_the_state(seed: int, profile: Profile) -> None:
    case = draw_case(seed)
    asked = requests_of(case, profile)
    assert set(asked) == set(ARMS)
    rewritten, ours, stale = asked["rewritten"], asked["ours"], asked["stale"]
    assert rewritten[1:] == stale[1:]
    assert ours[0] == stale[0]
    bare = [message for message in ours[1:] if message.role != "system"]
    assert [m.role for m in bare] == [m.role for m in stale[1:]]
    assert all(have.text.startswith(want.text) for have, want in zip(bare, stale[1:], strict=True))
    head = f"{case.world.policy}\n\n"
    assert rewritten[0].text == head + render_baseline(snapshot(case.states()[-1]).without_volatile(), tag=case.tag)
    assert "\nnow: " not in rewritten[0].text + stale[0].text


@given(seed=SEEDS)
def test_what_ours_is_told_is_what_the_rewritten_head_says(seed: int) -> None:
    case = draw_case(seed)
    first, last = snapshot(case.world.shop).without_volatile(), snapshot(case.states()[-1]).without_volatile()
    said = "\n".join(message.text for message in requests_of(case, LOCAL)["ours"][1:])
    for change in diff(first, last):
        assert f"\n{change.path}: {change.text}\n" in said


def test_tools_are_those_of_the_shop() -> None:
    tools = openai_tools()
    assert len(tools) == len(TOOL_DOCS) == 10
    json.dumps(tools)


@pytest.mark.slow
def test_two_seeds_on_a_tiny_model() -> None:
    engine = tiny_model()
    results, lines = Results(IDENTITY, MACHINE), list[str]()
    run_jobs(engine, jobs_of(seeds=2, long_seeds=0, phrasing_seeds=0), results, tell=lines.append)
    assert len(lines) == len(results.rows) == 2
    for row in results.rows:
        assert row.ours.cached_tokens == 0
        assert row.stale.cached_tokens >= row.head_tokens
        assert {row.ours.tool, row.stale.tool, row.rewritten.tool} <= {doc.name for doc in TOOL_DOCS}
        assert row.agree is (row.ours.same_as(row.rewritten))
