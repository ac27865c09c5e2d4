"""The benchmark of a floating memory: every turn has its rows, and what is computed anew costs what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._frame import BenchmarkError, read_json
from benchmarks.floating import load, main, question, record


def test_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--threads", "1", "--json", str(tmp_path / "floating.json")]) == 0
    data = read_json(tmp_path / "floating.json")
    rows, costs, summary = data["rows"], data["costs"], data["summary"]
    assert isinstance(rows, list) and isinstance(costs, dict) and isinstance(summary, list)
    assert len(rows) == 3 * 4 and [line["arm"] for line in summary] == ["floating", "absent", "floating, seam 16"]
    assert all(row["kl"] > -1e-5 for row in rows)
    bare, seamed = costs["seam 0"], costs["seam 16"]
    assert seamed["asked"] - bare["asked"] == bare["reused"] - seamed["reused"] == 4 * 3 * 16
    asked = sum(len(question(turn).encode()) for turn in range(1, 5))
    assert bare["asked"] == asked and bare["again"] == asked + 4 * 6 and bare["turns"] == 4
    assert "kl_last" in capsys.readouterr().out


def test_an_edit_changes_a_record() -> None:
    assert record(1, 0) == record(1, 0) != record(1, 2)


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no model can be loaded"):
        load(tmp_path, quick=False)
