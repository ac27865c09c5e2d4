"""The report's plots, as SVG that takes its colours from the page, so that they fit a light and a dark one."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any, cast

from .results import RunResult, TurnRow

# Stand-ins that matplotlib writes into the SVG and that become the page's CSS variables.
_COLOURS = {
    "rewrite": "#010101",
    "rewrite_late": "#020202",
    "ours": "#030303",
    "stale": "#040404",
    "ink": "#050505",
    "line": "#060606",
}
_MARKERS: dict[str, str] = {"rewrite": "s", "rewrite_late": "^", "ours": "o", "stale": "x"}
_DASHES: dict[str, str] = {"rewrite": "-", "rewrite_late": "-", "ours": "-", "stale": ":"}


def cached_plot(result: RunResult) -> str | None:
    """The cached share by turn; None if nothing was reported."""

    def value(row: TurnRow) -> float | None:
        return None if row.cached_share is None else 100 * row.cached_share

    return _plot(result, "cached part of the prompt, %", value, top=104)


def ttft_plot(result: RunResult) -> str | None:
    """The time to the first token by turn, on a logarithmic axis; None if nothing was reported."""
    return _plot(result, "time to first token, s", lambda row: row.ttft_s, log=True)


def _plot(
    result: RunResult,
    label: str,
    value: Callable[[TurnRow], float | None],
    *,
    top: float | None = None,
    log: bool = False,
) -> str | None:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    series = {arm: [(row.turn, y) for row in result.of(arm) if (y := value(row)) is not None] for arm in result.arms}
    if not any(series.values()):
        return None
    settings = {"svg.fonttype": "none", "svg.hashsalt": label, "font.family": "sans-serif", "font.size": 10}
    with cast("Any", mpl).rc_context(settings):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        FigureCanvasSVG(figure)
        axes = cast("Any", figure).add_subplot()
        for arm, points in series.items():
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    label=arm,
                    color=_COLOURS[arm],
                    marker=_MARKERS[arm],
                    linestyle=_DASHES[arm],
                    markersize=5,
                    linewidth=2.4 if arm == "ours" else 1.5,
                    zorder=3 if arm == "ours" else 2,
                )
        _dress(axes, label, result.turns, top=top, log=log)
        out = io.StringIO()
        cast("Any", figure).savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return themed(out.getvalue(), label)


def _dress(axes: Any, label: str, turns: int, *, top: float | None, log: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    ink, line = _COLOURS["ink"], _COLOURS["line"]
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    else:
        axes.set_ylim(0, top)
    axes.set_xticks(range(1, turns + 1))
    axes.set_xlabel("turn", color=ink)
    axes.set_ylabel(label, color=ink)
    axes.tick_params(which="both", colors=ink, length=0)
    axes.grid(axis="y", color=line, linewidth=0.8)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(line)
    axes.legend(frameon=False, labelcolor=ink, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _plain(value: float, position: int | None = None) -> str:
    return f"{value:g}"


def themed(svg: str, label: str) -> str:
    """The `<svg>` element alone: no prolog, no metadata, nothing fixed in size, colours as CSS variables."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r' id="(?:figure|axes|patch|text|line2d|legend|matplotlib\.axis|xtick|ytick)_\d+"', "", svg)
    svg = re.sub(r' xmlns:xlink="[^"]*"', "", svg, count=1).replace("xlink:href", "href")
    svg = re.sub(r' xmlns="[^"]*"', "", svg, count=1)  # inline SVG needs none
    svg = re.sub(r"font-family: [^;]*; ", "", svg)  # the page's own
    for name, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{name.replace('_', '-')})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{label} by turn"', 1)


__all__ = ["cached_plot", "themed", "ttft_plot"]
