"""The parity of modes: tables and targets, on rows that are made up."""

from __future__ import annotations

from benchmarks._modes_edits import EditRow
from benchmarks._modes_long import ToggleRow
from benchmarks._modes_results import ModeResults
from benchmarks._modes_splice import SpliceRow
from benchmarks._modes_summary import recovery, summary_of
from benchmarks._modes_targets import targets_of

SHARES = {
    ("before", "stale"): 0,
    ("before", "in_place"): 2,
    ("before", "erratum"): 9,
    ("after", "in_place"): 8,
    ("skill", "in_place"): 4,
    ("skill", "erratum"): 9,
}


def results() -> ModeResults:
    made = ModeResults()
    made.begin("at_once").rows = [
        EditRow(seed, "at once", place, arm, None, seed < share, 0.5, 1.0)
        for (place, arm), share in SHARES.items()
        for seed in range(10)
    ]
    return made


def test_targets_of_edits_say_what_is_met() -> None:
    assert targets_of(results()) == [
        "at_once: field before the policy, stale flips 0.00, at most 0.1: met",
        "at_once: field before the policy, in_place flips 0.20, at most 0.1: missed",
        "at_once: field before the policy, erratum flips 0.90, at least 0.85: met",
        "at_once: field after the policy, in_place flips 0.80, at least 0.85: missed",
        "at_once: in_place in a spliced skill, +0.20 of flips, within 0.1: missed",
        "at_once: erratum in a spliced skill, +0.00 of flips, within 0.1: met",
    ]


def test_recovery_is_over_the_cases_that_were_measured_both_ways() -> None:
    rows = [row for row in results().rows("at_once") if row.place != "skill" or row.seed < 2]
    assert list(recovery(rows)) == [
        {"arm": "in_place", "n": 2, "clean": 1, "in_skill": 1, "differs": 0},
        {"arm": "erratum", "n": 2, "clean": 1, "in_skill": 1, "differs": 0},
    ]


def test_tables_are_of_what_was_measured() -> None:
    tables = summary_of(results())
    assert list(tables) == ["at_once", "recovery_at_once"]
    assert [row["field"] for row in tables["at_once"]] == ["before"] * 3 + ["after"] + ["skill"] * 2
    assert {row["names_new"] for row in tables["at_once"]} == {None}
    assert targets_of(ModeResults()) == []


def test_a_splice_is_judged_by_its_means_and_by_clear_decisions() -> None:
    made = ModeResults()
    made.begin("splice").rows = [
        SpliceRow(0, "1 skill", 9, 0.001, 0.002, True, True),
        SpliceRow(1, "1 skill", 9, 0.001, 0.02, False, False),
        SpliceRow(0, "control: skill absent", 9, 2.0, 2.0, False, True),
    ]
    assert targets_of(made) == [
        "splice, 1 skill: divergence 0.0010 at the end and 0.0110 at the tool, at most 0.005: met and missed; "
        "clear decisions agree: met"
    ]


def test_thirds_are_of_turns_and_not_of_rows() -> None:
    made = ModeResults()
    made.begin("toggles").rows = [ToggleRow(seed, turn, 9, turn > 0, True) for seed in (1, 2) for turn in range(7)]
    assert [(row["turns"], row["agree"]) for row in summary_of(made)["toggles"]] == [(4, 2), (6, 6), (4, 4)]
    assert [line.rpartition(": ")[2] for line in targets_of(made)] == ["met", "met"]
