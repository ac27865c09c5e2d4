"""The model that benchmarks run on: the embedded one with the shop's adapter merged into it, in float32."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks._frame import BenchmarkError, version_of
from examples.support_agent.embedded import ensure_model, progress_bar
from examples.support_agent.models import ADAPTER, NO_ADAPTER, with_adapter
from pkv_agents.local import LocalModel


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model, ready.

    Attributes:
        engine: The model.
        identity: What has to be equal for two runs to be about the same thing.
        model: The model as transformers has it, for engines with other settings.
    """

    engine: LocalModel
    identity: Mapping[str, str]
    model: object = None


def load_model(folder: Path | None, adapter: Path | None, *, threads: int | None = None) -> Loaded:
    """Load a model as `load_parts` does, as an engine, with what identifies it.

    Args:
        folder: See `load_parts`.
        adapter: See `load_parts`.
        threads: torch threads; None leaves torch's own choice.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    model, tokenizer = load_parts(folder, adapter)
    engine, chosen = LocalModel(model, tokenizer), adapter or ADAPTER
    weights = chosen / "adapter_model.safetensors"
    digest = "none" if adapter == Path(NO_ADAPTER) else hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    identity = {
        "pkv_agents": version_of("pkv-agents"),
        "torch": version_of("torch"),
        "transformers": version_of("transformers"),
        "fingerprint": engine.fingerprint,
        "adapter": digest,
        "dtype": "float32",
    }
    return Loaded(engine, identity, model)


def load_parts(folder: Path | None, adapter: Path | None) -> tuple[object, object]:
    """Load a model in float32 with an adapter merged into it, and its tokenizer.

    Args:
        folder: The model's folder; None for PKV_EMBEDDED_MODEL, else the embedded model, fetched if need be.
        adapter: The adapter's folder; None for the shop's own, `Path("none")` for no adapter.

    Raises:
        BenchmarkError: There is no such model.
        PkvError: There is no such adapter, the engine refuses the model, or it cannot be fetched.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from pkv_agents.kv import keep_freed_memory

    keep_freed_memory()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = folder or _embedded()
    try:
        model = cast("Any", AutoModelForCausalLM).from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        tokenizer = cast("Any", AutoTokenizer).from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"no model can be loaded from {folder}: {str(error).partition(chr(10))[0]}") from error
    if adapter != Path(NO_ADAPTER):
        model = with_adapter(model, adapter or ADAPTER)
    return model.eval(), tokenizer


def _embedded() -> Path:
    if named := os.environ.get("PKV_EMBEDDED_MODEL"):
        return Path(named)
    from rich.console import Console

    with progress_bar(Console(file=sys.stderr)) as progress:
        return ensure_model(progress)
