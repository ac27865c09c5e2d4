"""The conversation with the rules in skills: what was sent stays, and what is told of skills is what happened."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from examples.support_agent import runner
from examples.support_agent.console import shortened
from examples.support_agent.models import SKILLS_ADAPTER, Choice, choose_model
from examples.support_agent.policy import POLICY_FILE, Request, rules_of, shop_rules
from examples.support_agent.report import render_html
from examples.support_agent.results import RunResult
from examples.support_agent.runner import ArmPlayer, run
from examples.support_agent.scenario import TURNS
from examples.support_agent.schema import SkilledShop
from examples.support_agent.script import LATE_SKILL, LATE_TURN, VERSION_TURN, script_of
from examples.support_agent.tools import EFFECTS
from examples.support_agent.training.rows import RowMaker, RowPlan
from examples.support_agent.turns import expected_decision
from examples.support_agent.worlds import Size, World
from examples.support_agent_llamaindex import run as run_llama_index
from langchain_pkv import LocalChatModel
from llama_index.llms.pkv import LocalLLM
from pkv_agents import LOAD_SKILL, apply_patch
from tests.example.reading_engine import ReadingModel
from tests.example.skill_reader import SkillReader, decide_by_text
from tests.local.tiny import tiny_tokenizer

SCRIPT = script_of("skills")
play = partial(run, script=SCRIPT)


def in_process(model: SkillReader | None = None) -> Choice:
    """A choice of a model that is taken to be too small to ask for skills."""
    return Choice("m", lambda arm: model or SkillReader(), len, counts_exactly=False, ttft="engine")


@pytest.fixture(scope="module")
def result() -> RunResult:
    return play(in_process(), arms=["rewrite_late", "ours", "stale"])


def test_the_first_skills_hold_the_policys_rules_and_prose_and_the_head_holds_the_rest() -> None:
    found = {topic: rule for skill in SCRIPT.registry(1) for topic, rule in rules_of(skill.body).items()}
    assert found == shop_rules()
    assert not rules_of(SCRIPT.instructions)
    bodies = "\n\n".join(skill.body for skill in SCRIPT.registry(1))
    for paragraph in POLICY_FILE.read_text().strip().split("\n\n"):
        assert (paragraph in bodies) != (paragraph in SCRIPT.instructions), paragraph


def test_the_new_version_decides_otherwise_on_the_turns_that_ask() -> None:
    old, new = (rules_of(SCRIPT.registry(turn)["refunds"].body) for turn in (1, VERSION_TURN))
    assert {topic for topic in new if new[topic] != old[topic]} == {"return", "refund", "discount"}
    assert {turn.topic for turn in TURNS[VERSION_TURN - 1 :]} >= {"return", "refund", "discount", "price match"}
    assert all(turn.topic not in rules_of(SCRIPT.registry(1)[LATE_SKILL].body) for turn in TURNS[: LATE_TURN - 1])


def test_who_is_told_decides_by_the_rules_in_force(result: RunResult) -> None:
    for arm in ("rewrite_late", "ours"):
        wrong = [row for row in result.of(arm) if not row.policy_correct]
        assert not wrong, [(row.turn, str(row.decision), str(row.expected)) for row in wrong]
    assert result.totals()["ours"].agreement == len(TURNS)
    assert result.totals()["stale"].policy_correct <= len(TURNS) - 6


def test_the_head_never_moves_and_the_errata_are_the_skills() -> None:
    model = SkillReader()
    player = ArmPlayer(in_process(model), "ours", script=SCRIPT)
    rows = [player.play(number) for number in range(1, len(TURNS) + 1)]
    texts = ["\x00".join(f"{m.type}:{m.text}" for m in request) for request in model.requests]
    for one, other in zip(texts, texts[1:], strict=False):
        assert other.startswith(one)
    head = model.requests[0][0].text
    assert head.startswith(f"{SCRIPT.instructions}\n\n")
    assert re.findall(r'<text path="skills\.active\[(\w+)\]">', head) == ["refunds", "shipping"]
    told = {row.turn: row.erratum or "" for row in rows if "skills." in (row.erratum or "")}
    assert sorted(told) == [LATE_TURN, VERSION_TURN]
    assert 'skills.active[escalation]: "# Escalation\\n\\n## Damage\\n' in told[LATE_TURN]
    lines = [line for line in told[VERSION_TURN].split("\n") if line.startswith("skills.")]
    old, new = (SCRIPT.registry(turn)["refunds"].body for turn in (1, VERSION_TURN))
    assert lines == [f"skills.active[refunds]: {_edit(old, new)}"]
    assert rows[LATE_TURN - 1].outside["skills.active[escalation]"] == "loaded"
    assert rows[VERSION_TURN - 1].outside["skills.active[refunds]"] == "a new version"


def _edit(old: str, new: str) -> str:
    """The three rules, each as the lines that are others."""
    was, now = (text.replace('"', '\\"').split("\n") for text in (old, new))

    def block(lines: Sequence[str], topic: str, keep: slice) -> str:
        return "\\n".join([line for line in lines if f" {topic} request" in line][keep])

    wanted = (("return", slice(None)), ("refund", slice(2, 3)), ("discount", slice(0, 2)))
    return "; ".join(f'replace "{block(was, topic, keep)}" with "{block(now, topic, keep)}"' for topic, keep in wanted)


def test_the_cache_is_kept_and_the_report_shows_what_was_told(result: RunResult) -> None:
    share = {arm: sums.cached_share_after_first or 0 for arm, sums in result.totals().items()}
    assert share["ours"] > 0.93 > share["rewrite_late"]
    page = render_html(result, plots=False)
    assert "skills.active[escalation]: &#34;# Escalation" in page
    assert "skills.active[refunds] = a new version" in page
    assert result.to_json()["script"] == "skills"


def test_a_long_line_is_cut_in_the_terminal_only() -> None:
    assert shortened("x" * 160) == "x" * 160
    assert shortened("x" * 5000) == f"{'x' * 160} ... (5,000 characters)"


@pytest.mark.parametrize("arm", ["rewrite_late", "ours"])
def test_the_other_framework_sends_the_same(arm: Any) -> None:
    def played(wrapper: Any, player: Any) -> tuple[Any, RunResult]:
        model = ReadingModel(tiny_tokenizer(), decide_by_text)
        choice = Choice("m", lambda _: wrapper(local=model), len, counts_exactly=True, ttft="engine")
        return model.prompts, player(choice, arms=[arm], turns=VERSION_TURN, script=SCRIPT)

    theirs, there = played(LocalChatModel, runner.run)
    ours, here = played(LocalLLM, run_llama_index)
    assert ours == theirs
    assert [row.erratum for row in here.rows] == [row.erratum for row in there.rows]
    assert all(row.policy_correct for row in here.rows)


def test_a_training_row_is_what_our_arm_sends() -> None:
    shop, done, requests = SCRIPT.initial(), dict[str, str](), list[Request]()
    for number, turn in enumerate(TURNS, 1):
        patch = {**done, **SCRIPT.news(number, shop, loads=True)}
        requests.append(Request(patch, turn.topic, turn.order_id, turn.text, turn.town))
        shop = apply_patch(shop, patch)
        done = EFFECTS[expected_decision(shop, turn).tool](shop, turn.order_id)
    world = World(SCRIPT.instructions, {}, SCRIPT.initial(), tuple(requests))
    row = RowMaker(cast("Any", tiny_tokenizer()), random.Random(7)).row(world, RowPlan(Size()))
    tag = "".join(map(random.Random(7).choice, ["abcdefghijklmnopqrstuvwxyz234567"] * 4))  # what a row draws first

    model = ReadingModel(tiny_tokenizer(), decide_by_text)
    choice = Choice("m", lambda _: LocalChatModel(local=model), len, counts_exactly=True, ttft="engine")
    player = ArmPlayer(choice, "ours", tag=tag, script=SCRIPT)
    for number in range(1, len(TURNS) + 1):
        assert player.play(number).policy_correct
    assert len(model.prompts) == len(TURNS)
    for prompt in model.prompts:
        assert prompt == row.ids[: len(prompt)]


class Asking(SkillReader):
    """Loads the skill that it misses, before it decides."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        question = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage)).partition("\n\n")[0]
        if question == TURNS[LATE_TURN - 1].text and not any("# Escalation" in m.text for m in messages):
            self.requests.append(list(messages))
            self.options.append(kwargs)
            call = {"name": LOAD_SKILL.name, "args": {"name": LATE_SKILL}, "id": "load", "type": "tool_call"}
            answer = AIMessage("", tool_calls=[call], usage_metadata=self._usage(messages))
            return ChatResult(generations=[ChatGeneration(message=answer)])
        return super()._generate(messages, stop, run_manager, **kwargs)


