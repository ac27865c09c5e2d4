"""The parity of modes: what the prompts of a pair are, and that every part of the run gives rows that come back."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from benchmarks._frame import BenchmarkError, write_json
from benchmarks._modes import Pair, Subject, common, divergence, pair_of, shop_cases
from benchmarks._modes_answers import CALLS_AT_ONCE, NAMES_FIELD
from benchmarks._modes_results import FORMAT, PARTS, ModeResults, former_results
from benchmarks._modes_run import SIZES, Loading, run_modes
from benchmarks._modes_splice import SEAMS
from benchmarks._modes_summary import summary_of, summary_text
from benchmarks._modes_targets import targets_of
from pkv_agents.kv import Composed, Edited
from tests.langchain.tiny import tiny_model

QUICK = dict.fromkeys(SIZES, 1) | {"turns": 3, "tokens": 2, "written": 3}


@cache
def subject() -> Subject:
    return Subject(tiny_model())


def one(place: str) -> Pair:
    return pair_of(next(shop_cases()), subject(), "before" if place == "before" else "after")


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
def test_every_part_gives_rows_that_come_back(tmp_path: Path) -> None:
    file, loaded = tmp_path / "modes.json", list[str]()
    results = ModeResults()

    def load(adapter: str) -> Loading:
        loaded.append(adapter)
        manner = CALLS_AT_ONCE if adapter == "at_once" else NAMES_FIELD
        return Loading(Subject(tiny_model(), manner), {"adapter": adapter}, {"cores": 1})

    def keep() -> None:
        write_json(file, {"benchmark": "parity modes", "format": FORMAT, "parts": results.data()})

    run_modes(load, PARTS, QUICK, results, keep=keep, tell=lambda line: None)
    assert loaded == ["shop", "at_once"]
    for part in ("edits", "at_once"):  # a random model is never right both ways
        assert results.pairs(part) == {"before": [0, 1], "after": [0, 1]} and not results.rows(part)
    assert {part: len(results.rows(part)) for part in PARTS[2:]} == {
        "splice": 21,
        "facts": 8,
        "toggles": 3,
        "amended": 3,
        "continuations": 5,
    }
    arms = [row.arm for row in results.rows("splice")]
    for kind in (f"{skills}, {behind}" for behind in ("preamble", "no preamble") for skills in ("1 skill", "4 skills")):
        assert [arm for arm in arms if arm.startswith(kind)] == [f"{kind}, seam {seam}" for seam in SEAMS]
    assert [arm for arm in arms if arm.startswith("control: ")] == arms[-3:]
    facts = [(row.facts, row.blocks) for row in results.rows("facts")]
    assert facts == [(name, blocks) for name in ("rule and state", "inside a rule") for blocks in (1, 1, 2, 2)]
    assert [row["third"] for row in summary_of(results)["toggles"]] == ["first", "middle", "last"]
    assert "control: skill absent" in summary_text(results, targets_of(results))
    again = former_results(file)
    assert again.data() == results.data()
    run_modes(load, ["facts"], {**QUICK, "facts": 0}, again, keep=keep, tell=lambda line: None)
    assert not again.rows("facts") and again.rows("splice") == results.rows("splice")


def test_parts_of_another_version_are_dropped_and_those_of_another_adapter_kept(tmp_path: Path) -> None:
    results = ModeResults()
    for part, adapter in (("edits", "a"), ("splice", "b"), ("at_once", "c")):
        results.begin(part).about = {"identity": {"adapter": adapter}}
    results.forget_others("facts", {"adapter": "b"}, ["edits", "splice", "facts"])
    assert list(results.data()) == ["at_once", "splice"]


def test_other_files_are_refused_and_older_ones_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "modes.json"
    assert not former_results(file).data()
    write_json(file, {"benchmark": "parity modes", "format": FORMAT - 1})
    assert not former_results(file).data()
    write_json(file, {"benchmark": "parity"})
    with pytest.raises(BenchmarkError, match="name another file"):
        former_results(file)
    write_json(file, {"benchmark": "parity modes", "format": FORMAT, "parts": {"facts": {"rows": [{}], "pairs": {}}}})
    with pytest.raises(BenchmarkError, match="damaged"):
        former_results(file)
