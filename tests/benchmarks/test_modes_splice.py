"""The parity of modes: where texts are cut that are compiled apart, and what the arms hold."""

from __future__ import annotations

from functools import cache

from benchmarks._modes import Pair, Subject, pair_of, shop_cases
from benchmarks._modes_facts import fact_cuts
from benchmarks._modes_splice import SKILLS, Spliced, section_cuts
from tests.langchain.tiny import tiny_model


@cache
def pair() -> Pair:
    return pair_of(next(shop_cases(fewest=SKILLS, largest=SKILLS)), Subject(tiny_model()), "after")


def test_sections_are_spread_whole_over_skills() -> None:
    policy = pair().case.world.policy
    made = Spliced(pair(), policy)
    parts = made.parts([made.token_at(cut) for cut in section_cuts(policy, SKILLS)])
    texts = [pair().subject.template.text_of(part.ids.tolist()) for part in parts]
    assert "".join(texts) == policy and len(texts) == SKILLS
    assert all(text.startswith("## ") for text in texts[1:])


def test_a_splice_whose_seam_is_all_of_it_is_the_clean_prefill() -> None:
    made = Spliced(pair(), pair().case.world.policy)
    row = made.row("all", made.placed(made.parts([40, 90]), len(made.skill)))
    assert row.kl_end == row.kl_tool == 0 and row.agrees


def test_facts_are_cut_between_rule_and_state_and_before_the_deciding_line() -> None:
    (both, state), (policy, line) = fact_cuts(pair()).values()
    assert both[:state] == policy == pair().case.world.policy and both[state:].startswith("\n\nCurrent state.")
    value, tool = pair().values[0], pair().tools[0]
    assert f'is "{value}", call `{tool}`' in policy[line:].partition("\n")[0]
    assert policy[:line].endswith("\n") and f"## {pair().case.question.topic.capitalize()}" in policy[:line]
