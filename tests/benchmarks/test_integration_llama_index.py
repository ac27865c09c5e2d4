"""The integration benchmark through LlamaIndex's agents: nothing breaks unreported, on real payloads."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks._frame import read_json
from benchmarks._integration_run import integration, measure


@pytest.mark.parametrize("model", ["openai chat gpt-4.1", "anthropic opus 4.8"])
def test_llama_index_breaks_nothing_unreported(model: str) -> None:
    """In one process; the resume is a new context of what the first one's `to_dict` gave."""
    own, late, early = measure("llama_index", only=[model], resume="here")
    assert (own.arm, own.requests, own.breaks, own.unreported) == ("ours", 42, 0, 0)
    assert late.breaks == early.breaks == 12
    assert own.cached_share > 0.95 > late.cached_share


@pytest.mark.slow
def test_llama_index_in_two_processes(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert integration("llama_index", is_quick=True, file=tmp_path / "rows.json") == 0
    rows: Any = read_json(tmp_path / "rows.json")["rows"]
    ours = [row for row in rows if row["arm"] == "ours"]
    assert len(ours) >= 3 and all(row["unreported"] == 0 and row["requests"] == 42 for row in ours)
    assert "target met" in capsys.readouterr().out
