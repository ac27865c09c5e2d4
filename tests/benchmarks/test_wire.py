"""The wire benchmark: costs that were computed by hand, arms that are what they say, and a file with its shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import benchmarks.wire as benchmark
from benchmarks._appended import Growth, growth, wordings
from benchmarks._frame import read_json
from benchmarks._placements import ARMS, Encoder, Sent, Setting, state_text
from benchmarks._traces import Cell, Step, Trace, cells, make_trace
from benchmarks._wire_report import Row, losses, reason_of
from pkv_agents import ANTHROPIC, OPENAI_5_6, CacheSim, Message, Profile, TrackedState, diff, snapshot

AUTOMATIC = Profile("one", block_tokens=1, read_multiplier=0.1)
MARKED = replace(ANTHROPIC, min_cacheable_tokens=None)
IMPLICIT = replace(OPENAI_5_6, min_cacheable_tokens=None)
SHORT_CELL = Cell("frequent", "distinct", 6, "small")


class Tiny(TrackedState):
    status: str


def hand_made() -> Trace:
    """Two turns, one change. Each text has one token, each message one more for its role, the tools two in all."""
    history = (Message("user", "uuuu"), Message("assistant", "aaaa"), Message("user", "vvvv"))
    steps = (
        Step(0, 1, snapshot(Tiny(status="a")), "AAAA", 0.0),
        Step(1, 3, snapshot(Tiny(status="b")), "BBBB", 30.0),
    )
    return Trace("tttt", "pppp", history, steps)


def sent_by(arm: str, profile: Profile, trace: Trace) -> list[Sent]:
    return list(ARMS[arm](Setting(trace, profile, Encoder())))


def buckets(arm: str, profile: Profile) -> list[tuple[int, int, int]]:
    """Read, written, fresh of each request of the hand-made trace."""
    sim = CacheSim(profile)
    outcomes = [sim.run(sent.request) for sent in sent_by(arm, profile, hand_made())]
    return [(outcome.read, outcome.written, outcome.fresh) for outcome in outcomes]


@pytest.mark.parametrize(
    ("arm", "first", "second", "cost"),
    [
        # tools 2, role 1 | state 1, policy 1, user 2, assistant 2, user 2
        ("rewrite_early", (0, 0, 7), (3, 0, 8), 15.3),
        # tools 2, role and policy 2 | state 1, ...
        ("rewrite_late", (0, 0, 7), (4, 0, 7), 14.4),
        # tools 2, system 2, user 2 | assistant 2, user 2, state 1
        ("tail_not_kept", (0, 0, 7), (6, 0, 5), 12.6),
        # tools 2, system 2, user and state 3 | assistant 2, user and state 3
        ("tail_kept", (0, 0, 7), (7, 0, 5), 12.7),
    ],
)
def test_an_automatic_cache_by_hand(
    arm: str, first: tuple[int, int, int], second: tuple[int, int, int], cost: float
) -> None:
    assert buckets(arm, AUTOMATIC) == [first, second]
    (row,) = benchmark.rows_of({"one": AUTOMATIC}, "hand", arm, [hand_made()], Encoder(), "json")
    assert row.cost == pytest.approx(cost)
    assert row.cost_per_turn == pytest.approx(cost / 2, abs=0.051)
    assert (row.turns, row.requests, row.first_tokens) == (2, 2, 7)
    assert row.cached_share == pytest.approx(second[0] / (7 + sum(second)), abs=1e-4)


@pytest.mark.parametrize(
    ("arm", "first", "second"),
    [
        ("rewrite_early", (0, 7, 0), (2, 9, 0)),  # the tools' marker
        ("rewrite_late", (0, 7, 0), (4, 7, 0)),  # the policy's
        ("tail_not_kept", (0, 6, 1), (6, 4, 1)),  # the newest stands before the state, which is never written
        ("tail_kept", (0, 7, 0), (7, 5, 0)),
    ],
)
@pytest.mark.parametrize("profile", [MARKED, IMPLICIT], ids=["anthropic", "openai-5.6"])
def test_a_marked_cache_by_hand(
    arm: str, first: tuple[int, int, int], second: tuple[int, int, int], profile: Profile
) -> None:
    assert buckets(arm, profile) == [first, second]


@pytest.mark.parametrize("profile", [AUTOMATIC, MARKED, IMPLICIT], ids=["automatic", "anthropic", "openai-5.6"])
def test_ours_reads_all_of_the_request_before(profile: Profile) -> None:
    sim, before = CacheSim(profile), 0
    for sent in sent_by("ours", profile, make_trace(SHORT_CELL)):
        outcome = sim.run(sent.request)
        assert outcome.read == before
        before = len(sent.request.tokens)


@pytest.mark.parametrize("cell", [SHORT_CELL, replace(SHORT_CELL, turns=40, clock=True)])
def test_ours_only_appends_within_an_epoch(cell: Cell) -> None:
    before: tuple[Message, ...] = ()
    for sent in sent_by("ours", ANTHROPIC, make_trace(cell)):
        if sent.rebased is None:
            assert sent.messages[: len(before)] == before
        before = sent.messages


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_tells_the_state_of_every_request(arm: str) -> None:
    trace = make_trace(SHORT_CELL)
    for step, sent in zip(trace.steps, sent_by(arm, MARKED, trace), strict=True):
        text = "\n".join(message.text for message in sent.messages)
        assert step.state.leaves["note"] in text
        if arm != "ours":
            assert text.rindex(step.data) >= 0 and trace.policy in text
        assert len(sent.request.breakpoints) <= 4


@pytest.mark.parametrize("cell", cells()[::3], ids=lambda cell: cell.name)
def test_a_cell_is_what_its_name_says(cell: Cell) -> None:
    trace = make_trace(cell)
    assert trace == make_trace(cell) != make_trace(cell, seed=1)
    assert trace.turns == cell.turns
    moved = [
        sum(change.path != "now" for change in diff(one.state, two.state))
        for one, two in zip(trace.steps, trace.steps[1:], strict=False)
    ]
    told = [number for number in moved if number]
    assert max(told) <= 3
    assert len(told) == (cell.turns - 1 if cell.changes == "frequent" else -(-(cell.turns - 3) // 8))
    states = {tuple(item for item in step.state.leaves.items() if item[0] != "now") for step in trace.steps}
    assert len(states) <= 4 if cell.values == "recurring" else len(states) == len(told) + 1
    gaps = [two.at - one.at for one, two in zip(trace.steps, trace.steps[1:], strict=False)]
    assert max(gaps) < 70 if cell.gaps == "warm" else max(gaps) > 300 or cell.turns < 40
    assert ("now" in trace.steps[0].state.leaves) == cell.clock


def test_a_state_as_others_write_it() -> None:
    step = hand_made().steps[0]
    assert state_text(step, "json") == "AAAA"
    assert state_text(step, "lines") == '<state>\nstatus: "a"\n</state>'


def test_providers_that_are_sent_the_same_are_sent_it_once() -> None:
    known = {"a": MARKED, "one": AUTOMATIC, "b": replace(MARKED, name="b"), "four": replace(AUTOMATIC, block_tokens=4)}
    assert [list(group) for group in benchmark.groups("tail_kept", known)] == [["a", "b"], ["one", "four"]]
    assert [list(group) for group in benchmark.groups("ours", known)] == [["a"], ["one"], ["b"], ["four"]]
    trace = make_trace(SHORT_CELL)
    for arm in ("rewrite_early", "rewrite_late", "tail_not_kept", "tail_kept"):
        for group in benchmark.groups(arm, known):
            together = benchmark.rows_of(group, "x", arm, [trace], Encoder(), "json")
            alone = [benchmark.rows_of({it: group[it]}, "x", arm, [trace], Encoder(), "json") for it in group]
            assert [[row] for row in together] == alone


def test_a_loss_says_what_is_paid_for() -> None:
    (own,) = benchmark.rows_of({"one": AUTOMATIC}, "hand", "ours", [hand_made()], Encoder(), "json")
    best = replace(own, arm="tail_kept", cost=own.cost / 2)
    assert reason_of(replace(own, rebases=1), best) == "1 rebase"
    assert reason_of(own, replace(best, first_tokens=own.first_tokens - 9)) == "head +9"
    longer = replace(own, input_tokens=own.input_tokens + 50)
    assert reason_of(longer, best) == "history +25"
    (loss,) = losses([own, best])
    assert (loss.best, loss.ratio) == ("tail_kept", 2.0)
    assert losses([own, replace(best, cost=own.cost)]) == []


def test_a_change_is_told_in_one_short_line_that_names_its_path() -> None:
    errata, json_diff, _ = wordings()
    assert errata.changes == 30 and errata.longest_line <= 120
    assert errata.deep_named == errata.deep == 15
    assert json_diff.deep_named == 0
    assert errata.per_change < json_diff.per_change


def test_a_transcript_stays_bounded() -> None:
    points = growth(120, every=40)
    assert [point.changes for point in points] == [40, 80, 120]
    assert points[-1].rebases >= 1
    assert points[-1].most < 2 * points[-1].baseline


def fewer(changes: int) -> list[Growth]:
    return growth(changes // 5, every=10)


def test_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(benchmark, "cells", lambda: (SHORT_CELL,))
    monkeypatch.setattr(benchmark, "PROVIDERS", {"a": ("anthropic", "claude-opus-5"), "no": ("nobody", "nothing")})
    monkeypatch.setattr(benchmark, "growth", fewer)
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        assert benchmark.main(["--quick", "--json", str(file)]) == 0
    data = read_json(files[0])
    assert data == read_json(files[1]), "the same again"
    assert set(data) == {"benchmark", "format", "rendering", "rows", "totals", "losing", "appended", "growth"}
    rows = data["rows"]
    assert isinstance(rows, list) and [row["arm"] for row in rows] == list(ARMS)
    assert {row["profile"] for row in rows} == {"a"}, "a provider without a profile is left out"
    assert set(rows[0]) == set(Row.__slots__)
    assert all(len(line) <= 110 for line in capsys.readouterr().out.splitlines())
