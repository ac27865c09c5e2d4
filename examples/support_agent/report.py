"""The report: one HTML file that needs nothing else, and a JSON beside it. Both appear whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pkv_agents import StoreError

from . import console
from .arms import ARMS
from .plots import cached_plot, ttft_plot
from .results import RunResult

TEMPLATES = Path(__file__).with_name("templates")


def render_html(result: RunResult, *, plots: bool = True) -> str:
    """The report as one page: no scripts, nothing from outside, every value escaped.

    Args:
        result: What a run found.
        plots: Draw the plots.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters.update(count=console.count, share=console.share, seconds=console.seconds, mark=console.mark)
    drawn = [cached_plot(result), ttft_plot(result)] if plots else []
    turns = [[row for row in result.rows if row.turn == turn] for turn in range(1, result.turns + 1)]
    values: dict[str, Any] = {
        "result": result,
        "about": _ABOUT,
        "arms": [arm for arm in ARMS if arm in result.arms],
        "totals": {arm: console.total_cells(sums) for arm, sums in result.totals().items()},
        "ttft_name": console.TTFT_NAMES[result.ttft_source],
        # ours: text is escaped by matplotlib, and the only texts in it are arm names and labels
        "plots": [Markup(svg) for svg in drawn if svg],
        "turns": [(rows, console.changes(rows), next((r for r in rows if r.erratum), None)) for rows in turns],
    }
    return environment.get_template("report.html.j2").render(values)


def write_report(result: RunResult, *, html: Path, json_file: Path, plots: bool = True) -> None:
    """Write both files.

    Args:
        result: What a run found.
        html: Where the page goes.
        json_file: Where the data goes.
        plots: Draw the plots.

    Raises:
        StoreError: If a file cannot be written; nothing half-written is left.
    """
    page = render_html(result, plots=plots)
    data = json.dumps(result.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(json_file, data)
    write_whole(html, page)


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and rename it in, so that it is never seen half-written.

    Raises:
        StoreError: If it cannot be written.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


_ABOUT = {
    "rewrite": "the head is rendered afresh each turn, the state near its top",
    "rewrite_late": "the same, the state at the head's end; the oracle for decisions",
    "ours": "the head stays; what changed is told after the newest message",
    "stale": "the head is rendered once and never corrected",
}

__all__ = ["render_html", "write_report", "write_whole"]
