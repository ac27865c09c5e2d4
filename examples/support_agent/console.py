"""What the terminal shows: progress while it runs, then a table a turn, then the totals."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .arms import ORACLE, Arm
from .results import RunResult, Totals, TurnRow

NOT_REPORTED = "not reported"
_LONG = 160
TTFT_NAMES = {
    "engine": "first token",
    "stream": "first token (streamed)",
    "call": "whole call (this model does not stream)",
}


@contextmanager
def live(console: Console, turns: int) -> Generator[Callable[[Arm, TurnRow | None], None]]:
    """A live display with a line an arm; yields the function that `run` calls."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<13}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}"),
    )
    tasks: dict[Arm, TaskID] = {}
    with Progress(*columns, console=console) as progress:

        def on_turn(arm: Arm, row: TurnRow | None) -> None:
            if row is None:
                tasks[arm] = progress.add_task(arm, total=turns, last="")
            else:
                last = f"{seconds(row.ttft_s)} to the first token, {share(row.cached_share)} cached, {row.decision}"
                progress.update(tasks[arm], advance=1, last=last)

        yield on_turn


def show(console: Console, result: RunResult) -> None:
    """Print all turns and the totals."""
    for turn in range(1, result.turns + 1):
        rows = [row for row in result.rows if row.turn == turn]
        console.print(Group(*_turn(rows, result.ttft_source)))
    console.print(_totals(result))
    console.print(f"policy: right by the shop's policy; oracle: decided as {ORACLE}", style="dim", highlight=False)
    about = "about " if result.tokens_are_estimates else ""
    rules = "; rules: in skills" if result.script == "skills" else ""
    what = f"model: {result.model}; agent: {result.framework}{rules}; head: {about}{result.head_tokens} tokens"
    console.print(what, highlight=False, soft_wrap=True)
    for notice in result.notices:
        console.print(Text(f"notice: {notice}", style="yellow"), soft_wrap=True)


def _turn(rows: list[TurnRow], ttft_source: str) -> Iterator[RenderableType]:
    yield Text.assemble((f"\n{rows[0].turn}  ", "bold"), (rows[0].request, "bold"))
    if changed := changes(rows):
        yield Padding(Text(f"changed: {changed}", style="cyan"), (0, 0, 0, 3))
    if told := next((row for row in rows if row.erratum), None):
        lines = [shortened(line) for line in (told.erratum or "").split("\n")[1:-1]]
        yield Padding(Text(f"erratum: {'; '.join(lines)} ({told.appended_tokens} tokens)", style="blue"), (0, 0, 0, 3))
    table = Table(box=None, padding=(0, 1), collapse_padding=True, pad_edge=False, header_style="dim")
    table.add_column("   ", no_wrap=True)
    for name in ("cached", "new", TTFT_NAMES[ttft_source]):
        table.add_column(name, justify="right")
    table.add_column("decision", no_wrap=True)
    for name in ("policy", "oracle"):
        table.add_column(name)
    for row in rows:
        table.add_row(
            Text(f"   {row.arm}", style="bold" if row.arm == "ours" else ""),
            count(row.cached_tokens),
            count(row.new_tokens),
            seconds(row.ttft_s),
            Text(str(row.decision)),
            mark(row.policy_correct),
            mark(row.agreement),
        )
    yield table


def _totals(result: RunResult) -> RenderableType:
    name = TTFT_NAMES[result.ttft_source]
    table = Table(title="\nTotals", title_justify="left", title_style="bold", header_style="dim", box=None)
    table.add_column("", no_wrap=True)
    for header in (
        "cached after turn 1",
        f"{name}, median",
        "as the oracle",
        "right by policy",
        "tokens computed",
        "tokens appended",
    ):
        table.add_column(header, justify="right")
    for arm, sums in result.totals().items():
        table.add_row(Text(arm, style="bold" if arm == "ours" else ""), *total_cells(sums))
    return table


def total_cells(sums: Totals) -> tuple[str, ...]:
    """The cells of an arm's totals, in the order of the table's columns."""
    return (
        share(sums.cached_share_after_first) if sums.turns > 1 else "-",
        seconds(sums.ttft_p50_s),
        "-" if sums.agreement is None else f"{sums.agreement} of {sums.turns}",
        f"{sums.policy_correct} of {sums.turns}",
        count(sums.new_tokens),
        count(sums.appended_tokens),
    )


def changes(rows: list[TurnRow]) -> str:
    """What changed before a turn: from outside, and by the tools of the arms that are shown."""
    outside = [f"{path} = {value}" for path, value in rows[0].outside.items() if path != "now"]
    tools: dict[str, list[str]] = {}
    for row in rows:
        for path, text in row.changed.items():
            if path not in row.outside:
                tools.setdefault(f"{path} = {shortened(text).strip(chr(34))}", []).append(row.arm)
    by_tools = [
        f"{change} (by a tool{'' if len(arms) == len(rows) else ', ' + ', '.join(arms)})"
        for change, arms in tools.items()
    ]
    return "; ".join([*outside, *by_tools])


def shortened(line: str) -> str:
    """A line of the state without the middle of a long text; the report has it whole."""
    return line if len(line) <= _LONG else f"{line[:_LONG]} ... ({len(line):,} characters)"


def count(value: int | None) -> str:
    """A number of tokens."""
    return NOT_REPORTED if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """A share in percent."""
    return NOT_REPORTED if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def seconds(value: float | None) -> str:
    """A time."""
    return NOT_REPORTED if value is None else f"{value:.2f}\N{NO-BREAK SPACE}s"


def mark(value: bool | None) -> str:
    """A yes or a no."""
    return "-" if value is None else "yes" if value else "NO"


__all__ = ["NOT_REPORTED", "TTFT_NAMES", "changes", "count", "live", "mark", "seconds", "share", "show", "total_cells"]
