"""Rows on disk: their shape, going on from them, and refusing those that are not ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks._arms import Row, run_case
from benchmarks._cases import Case
from benchmarks._frame import BenchmarkError, read_json
from benchmarks._model import Loaded
from benchmarks._summary import summarise, summary_text
from benchmarks.parity import Results, former_rows, main
from pkv_agents.local import LocalModel
from tests.benchmarks.reader import reader
from tests.benchmarks.support import IDENTITY, MACHINE, row_of


@pytest.fixture
def rows() -> list[Row]:
    return [*(row_of(seed) for seed in range(8)), row_of(0, head="long"), row_of(3, phrasing="held_out")]


def saved(path: Path, rows: list[Row]) -> Path:
    Results(IDENTITY, MACHINE, file=path, rows=rows).save(finished=False)
    return path


def keys(data: Any) -> Iterator[str]:
    """Every key, but for the arguments of tools."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from keys(value)
    elif isinstance(data, list):
        for value in data:
            yield from keys(value)


def test_the_file_has_its_shape(tmp_path: Path, rows: list[Row]) -> None:
    data = read_json(saved(tmp_path / "rows.json", rows))
    assert set(data) == {"benchmark", "format", "finished", "identity", "machine", "summary", "rows"}
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in keys(data))
    (first, *_) = data["rows"]  # pyright: ignore[reportGeneralTypeIssues] -- JSON
    assert {"seed", "head", "phrasing", "kind", "rewritten", "ours", "stale", "agree"} <= set(first)
    assert first["ours"]["margin"] is None  # not finite
    assert {"tool", "arguments", "right", "prompt_tokens", "cached_tokens", "seconds"} <= set(first["ours"])


def test_rows_come_back_as_they_were(tmp_path: Path, rows: list[Row]) -> None:
    assert former_rows(saved(tmp_path / "rows.json", rows), IDENTITY) == rows


@pytest.mark.parametrize("name", sorted(IDENTITY))
def test_rows_of_something_else_are_refused(tmp_path: Path, rows: list[Row], name: str) -> None:
    file = saved(tmp_path / "rows.json", rows[:1])
    with pytest.raises(BenchmarkError, match="another model, adapter or version"):
        former_rows(file, {**IDENTITY, name: "other"})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"benchmark": "wire"}, "no results of this benchmark"),
        ({"format": 99}, "no results of this benchmark"),
        ({"rows": [{"seed": 1}]}, "damaged"),
        ({"rows": None}, "damaged"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, rows: list[Row], changed: dict[str, object], words: str
) -> None:
    file = saved(tmp_path / "rows.json", rows[:1])
    file.write_text(json.dumps({**read_json(file), **changed}), encoding="utf-8")
    with pytest.raises(BenchmarkError, match=words):
        former_rows(file, IDENTITY)


def test_rows_of_another_drawing_are_refused(tmp_path: Path, rows: list[Row]) -> None:
    file = saved(tmp_path / "rows.json", rows[:1])
    file.write_text(file.read_text(encoding="utf-8").replace(rows[0].case, "0" * 12), encoding="utf-8")
    with pytest.raises(BenchmarkError, match="asked something else at seed 0"):
        former_rows(file, IDENTITY)


def test_the_table_says_what_the_rows_say() -> None:
    rows = [row_of(seed, ours_right=seed != 0) for seed in range(8)]
    lines = {line.cell: line for line in summarise(rows)}
    assert set(lines) == {
        "short  flip",
        "short  irrelevant",
        "short  back and forth",
        "short  several",
        "short  all",
        "all, trained phrasing",
    }
    assert (lines["short  flip"].n, lines["short  flip"].agreement.mean) == (2, 0.5)
    assert lines["short  flip"].stale.mean == 0.0
    assert lines["short  irrelevant"].stale.mean == 1.0
    assert lines["short  back and forth"].stale.mean == 0.5  # A-B-A is right without being told
    whole = lines["all, trained phrasing"]
    assert (whole.n, whole.rewritten.mean, whole.ours.mean, whole.agreement_where_right.mean) == (8, 1.0, 7 / 8, 7 / 8)
    assert "0.50 0.00-1.00" in summary_text(rows)


class Seer:
    """An engine that reads whichever case is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, stop_at: int | None = None) -> None:
        self.seen: list[int] = []

        def read(engine: object, case: Case) -> Row:
            if case.seed == stop_at:
                raise KeyboardInterrupt
            self.seen.append(case.seed)
            return run_case(reader(case), case)

        def load(folder: object, adapter: object, *, threads: object) -> Loaded:
            return Loaded(cast("LocalModel", self), IDENTITY)

        monkeypatch.setattr("benchmarks.parity.run_case", read)
        monkeypatch.setattr("benchmarks.parity.load_model", load)


def test_an_interrupted_run_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    few = ["--seeds", "8", "--long-seeds", "0", "--phrasing-seeds", "0"]
    with monkeypatch.context() as patched:
        Seer(patched, stop_at=5)
        with pytest.raises(KeyboardInterrupt):
            main([*few, "--json", str(file)])
    assert read_json(file)["finished"] is False
    assert "5 of 8 seeds" in capsys.readouterr().out
    with monkeypatch.context() as patched:
        rest = Seer(patched)
        assert main([*few, "--resume", str(file)]) == 0
    assert rest.seen == [5, 6, 7]
    data = read_json(file)
    assert data["finished"] is True
    assert [row["seed"] for row in data["rows"]] == list(range(8))  # pyright: ignore[reportGeneralTypeIssues] -- JSON
    out = capsys.readouterr().out
    assert "all, trained phrasing" in out
    assert "8/8, 0 s left" in out


def test_quick_is_a_tenth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seer = Seer(monkeypatch)
    assert main(["--quick", "--seeds", "40", "--long-seeds", "10", "--phrasing-seeds", "10"]) == 0
    assert seer.seen == [0, 1, 2, 3, 0, 0]


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no model can be loaded from"):
        main(["--model", str(tmp_path), "--adapter", "none"])
