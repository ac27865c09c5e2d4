"""`python -m pkv_agents`: commands are found, and what goes wrong is one line on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from pkv_agents import UnsupportedModelError
from pkv_agents import __main__ as program
from pkv_agents.kv import rope_table, support_table


def test_every_command_is_listed_without_the_heavy_libraries() -> None:
    code = "import sys; from pkv_agents.__main__ import main, commands; print([n for n, _ in commands()]); "
    code += "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    names, heavy = done.stdout.splitlines()
    assert "'support'" in names and heavy == "[]"


def test_support_prints_every_family_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["support"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for row in (*support_table(), *rope_table()):
        (line,) = [line for line in lines if line.partition(" ")[0] == row.name]
        assert line.split()[1] == ("refused" if row.refusal else "supported")
        assert line.endswith(row.refusal or row.note or "supported")


def test_support_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["support", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["families"] == [asdict(row) for row in support_table()]
    assert data["rope_types"] == [asdict(row) for row in rope_table()]


def command(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(options: Namespace) -> int:
        raise error

    def configure(parser: ArgumentParser) -> None:
        pass

    found: Any = SimpleNamespace(SUMMARY="fails", configure=configure, run=run)
    monkeypatch.setattr(program, "commands", lambda: [("fail", found)])


@pytest.mark.parametrize(
    "error",
    [
        UnsupportedModelError("this model cannot be used"),
        ModuleNotFoundError("torch is needed: pip install 'pkv-agents[local]'", name="torch"),
    ],
)
def test_what_a_user_can_mend_is_one_line(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, error)
    assert program.main(["fail"]) == 2
    assert capsys.readouterr().err == f"pkv-agents: {error}\n"


@pytest.mark.parametrize("error", [KeyError("x"), ModuleNotFoundError("x", name="pkv_agents.nothing")])
def test_a_fault_of_ours_keeps_its_traceback(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, error)
    with pytest.raises(type(error)):
        program.main(["fail"])


def test_an_unknown_command_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["suport"])
    assert ended.value.code == 2
    assert "support" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="a pipe that closes early")
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    line = f"{sys.executable} -m pkv_agents support | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.startswith("model_type") and done.stderr == ""
