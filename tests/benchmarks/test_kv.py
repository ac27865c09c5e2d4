"""The benchmark of KV operations: every operation has its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._frame import read_json
from benchmarks.kv import main


def test_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--tokens", "64", "--json", str(tmp_path / "kv.json")]) == 0
    data = read_json(tmp_path / "kv.json")
    rows = data["rows"]
    assert isinstance(rows, list) and len(rows) == 11
    assert set(rows[0]) == {"operation", "tokens", "ttft_s", "speedup_to_full", "ratio_to_floor"}
    by_name = {row["operation"]: row for row in rows}
    assert by_name["full"]["speedup_to_full"] == by_name["floor"]["ratio_to_floor"] == 1
    assert "splice from disk" in capsys.readouterr().out
