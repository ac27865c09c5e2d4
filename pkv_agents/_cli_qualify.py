"""`python -m pkv_agents qualify MODEL`: which ways to tell a change work on a model, as a report."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, cast

SUMMARY = "find out whether a local model follows errata and edits in place, and write a report"


def configure(parser: ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("model", type=Path, help="a folder with a Hugging Face model and its tokenizer")
    parser.add_argument("--shops", type=int, default=4, metavar="N", help="how many shops to ask about (default 4)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where to write the report as JSON")
    parser.add_argument("--threads", type=int, metavar="N", help="torch threads (default: torch's own)")


def run(options: Namespace) -> int:
    """Does it; returns the exit code: 0 if the model follows errata, else 1."""
    import torch
    import transformers

    from pkv_agents.errors import UnsupportedModelError
    from pkv_agents.local import LocalModel, qualify

    if options.threads:
        torch.set_num_threads(options.threads)
    loaders = cast("Any", transformers)  # its loaders have no types
    try:
        model = loaders.AutoModelForCausalLM.from_pretrained(
            options.model, dtype=torch.float32, local_files_only=True
        ).eval()
        tokenizer = loaders.AutoTokenizer.from_pretrained(options.model, local_files_only=True)
    except (OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise UnsupportedModelError(f"no model can be loaded from {options.model}: {first}") from error
    found = qualify(LocalModel(model, tokenizer), shops=options.shops, tell=_say)
    sys.stdout.write(f"{found}\n")
    if options.report is not None:
        found.save(options.report)
    return 0 if found.reference == "erratum" else 1


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
