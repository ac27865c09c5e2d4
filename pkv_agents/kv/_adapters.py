"""A LoRA adapter from a folder on a loaded model, for commands (needs peft)."""

from __future__ import annotations

import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any, cast

from pkv_agents.errors import AdapterError


def with_adapter(model: object, options: Namespace) -> object:
    """The model with the adapter that a command's options name, if they name one.

    Raises:
        AdapterError: There is none in the folder, or it does not fit the model.
        ModuleNotFoundError: peft is not installed.
    """
    folder: Path | None = options.adapter
    if folder is None:
        return model
    if not (folder / "adapter_config.json").is_file():  # else peft would look for it in the hub
        raise AdapterError(f"--adapter: no adapter in {folder.name!r}; name the folder with its adapter_config.json")
    from peft import PeftModel

    try:
        with warnings.catch_warnings():  # peft 0.21 asks transformers for a name that is on its way out
            warnings.simplefilter("ignore", FutureWarning)
            adapted = cast("Any", PeftModel).from_pretrained(model, folder)
            return (adapted.merge_and_unload() if options.merge else adapted).eval()
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise AdapterError(f"--adapter: the adapter does not fit this model: {reason}") from error
