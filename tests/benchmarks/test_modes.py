"""The parity of modes: what the prompts of a pair are, and that every part of the run gives rows."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest
import torch

from benchmarks._modes import Pair, Subject, common, divergence, pairs
from benchmarks._modes_run import PARTS, ModeResults, run_modes, summary_of, summary_text
from pkv_agents.kv import Composed, Edited
from tests.langchain.tiny import tiny_model


@cache
def subject() -> Subject:
    return Subject(tiny_model())


def one(place: str) -> Pair:
    return next(pairs(subject(), "before" if place == "before" else "after"))


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_pair_differs_in_one_field_and_in_what_is_told(place: str) -> None:
    pair = one(place)
    assert [run.path for run in pair.runs] == [pair.case.path]
    assert common(pair.old, pair.told) >= pair.turn > 0
    rewritten = list(pair.old)
    for run in reversed(pair.runs):
        rewritten[run.start : run.stop] = run.ids
    assert rewritten == list(pair.new)
    text = subject().template.text_of(pair.told[pair.turn :])
    assert f'{pair.case.path}: "{pair.values[1]}"' in text and pair.values[0] != pair.values[1]
    head = subject().template.text_of(pair.old)
    assert (head.index("<state id=") < head.index("call `")) is (place == "before")


def test_arms_make_whole_prompts_of_known_origin() -> None:
    pair = one("before")
    made = {arm: make() for arm, make in pair.arms(pair.prefilled(), keep=8).items()}
    assert made["stale"].ids.tolist() == list(pair.old)
    assert made["erratum"].ids.tolist() == list(pair.told)
    assert made["in_place"].ids.tolist() == made["selective@8"].ids.tolist() == list(pair.new)
    assert all(isinstance(made[arm].origin, Edited) for arm in ("in_place", "field_erratum", "selective@8"))
    assert isinstance(pair.prefilled(as_skill=True).origin, Composed)


def test_divergence() -> None:
    one, other = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0])
    assert divergence(one, one) == 0 == divergence(one, one + 5)
    assert divergence(one, other) > 0.5


@pytest.mark.slow
def test_every_part_gives_rows() -> None:
    results, kept = ModeResults(), list[int]()
    sizes = {"pairs": 1, "worlds": 1, "turns": 4, "tokens": 3, "continuations": 1}
    run_modes(subject(), PARTS, sizes, results, keep=lambda: kept.append(1), tell=lambda line: None)
    assert [len(results.rows[part]) for part in PARTS[1:]] == [11, 4, 5]
    assert kept and results.judged == {"before": [0, 1], "after": [0, 1]}  # a random model is never right both ways
    assert [row["third"] for row in summary_of(results)["toggles"]] == ["first", "middle", "last"]
    assert "control: skill absent" in summary_text(results)
    assert len(list(islice(pairs(subject(), "after"), 2))) == 2