def test_a_model_that_is_not_in_this_process_loads_the_skill_itself() -> None:
    model = Asking()
    choice = Choice("m", lambda arm: model, len, counts_exactly=False, ttft="call")
    player = ArmPlayer(choice, "ours", script=SCRIPT)
    rows = [player.play(number) for number in range(1, LATE_TURN + 1)]
    assert LOAD_SKILL.name in model.options[0]["tool_names"]
    assert all(row.policy_correct for row in rows)
    assert len(model.requests) == LATE_TURN + 1
    assert 'skills.active[escalation]: "# Escalation' in (rows[-1].erratum or "")
    shop = SkilledShop.model_validate(player.agent.get_state(player.config).values["pkv_state"])
    assert LATE_SKILL in shop.skills.active


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_embedded_model_goes_by_skills_that_were_loaded_and_replaced(embedded_model: Path) -> None:
    """The small model errs in each arm, so there is room for that; one that never hears of it is right in 3 of 12."""
    totals = play(choose_model(adapter=str(SKILLS_ADAPTER)), arms=["rewrite_late", "ours"]).totals()
    assert (totals["ours"].cached_share_after_first or 0) >= 0.93
    assert totals["rewrite_late"].policy_correct >= len(TURNS) - 5
    assert totals["ours"].policy_correct >= len(TURNS) - 3
