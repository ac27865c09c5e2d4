"""The frame of every benchmark: files, tables, options, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._frame import (
    BenchmarkError,
    Pace,
    options_parser,
    read_json,
    run_benchmark,
    table,
    tenth,
    this_machine,
    write_json,
)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "rows.json"
    write_json(file, {"rows": [1]})
    with pytest.raises(ValueError, match="JSON"):
        write_json(file, {"rows": [float("nan")]})
    with pytest.raises(TypeError):
        write_json(file, {"rows": object()})
    assert read_json(file) == {"rows": [1]}
    assert [path.name for path in file.parent.iterdir()] == ["rows.json"]


def test_what_cannot_be_read_or_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "cut.json").write_text('{"rows": [', encoding="utf-8")
    for name, words in (("none.json", "cannot read"), ("cut.json", "no JSON file"), ("list.json", "no JSON object")):
        with pytest.raises(BenchmarkError, match=words):
            read_json(tmp_path / name)
    with pytest.raises(BenchmarkError, match="cannot write"):
        write_json(tmp_path / "list.json" / "below.json", {})


def test_a_table_lines_up() -> None:
    assert table(("cell", "n"), [("short", 12), ("a long one", 3)]) == (
        "cell         n\n--------------\nshort       12\na long one   3"
    )


@pytest.mark.parametrize("arguments", [["--threads", "0"], ["--threads", "-1"], ["--threads", "two"], ["--what"]])
def test_bad_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options_parser("what").parse_args(arguments)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_errors_become_a_line_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(error: BaseException) -> int:
        raise error

    assert run_benchmark(lambda: 0) == 0
    assert run_benchmark(lambda: fail(BenchmarkError("no adapter"))) == 1
    assert run_benchmark(lambda: fail(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "error: no adapter\ninterrupted\n"
    with pytest.raises(ZeroDivisionError):  # a bug stays a traceback
        run_benchmark(lambda: fail(ZeroDivisionError()))


def test_the_machine_says_what_it_is() -> None:
    machine = this_machine(dtype="float32")
    assert machine.cores >= 1
    assert "float32" in str(machine)
    assert "\n" not in str(machine)


def test_small_things() -> None:
    assert [tenth(number) for number in (0, 4, 40, 200)] == [0, 1, 4, 20]
    assert Pace(3.0).advance(3.0) == "0 s left"
