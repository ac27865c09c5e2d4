"""The overhead benchmark: what it measures is what it says, and the file has its shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._frame import read_json
from benchmarks.overhead import CHANGED, history_of, main, state_of
from pkv_agents import diff, snapshot


def test_a_state_has_so_many_fields_and_few_of_them_change() -> None:
    for fields in (12, 100):
        assert len(snapshot(state_of(fields))) == fields
    changes = diff(snapshot(state_of(100)), snapshot(state_of(100, "delivered")))
    assert len(changes) == CHANGED


@pytest.mark.parametrize("messages", [1, 10, 11])
def test_a_history_ends_with_the_user(messages: int) -> None:
    history = history_of(messages)
    assert len(history) == messages and history[-1].role == "user"


def test_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("benchmarks.overhead.FIELDS", (10, 20))
    monkeypatch.setattr("benchmarks.overhead.MESSAGES", (3, 5))
    assert main(["--quick", "--json", str(tmp_path / "o.json")]) == 0
    data = read_json(tmp_path / "o.json")
    rows = data["rows"]
    assert isinstance(rows, list) and len(rows) == 12
    assert set(rows[0]) == {"mode", "fields", "messages", "median_ms", "p99_ms", "calls"}
    assert "microseconds a message" in capsys.readouterr().out
