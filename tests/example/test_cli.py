"""The program: options, exit codes, and one line for each mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from examples.support_agent import __main__ as program
from examples.support_agent import models
from examples.support_agent.arms import ARMS
from examples.support_agent.models import Choice
from examples.support_agent.scenario import TURNS
from tests.example.readers import PerfectReader, Scripted, choice_of
from tests.example.test_models import save_adapter, save_model
from tests.guards.repo import ROOT


def invoke(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "150"}).invoke(program.app, list(arguments))


def one_line(result: Any, code: int) -> str:
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    lines = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.output
    return lines[0]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a model in place of the one that would be loaded."""

    def put(choice: Choice) -> None:
        def chosen(spec: str, *, adapter: str | None = None, models: Any = None) -> Choice:
            return choice

        monkeypatch.setattr(models, "choose_model", chosen)

    return put


def test_the_programs_constants_are_the_scripts() -> None:
    """They are repeated there, so that `--help` answers without loading anything."""
    assert program.ARM_NAMES == ARMS
    assert len(TURNS) == program.TURN_COUNT


def test_a_run_leaves_report_and_data(choose: Any, tmp_path: Path) -> None:
    choose(choice_of(PerfectReader))
    html = tmp_path / "out" / "report.html"
    result = invoke("--model", "x", "--turns", "2", "--arms", "ours,rewrite_late", "--html", str(html))
    assert result.exit_code == 0, result.output
    assert html.is_file()
    data = json.loads(html.with_suffix(".json").read_text())
    assert data["arms"] == ["rewrite_late", "ours"]
    assert "Totals" in result.stdout
    assert str(html) in result.stdout


def test_the_other_framework(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "tiny", max_position_embeddings=32768)
    html = tmp_path / "r.html"
    options = ["--turns", "1", "--arms", "ours,stale", "--html", str(html), "--framework", "llama_index"]
    result = invoke("--model", str(folder), *options)
    assert result.exit_code == 0, result.output
    assert "agent: LlamaIndex" in result.stdout
    assert "with a LlamaIndex agent" in html.read_text()
    assert json.loads(html.with_suffix(".json").read_text())["framework"] == "LlamaIndex"


def test_json_and_no_plots(choose: Any, tmp_path: Path) -> None:
    choose(choice_of(PerfectReader))
    html, data = tmp_path / "r.html", tmp_path / "d.json"
    options = ["--turns", "1", "--arms", "ours", "--html", str(html), "--json", str(data), "--no-plots"]
    assert invoke("--model", "x", *options).exit_code == 0
    assert "<svg" not in html.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.json", "r.html"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--arms", "ours,yours"], "unknown arm 'yours'"),
        (["--arms", ","], "name each arm once"),
        (["--arms", "ours,ours"], "name each arm once"),
        (["--turns", "0"], "turns is 0"),
        (["--turns", "13"], "turns is 13"),
        (["--framework", "none"], "unknown framework 'none'; there are langchain, llama_index"),
    ],
)
def test_wrong_options(options: list[str], says: str) -> None:
    assert says in one_line(invoke(*options), 2)


def test_interrupted_in_the_middle(choose: Any, tmp_path: Path) -> None:
    first = [("cancel_order", {"order_id": "M802"})]
    choose(choice_of(lambda: Scripted(script=[first, KeyboardInterrupt()])))
    result = invoke("--model", "x", "--html", str(tmp_path / "r.html"))
    assert "interrupted" in one_line(result, 130)
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written(choose: Any, tmp_path: Path) -> None:
    choose(choice_of(PerfectReader))
    (tmp_path / "file").write_text("")
    result = invoke("--model", "x", "--turns", "1", "--arms", "ours", "--html", str(tmp_path / "file" / "r.html"))
    assert "cannot write" in one_line(result, 1)


def test_models_that_cannot_be_used(tmp_path: Path) -> None:
    common = ["--turns", "1", "--html", str(tmp_path / "r.html"), "--model"]
    bare = save_model(tmp_path / "bare", template=False)
    assert "no chat template" in one_line(invoke(*common, str(bare)), 1)
    short = save_model(tmp_path / "short", max_position_embeddings=512)
    assert "context ends at 512" in one_line(invoke(*common, str(short)), 1)
    other = save_adapter(tmp_path / "adapter", width=576)
    assert "for another model" in one_line(invoke(*common, str(short), "--adapter", str(other)), 1)
    assert "cannot load" in one_line(invoke(*common, str(tmp_path / "nothing")), 1)
    assert not (tmp_path / "r.html").exists()


@pytest.mark.slow
def test_no_network_and_no_model(tmp_path: Path) -> None:
    """In a process of its own, with an index and a hub that are not there."""
    environment = os.environ | {
        "PKV_CACHE": str(tmp_path / "cache"),
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("PIP_EXTRA_INDEX_URL", None)
    command = [sys.executable, "-m", "examples.support_agent", "--html", str(tmp_path / "r.html")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: no embedded model in") == 1
    assert not (tmp_path / "r.html").exists()
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


@pytest.mark.slow
def test_a_random_model_plays(tmp_path: Path) -> None:
    """Real weights, real engine, real graph; only the sense is missing."""
    folder = save_model(tmp_path / "tiny", max_position_embeddings=32768)
    html = tmp_path / "r.html"
    result = invoke("--model", str(folder), "--turns", "2", "--arms", "rewrite,ours", "--html", str(html))
    assert result.exit_code == 0, result.output
    totals = json.loads(html.with_suffix(".json").read_text())["totals"]
    assert totals["ours"]["cached_share_after_first"] > 0.9
    assert totals["rewrite"]["cached_share_after_first"] < 0.2
    assert all(sums["ttft_p50_s"] > 0 for sums in totals.values())
