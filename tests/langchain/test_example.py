"""The example that wraps an existing agent: what changed in it, and what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples import wrap_existing_agent

EXAMPLE = Path(wrap_existing_agent.__file__)


def test_five_lines_at_most_changed() -> None:
    changed = [line for line in EXAMPLE.read_text(encoding="utf-8").splitlines() if re.search(r"  # \+", line)]
    assert 0 < len(changed) <= 5
    readme = (EXAMPLE.parents[1] / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("```diff\n")[2].partition("```")[0].splitlines()
    assert [line[1:] for line in shown if line.startswith("+")] == [line.partition("  # +")[0] for line in changed]


def test_two_customers_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrap_existing_agent.main()
    mara, jon, calls = capsys.readouterr().out.strip().split("\n\n")
    assert mara.splitlines() == ["K417: in the warehouse.", "K417: delivered.", "K417: delivered."]
    assert jon.splitlines() == ["P101: in the warehouse.", "P101: cancelled.", "P101: cancelled."]
    told = [line.partition("told: ")[2] for line in calls.splitlines()]
    assert len(told) == 7 and sum(line != "-" for line in told) == 2
    assert len([line for line in calls.splitlines() if line.strip().startswith("0.0 %")]) == 2  # each one's first
