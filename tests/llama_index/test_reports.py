"""What users met, through FunctionAgent, ReActAgent, AgentWorkflow and a chat engine: which test holds which.

A dash: the kind has no such thing. ReActAgent calls one tool at a time and forgets the steps of a run when it has
ended; the chat engine has no tools.

| report | function | react | workflow | engine | test |
|---|---|---|---|---|---|
| R01 | yes | - | yes | - | here: test_r01_between_two_results |
| R02 | yes | yes | yes | yes | here: test_r02_before_any_turn_and_twice_in_one |
| R03 | yes | yes | yes | yes | here: test_r03_r04_r06_a_server_gets_no_late_system_turn |
| R04 | yes | yes | yes | yes | here: test_r03_r04_r06_a_server_gets_no_late_system_turn |
| R05 | yes | yes | yes | - | here: test_r05_an_erratum_is_no_new_user_turn |
| R06 | yes | yes | yes | yes | here: test_r03_r04_r06_a_server_gets_no_late_system_turn |
| R07 | yes | yes | yes | yes | here: test_r07_a_refusal_is_remembered |
| R08 | yes | yes | yes | yes | here: test_r08_one_change_after_twenty_messages |
| R09 | yes | yes | yes | yes | test_reports_state: test_r09_a_clock_is_told_by_its_resolution |
| R10 | yes | yes | yes | yes | test_reports_state: test_r10_back_and_forth |
| R11 | yes | yes | yes | yes | test_reports_state: test_r11_ten_fields_make_one_erratum, test_r11_a_counter |
| R12 | yes | - | yes | - | test_call_order: test_r12_any_order_of_finishing_is_the_same_bytes |
| R13 | yes | yes | yes | yes | test_reports_state: test_r13_a_state_that_was_made_in_another_way_reads_the_same |
| R14 | yes | yes | yes | yes | test_reports_state: test_r14_an_older_text_shows_the_former_value |
| R15 | yes | yes | yes | yes | test_reports_state: test_r15_hostile_values_and_keys |
| R16 | yes | yes | yes | yes | test_reports_state: test_r16_an_imitation |
| R17 | yes | yes | yes | - | test_skills_reports: test_r17_six_orders_and_a_late_one |
| R18 | yes | yes | yes | - | test_skills_reports: test_r18_equal_names_and_schemas_as_declared |
| R19 | yes | yes | yes | - | test_skills_reports: test_r19_off_and_on_again_costs_two_lines |
| R20 | yes | - | yes | - | test_skills_reports: test_r20_a_store_that_turns_the_keys_of_arguments |
| R28 | yes | yes | yes | yes | test_reports_history: test_r28_r29_usage_is_counted_once |
| R29 | yes | yes | yes | yes | test_reports_history: test_r28_r29_usage_is_counted_once |
| R30 | yes | yes | yes | yes | test_reports_history: test_r30_a_history_cut_at_each_place |
| R31 | yes | yes | yes | yes | test_reports_history: test_r31_saved_and_read_back |
| R32 | yes | yes | yes | yes | test_reports_history: test_r32_another_system_prompt |
"""
# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

import re
from pathlib import Path
from typing import Annotated

import pytest

from pkv_agents import Tracked, TrackedState
from tests.llama_index.providers import call, like_llm
from tests.llama_index.support import (
    UPDATE,
    assert_append_only,
    errata_in,
)
from tests.llama_index.talks import Talk, changing, every_kind, one_call, roles, texts, with_tools


def test_the_table_names_tests_that_exist() -> None:
    assert __doc__ is not None
    rows = re.findall(r"^\| (R\d\d) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\w+): (.+) \|$", __doc__, re.MULTILINE)
    assert [int(row[0][1:]) for row in rows] == [*range(1, 21), *range(28, 33)]
    for number, *held, file, names in rows:
        text = Path(__file__ if file == "here" else Path(__file__).with_name(f"{file}.py")).read_text(encoding="utf-8")
        assert set(held) <= {"yes", "-"}
        for name in names.split(", "):
            before, _, _ = text.partition(f"def {name}(")
            assert before != text and number.lower() in name
            if file != "test_call_order" and name != "test_r11_a_counter":
                decorated = before.rpartition("\n\n\n")[2]
                kinds = 4 if "@every_kind" in decorated else 3 if "@with_tools" in decorated else 2
                assert held.count("yes") == kinds, name


