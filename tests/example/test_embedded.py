"""The embedded model's cache: whole or absent, whatever happens while it is fetched. The sources are fakes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from examples.support_agent import embedded
from examples.support_agent.embedded import MARKER, NAME, ensure_model, find_model
from pkv_agents import ModelError
from tests.example.fakes import FakeSource, Raises, rest


def test_fetches_once_and_then_finds_it(tmp_path: Path) -> None:
    source = FakeSource()
    folder = ensure_model(cache=tmp_path, sources=[source])
    assert folder == tmp_path / NAME
    assert ensure_model(cache=tmp_path, sources=[]) == folder == find_model(tmp_path, full=True)
    assert source.built == 1
    assert rest(tmp_path) == [NAME]
    assert json.loads((folder / MARKER).read_text())["source"] == "fake"


def test_nothing_is_found_in_an_empty_cache_and_nothing_is_made(tmp_path: Path) -> None:
    assert find_model(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_the_next_source_is_asked_when_one_fails(tmp_path: Path) -> None:
    first = FakeSource(instead=Raises(ModelError("no index here")))
    folder = ensure_model(cache=tmp_path, sources=[first, FakeSource(name="second")])
    assert json.loads((folder / MARKER).read_text())["source"] == "second"
    assert "second" in (folder / "config.json").read_text()


def test_no_source_has_it_is_one_line_with_every_reason(tmp_path: Path) -> None:
    sources = [FakeSource(instead=Raises(ModelError(f"reason {n}"))) for n in (1, 2)]
    with pytest.raises(ModelError) as caught:
        ensure_model(cache=tmp_path, sources=sources)
    message = str(caught.value)
    assert "reason 1; reason 2" in message
    assert "PKV_CACHE" in message
    assert "\n" not in message
    assert rest(tmp_path) == []


def test_a_source_that_forgets_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"fake came without model\.safetensors"):
        ensure_model(cache=tmp_path, sources=[FakeSource(files=("config.json", "tokenizer.json"))])
    assert rest(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a bug"), SystemExit(3)])
def test_an_interrupt_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        ensure_model(cache=tmp_path, sources=[FakeSource(instead=Raises(error))])
    assert rest(tmp_path) == []
    assert ensure_model(cache=tmp_path, sources=[FakeSource()]).is_dir()  # and the lock is free again


def test_a_full_disk_is_our_error_and_names_the_folder(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with pytest.raises(ModelError, match="No space left on device") as caught:
        ensure_model(cache=tmp_path, sources=[FakeSource(instead=Raises(full))])
    assert str(tmp_path) in str(caught.value)
    assert rest(tmp_path) == []


def test_a_cache_folder_that_is_a_file_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="PKV_CACHE"):
        ensure_model(cache=tmp_path / "file", sources=[FakeSource()])


def truncate(folder: Path) -> None:
    (folder / "model.safetensors").write_text("")


def change_a_small_file(folder: Path) -> None:
    config = folder / "config.json"
    config.write_text(config.read_text().swapcase())


def lose_a_file(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def lose_the_marker(folder: Path) -> None:
    (folder / MARKER).unlink()


def break_the_marker(folder: Path) -> None:
    (folder / MARKER).write_text('{"format": 1, "files": [')


def marker_of_another_shape(folder: Path) -> None:
    (folder / MARKER).write_text('["files"]')


def marker_from_the_future(folder: Path) -> None:
    marker = json.loads((folder / MARKER).read_text())
    (folder / MARKER).write_text(json.dumps(marker | {"format": 2}))


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        change_a_small_file,
        lose_a_file,
        lose_the_marker,
        break_the_marker,
        marker_of_another_shape,
        marker_from_the_future,
    ],
)
def test_a_damaged_folder_is_noticed_and_fetched_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = ensure_model(cache=tmp_path, sources=[FakeSource()])
    damage(folder)
    assert find_model(tmp_path) is None
    again = FakeSource(name="again")
    assert ensure_model(cache=tmp_path, sources=[again]) == folder
    assert again.built == 1
    assert "again" in (folder / "model.safetensors").read_text()


def test_a_damaged_folder_stays_when_nothing_better_can_be_had(tmp_path: Path) -> None:
    folder = ensure_model(cache=tmp_path, sources=[FakeSource()])
    lose_the_marker(folder)
    with pytest.raises(ModelError):
        ensure_model(cache=tmp_path, sources=[FakeSource(instead=Raises(ModelError("offline")))])
    assert (folder / "model.safetensors").exists()


def test_the_full_check_reads_the_large_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "SMALL", 4)
    folder = ensure_model(cache=tmp_path, sources=[FakeSource()])
    weights = folder / "model.safetensors"
    weights.write_text(weights.read_text().swapcase())
    assert find_model(tmp_path) == folder
    assert find_model(tmp_path, full=True) is None


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    left = tmp_path / f".{NAME}-abc" / "model"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_text("half")
    ensure_model(cache=tmp_path, sources=[FakeSource()])
    assert rest(tmp_path) == [NAME]


def test_a_rich_display_is_left_empty(tmp_path: Path) -> None:
    with embedded.progress_bar(Console(file=io.StringIO())) as progress:
        ensure_model(progress, cache=tmp_path, sources=[FakeSource()])
        assert progress.tasks == []


# The program.


def test_main_tells_one_line_and_exits_1_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PKV_CACHE", str(tmp_path))
    offline = FakeSource(instead=Raises(ModelError("no [index] here")))
    monkeypatch.setattr(embedded, "SOURCES", (offline,))
    assert embedded.main() == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.strip().startswith("error: ")
    assert "no [index] here" in captured.err
    assert "Traceback" not in captured.err


def test_main_on_ctrl_c_exits_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PKV_CACHE", str(tmp_path))
    monkeypatch.setattr(embedded, "SOURCES", (FakeSource(instead=Raises(KeyboardInterrupt())),))
    assert embedded.main() == 130
    assert "interrupted" in capsys.readouterr().err
    assert rest(tmp_path) == []


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PKV_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert embedded.cache_folder() == tmp_path / "xdg" / "pkv-agents"
    monkeypatch.setenv("PKV_CACHE", str(tmp_path / "mine"))
    assert embedded.cache_folder() == tmp_path / "mine"


@pytest.mark.embedded
@pytest.mark.slow
def test_the_real_model_loads_and_has_a_template(embedded_model: Path) -> None:
    hf: Any = import_module("transformers")
    tokenizer = hf.AutoTokenizer.from_pretrained(embedded_model)
    model = hf.AutoModelForCausalLM.from_pretrained(embedded_model)
    assert model.config.num_hidden_layers == 30
    assert str(model.dtype) == "torch.bfloat16"
    text = tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], tokenize=False)
    assert text.endswith("<|im_start|>user\nhello<|im_end|>\n")
