"""The parity of modes: cases for a model that calls at once, and worlds in which many fields are amended."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest

from benchmarks._modes import Subject, asked_before, pair_of
from benchmarks._modes_amended import COUNTS, TOLD, TURNS, amended_rows, draw_amended
from benchmarks._modes_answers import CALLS_AT_ONCE
from benchmarks._modes_at_once import at_once_cases
from benchmarks._modes_edits import PLACES
from benchmarks._modes_long import clean_ids, told_by_session
from examples.support_agent.policy import field_path, rules_of, shop_sections
from tests.langchain.tiny import tiny_model


@cache
def at_once() -> Subject:
    return Subject(tiny_model(), CALLS_AT_ONCE)


@pytest.mark.parametrize("place", PLACES)
def test_at_once_prompts_hold_rules_state_and_calls_and_nothing_else(place: str) -> None:
    for case in islice(at_once_cases(), 6):
        assert rules_of(case.world.policy) == case.world.rules and len(case.world.rules) <= 2
        pair = pair_of(case, at_once(), "before" if place == "before" else "after")
        text = at_once().template.text_of(pair.old)
        head, *turns = text.split("<|im_end|>\n")
        state = head[head.index("Current state. ") : head.rindex(">") + 1]
        parts = [state, case.world.policy] if place == "before" else [case.world.policy, state]
        assert head == "<|im_start|>system\n" + "\n\n".join(parts)
        answers = [turn for turn in turns[:-1] if turn.startswith("<|im_start|>assistant\n")]
        assert len(answers) == len(case.world.requests) - 1
        assert all(answer.startswith('<|im_start|>assistant\n{"name":"') for answer in answers)
        assert shop_sections()[0] not in text and "# Tools" not in text


def test_at_once_the_tool_alone_decides_and_nothing_told_it_before() -> None:
    for case in islice(at_once_cases(), 6):
        assert not asked_before(case) and case.stale_answer() != case.answers()[-1]
    pair = pair_of(next(at_once_cases()), at_once(), "after")
    decision = pair.decide(at_once().segments.prefill(list(pair.new)).segment)
    assert decision.names_new is None and decision.is_new is decision.takes_new is not decision.is_old
    assert at_once().template.text_of(pair.answer(*(words[1] for words in (pair.values, pair.tools)))) == (
        f'{{"name":"{pair.tools[1]}"'
    )


@pytest.mark.parametrize("fields", COUNTS)
def test_so_many_distinct_fields_are_amended_and_the_deciding_one_where_it_should_be(fields: int) -> None:
    drawn = draw_amended(3)
    path, value = drawn.deciding
    ends: set[str] = set()
    for told, turn in TOLD.items():
        case = drawn.told(fields, told)
        patches = [request.patch for request in case.world.requests]
        assert len(patches) == TURNS + 1 and not patches[0] and patches[turn][path] == value
        assert len({name for patch in patches for name in patch}) == sum(map(len, patches)) == fields
        assert case.path == path and case.stale_answer() != case.answers()[-1]
        assert not asked_before(case)
        read = {field_path(case.world.rules[r.topic].field, r.order_id) for r in case.world.requests[:-1]}
        assert read.isdisjoint(name for patch in patches for name in patch)
        ends.add(case.states()[-1].model_dump_json())
    assert len(ends) == 1


def test_errata_of_all_amended_fields_stand_in_the_prompt_and_none_in_the_oracle() -> None:
    drawn, subject = draw_amended(0, orders=3), Subject(tiny_model())
    case = drawn.told(5, "middle")
    messages, ids = list(told_by_session(subject, case))[-1]
    text = subject.template.text_of(ids)
    told = text[text.index("<|im_end|>") :]
    assert told.count("<state-update") == TURNS + 1  # the clock comes first, which no head holds
    for request in case.world.requests:
        assert all(f"\n{path}: " in told for path in request.patch)
    clean = subject.template.text_of(clean_ids(subject, case, case.states()[-1], messages))
    assert "<state-update" not in clean[clean.index("<|im_end|>") :]
    assert f'{case.path}: "{drawn.deciding[1]}"' in clean
    rows = list(amended_rows(subject, drawn, (1, 2)))
    assert [(row.fields, row.told) for row in rows] == [(fields, told) for fields in (1, 2) for told in TOLD]
    assert all(row.clean is rows[0].clean for row in rows[:3]) and rows[-1].tokens > rows[0].tokens