@pytest.mark.parametrize("kind", ["function", "workflow"])
async def test_r01_between_two_results(kind: str) -> None:
    talk = Talk(
        kind,
        tools=lambda session: [
            changing(session, "one", {"mode": "auto"}),
            changing(session, "two", {"cart_total": 5}),
        ],
    )
    await talk.say("go", [call("one", "1"), call("two", "2")])
    assert roles(talk.bodies[1]) == ["system", "user", "assistant", "tool", "tool", "system"]
    assert talk.errata == ['mode: "auto"\ncart_total: 5']
    talk.assert_append_only()


@every_kind
async def test_r02_before_any_turn_and_twice_in_one(kind: str) -> None:
    talk = Talk(kind)
    await talk.change(cart_total=1)
    await talk.say("a")
    await talk.change(cart_total=2)
    await talk.change(cart_total=3)
    await talk.say("b")
    await talk.say("c")
    assert [errata_in(body) for body in talk.bodies] == [[], ["cart_total: 3"], ["cart_total: 3"]]
    assert "cart_total: 1" in texts(talk.bodies[0])[0]
    for body in talk.bodies:
        assert roles(body)[0] == "system"
        assert "system system" not in " ".join(roles(body))
    talk.assert_append_only()
    assert talk.codes() == []


@every_kind
async def test_r03_r04_r06_a_server_gets_no_late_system_turn(kind: str) -> None:
    """What a server's chat template does with one is unknown: it may raise, drop it, or want strict alternation."""
    talk = Talk(kind, make=like_llm)
    for number, text in enumerate("abc"):
        await talk.say(text)
        await talk.change(cart_total=number + 1)
    await talk.say("d")
    assert talk.errata == ["cart_total: 1", "cart_total: 2", "cart_total: 3"]
    for body in talk.bodies:
        assert roles(body) == ["system", *(["user", "assistant"] * 4)[: len(roles(body)) - 1]]
    assert texts(talk.bodies[-1])[-1] == f"d\n\n{UPDATE}\ncart_total: 3\n</state-update>"
    talk.assert_append_only()


@with_tools
async def test_r05_an_erratum_is_no_new_user_turn(kind: str) -> None:
    """A template that keeps thoughts behind the last user turn only would render earlier turns anew."""
    talk = Talk(kind, make=like_llm, tools=lambda session: [changing(session, "one", {"mode": "auto"})])
    await talk.say("go", one_call("one", "1"))
    last = talk.bodies[1]["messages"][-1]
    assert last["role"] == ("user" if kind == "react" else "tool")
    assert last["content"].endswith(f'done\n\n{UPDATE}\nmode: "auto"\n</state-update>')
    assert roles(talk.bodies[1]).count("user") == (2 if kind == "react" else 1)
    talk.assert_append_only()


@every_kind
async def test_r07_a_refusal_is_remembered(kind: str) -> None:
    talk = Talk(kind)
    await talk.say("a")
    await talk.change(mode="auto")
    await talk.say("b", (400, "messages: role 'system' is only allowed as the first message"))
    await talk.change(mode="plan")
    await talk.say("c")
    refused, again, later = talk.bodies[1:]
    assert roles(refused)[-1] == "system"
    assert [body["messages"][-1]["role"] for body in (again, later)] == ["user", "user"]
    assert talk.errata == ['mode: "auto"', 'mode: "plan"']
    assert_append_only([talk.bodies[0], again, later])
    assert talk.codes().count("system_refused") == 1


class Todo(TrackedState):
    id: int
    status: str


class Todos(TrackedState):
    todos: Annotated[list[Todo], Tracked(key="id")]


@every_kind
async def test_r08_one_change_after_twenty_messages(kind: str) -> None:
    talk = Talk(kind, Todos(todos=[Todo(id=1, status="pending")]))
    for turn in range(10):
        await talk.say(f"hi {turn}")
    await talk.patch({"todos[1].status": "done"})
    await talk.say("well?")
    assert talk.errata == ['todos[1].status: "done"']
    talk.assert_append_only()
