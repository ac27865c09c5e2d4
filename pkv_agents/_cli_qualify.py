"""`python -m pkv_agents qualify MODEL`: which ways to tell a change work on a model, as a report."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

SUMMARY = "find out whether a local model follows errata and edits in place, and write a report"


def configure(parser: ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("model", type=Path, help="a folder with a Hugging Face model and its tokenizer")
    parser.add_argument("--shops", type=int, default=4, metavar="N", help="how many shops to ask about (default 4)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where to write the report as JSON")
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="folder of a LoRA adapter (needs peft)")
    parser.add_argument("--merge", action="store_true", help="merge the adapter into the weights")
    parser.add_argument("--threads", type=int, metavar="N", help="torch threads (default: torch's own)")


def run(options: Namespace) -> int:
    """Does it; returns the exit code: 0 if the model follows errata, else 1."""
    from pkv_agents.kv import load_folder
    from pkv_agents.kv._adapters import with_adapter
    from pkv_agents.local import LocalModel, qualify

    model, tokenizer = load_folder(options.model, threads=options.threads)
    found = qualify(LocalModel(with_adapter(model, options), tokenizer), shops=options.shops, tell=_say)
    sys.stdout.write(f"{found}\n")
    if options.report is not None:
        found.save(options.report)
    return 0 if found.reference == "erratum" else 1


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
