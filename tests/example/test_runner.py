"""The conversation through all four agents, on a model that reads its request without a mistake."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from examples.support_agent.arms import ARMS, POLICY, head_text
from examples.support_agent.models import Choice
from examples.support_agent.results import Decision, RunResult
from examples.support_agent.runner import ArmPlayer, run
from examples.support_agent.scenario import TURNS, initial_state
from examples.support_agent.schema import Shop
from examples.support_agent.tools import EFFECTS, shop_tools
from examples.support_agent.turns import expected_decision
from examples.support_agent.vocabulary import TOOL_DOCS
from pkv_agents import ModelError, apply_patch, snapshot
from tests.example.readers import PerfectReader, Scripted, choice_of


@pytest.fixture(scope="module")
def result() -> RunResult:
    return run(choice_of(PerfectReader))


def test_who_is_told_decides_right_and_who_is_not_does_not(result: RunResult) -> None:
    totals = result.totals()
    assert [row.arm for row in result.rows] == [arm for arm in ARMS for _ in TURNS]
    for arm in ("rewrite", "rewrite_late", "ours"):
        wrong = [row for row in result.of(arm) if not row.policy_correct]
        assert not wrong, [(row.turn, str(row.decision), str(row.expected)) for row in wrong]
        assert totals[arm].agreement == len(TURNS)
    assert totals["stale"].policy_correct <= len(TURNS) - 4
    assert totals["stale"].agreement == totals["stale"].policy_correct


def test_errata_keep_the_prefix_and_a_rewritten_head_does_not(result: RunResult) -> None:
    share = {arm: sums.cached_share_after_first or 0 for arm, sums in result.totals().items()}
    assert share["ours"] > 0.97
    assert share["stale"] > 0.97
    assert share["rewrite"] < 0.2 < share["rewrite_late"] < share["ours"]
    appended = {arm: sums.appended_tokens for arm, sums in result.totals().items()}
    assert appended["ours"] > 0
    assert {appended[arm] for arm in ARMS if arm != "ours"} == {0}


def test_each_turn_is_one_call_and_the_tools_words_end_it() -> None:
    model = PerfectReader()
    player = ArmPlayer(choice_of(lambda: model), "ours")
    for number in (1, 2):
        player.play(number)
        last = player.agent.get_state(player.config).values["messages"][-1]
        assert isinstance(last, ToolMessage)
        assert last.text in {"Order M802 now goes to Lisbon.", "Order M802 is on hold."}
        assert len(model.requests) == number
    assert {options["tool_choice"] for options in model.options} == {"any"}
    assert model.options[0]["tool_names"] == sorted(doc.name for doc in TOOL_DOCS)


@pytest.mark.parametrize("arm", ARMS)
def test_what_tools_do_and_what_happens_outside_meet_in_the_state(arm: Any) -> None:
    status = "cancelled" if arm == "stale" else "on hold"  # it was packed meanwhile, and `stale` does not know
    player = ArmPlayer(choice_of(PerfectReader), arm)
    *_, row = [player.play(number) for number in range(1, 4)]
    shop = Shop.model_validate(player.agent.get_state(player.config).values["pkv_state"])
    assert shop.customer.tier == "gold"
    assert next(order for order in shop.orders if order.id == "M802").status == status
    assert row.changed == {"customer.tier": '"gold"', "orders[M802].status": f'"{status}"'}


def test_the_erratum_stands_right_behind_the_newest_message_and_the_history_holds_none() -> None:
    model = PerfectReader()
    player = ArmPlayer(choice_of(lambda: model), "ours")
    player.play(1)
    row = player.play(2)
    head, *_, question = model.requests[-1]
    assert head.text == model.requests[0][0].text
    assert head.text.startswith(POLICY)
    assert "now:" not in head.text.partition("<state ")[2]
    assert row.erratum == '<state-update id="k7f3">\norders[M802].status: "packed"\n</state-update>'
    assert isinstance(question, HumanMessage)  # the carrier for a model of which nothing is known
    assert question.text == f"{TURNS[1].text}\n\n{row.erratum}"
    assert "state-update" not in str(player.agent.get_state(player.config).values["messages"])


def test_the_heads_of_the_other_arms() -> None:
    shop = apply_patch(initial_state(), {"customer.tier": "gold"})
    late, early = head_text(shop, "rewrite_late"), head_text(shop, "rewrite")
    block = late.removeprefix(POLICY + "\n\n")
    assert block.startswith("Current state.") and block.endswith("</state>")
    assert 'customer.tier: "gold"' in block
    assert 'now: "2026-03-14T09:30:00"' in block
    opening, _, rest = POLICY.partition("\n\n")
    assert early == f"{opening}\n\n{block}\n\n{rest}"
    assert head_text(shop, "stale") == late

    model = PerfectReader()
    player = ArmPlayer(choice_of(lambda: model), "stale")
    player.play(1)
    player.play(2)
    assert model.requests[0][0].text == model.requests[1][0].text == head_text(initial_state(), "stale")


@pytest.mark.parametrize("name", sorted(EFFECTS))
def test_every_effect_is_a_patch_that_fits(name: str) -> None:
    shop = initial_state()
    before, after = snapshot(shop), snapshot(apply_patch(shop, EFFECTS[name](shop, "K417")))
    changed = {path: after[path] for path in after if before[path] != after[path]}
    assert changed == {
        "cancel_order": {"orders[K417].status": '"cancelled"'},
        "hold_order": {"orders[K417].status": '"on hold"'},
        "issue_credit": {"account.balance": '"22.50"'},
        "refund_order": {"orders[K417].payment": '"refunded"'},
        "send_replacement": {"orders[K417].status": '"processing"'},
    }.get(name, {})


def test_the_tools_are_the_documented_ones() -> None:
    tools = {tool.name: tool for tool in shop_tools()}
    assert list(tools) == sorted(EFFECTS)
    for doc in TOOL_DOCS:
        schema: Any = convert_to_openai_tool(tools[doc.name])["function"]["parameters"]
        assert tuple(schema["properties"]) == doc.arguments == tuple(schema["required"])
        assert tools[doc.name].description == doc.description


def test_a_made_up_order_changes_nothing_and_the_customer_is_told() -> None:
    model = Scripted(script=[[("cancel_order", {"order_id": "Z999"})]])
    player = ArmPlayer(choice_of(lambda: model), "rewrite")
    row = player.play(1)
    values = player.agent.get_state(player.config).values
    assert values["messages"][-1].text == "There is no order Z999."
    assert Shop.model_validate(values["pkv_state"]) == initial_state()
    assert not row.policy_correct


def test_no_call_and_two_calls_are_no_right_decision() -> None:
    right = ("change_address", {"order_id": "M802", "town": "Lisbon"})
    for script, shown in (([[]], "no tool call"), ([[right, right]], "change_address + change_address()")):
        model = Scripted(script=script)
        row = ArmPlayer(choice_of(lambda model=model: model), "ours").play(1)
        assert str(row.decision) == shown
        assert not row.policy_correct
        assert row.prompt_tokens is None and row.cached_tokens is None


def test_a_tool_that_the_shop_does_not_have_ends_in_one_line() -> None:
    model = Scripted(script=[[("fly", {"to": "the moon"})]] * 20)
    with pytest.raises(ModelError, match="turn 1: the model called no tool that the shop has"):
        ArmPlayer(choice_of(lambda: model), "stale").play(1)


def test_a_value_that_no_rule_names_is_a_case_for_a_person() -> None:
    shop = apply_patch(initial_state(), {"orders[M802].status": "on hold"})
    assert expected_decision(shop, TURNS[1]) == Decision("escalate_case", {"order_id": "M802"})


def test_a_cache_that_is_not_reported_is_not_zero() -> None:
    quiet = run(choice_of(lambda: PerfectReader(reports_cache=False)), arms=["ours"], turns=2)
    assert {row.cached_tokens for row in quiet.rows} == {None}
    sums = quiet.totals()["ours"]
    assert sums.cached_share_after_first is None
    assert sums.agreement is None
    assert sums.policy_correct == 2


def test_arms_run_in_the_order_given_and_one_turn_is_enough() -> None:
    heard: list[tuple[str, int | None]] = []
    short = run(
        choice_of(PerfectReader),
        arms=["stale", "ours"],
        turns=1,
        on_turn=lambda arm, row: heard.append((arm, row.turn if row else None)),
    )
    assert heard == [("stale", None), ("stale", 1), ("ours", None), ("ours", 1)]
    assert short.totals()["ours"].cached_share_after_first is None


def test_each_arm_asks_for_its_own_model() -> None:
    asked: list[str] = []

    def for_arm(arm: str) -> PerfectReader:
        asked.append(arm)
        return PerfectReader()

    run(Choice("m", for_arm, len, counts_exactly=True, ttft="call"), turns=1)
    assert asked == list(ARMS)
