"""The benchmark for a GPU: its script runs here with a toy model, from any folder, and says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks._frame import BenchmarkError, read_json
from benchmarks.gpu import main

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"


@pytest.mark.slow
def test_the_script_runs_quickly_on_a_cpu(tmp_path: Path) -> None:
    done = subprocess.run(
        [SCRIPT, "--quick", "--threads", "1", "--json", str(tmp_path / "gpu.json")],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data = read_json(tmp_path / "gpu.json")
    rows = data["rows"]
    assert isinstance(rows, list)
    wanted = ["full", "floor", "erratum", "in_place", "splice", "decode, slab", "decode, concatenated"]
    assert [row["operation"] for row in rows] == wanted
    assert set(rows[0]) == {"operation", "tokens", "ttft_s", "speedup_to_full", "ratio_to_floor"}
    (check,) = data["checks"]  # pyright: ignore[reportGeneralTypeIssues]
    assert check["tokens"] == 256 and check["erratum_to_cold"] < 1e-3 and check["waits_full"] is None
    assert "speed-up to full" in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_large_model_is_not_made() -> None:
    with pytest.raises(BenchmarkError, match="--quick"):
        main([])


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho transformers\n")
    python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(python)}
    done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "has no transformers" in done.stderr and "pkv-agents[local]" in done.stderr
