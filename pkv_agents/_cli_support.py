"""`python -m pkv_agents support`: for which local models keys and values can be moved, spliced and edited, and why not.

The rows are those of `pkv_agents.kv.support_table()` and `rope_table()`, to which the tests hold the engine.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict

SUMMARY = "the model families and kinds of rotary positions that the local engine knows, supported or refused"

_NOTE = """\
A model of another family, or with another kind of rotary positions, is refused when it is loaded. The prefix cache of
LocalModel takes the supported families where every layer is full attention; segments (splices, edits) take them all."""


def configure(parser: ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(options: Namespace) -> int:
    """Prints the tables."""
    from pkv_agents.kv import rope_table, support_table

    families, ropes = support_table(), rope_table()
    if options.json:
        data = {"families": [asdict(row) for row in families], "rope_types": [asdict(row) for row in ropes]}
        sys.stdout.write(json.dumps(data, indent=1) + "\n")
        return 0
    rows = [(family.name, *_said(family.refusal), family.refusal or family.note) for family in families]
    kinds = [(kind.name, *_said(kind.refusal), kind.refusal or kind.note) for kind in ropes]
    sys.stdout.write(f"{_table('model_type', rows)}\n\n{_table('rope_type', kinds)}\n\n{_NOTE}\n")
    return 0


def _said(refusal: str) -> tuple[str]:
    return ("refused" if refusal else "supported",)


def _table(first: str, rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [(first, "", "what holds for it, or why not"), *rows]
    widths = [max(len(row[column]) for row in lines) for column in range(2)]
    return "\n".join(f"{name:<{widths[0]}}  {said:<{widths[1]}}  {why}".rstrip() for name, said, why in lines)
