"""`python -m pkv_agents qualify`: a random model is not qualified, and the report says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkv_agents.__main__ import main
from pkv_agents.local import Qualification
from tests.local.tiny import tiny_llama, tiny_tokenizer


def test_a_random_model_is_not_qualified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, report = tmp_path / "model", tmp_path / "report.json"
    tiny_llama().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    assert main(["qualify", str(folder), "--shops", "1", "--report", str(report)]) == 1
    found = Qualification.load(report)
    assert found.reference == "full" and not found.allows("in_place")
    shown = capsys.readouterr()
    assert "errata followed" in shown.out and "shop 1 of 1" in shown.err


def test_a_folder_without_a_model_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["qualify", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("pkv-agents: no model can be loaded from")
