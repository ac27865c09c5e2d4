"""Stand-ins that the benchmarks' tests share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from benchmarks._arms import Row, run_case
from benchmarks._cases import Head, Phrasing, draw_case
from benchmarks._frame import Machine
from tests.benchmarks.reader import reader

MACHINE = Machine("some cpu", 2, 1, "float32", "3.11.0", "2.0", "5.0")
IDENTITY = {"pkv_agents": "0.1.0", "fingerprint": "f1", "adapter": "a1", "dtype": "float32"}


@cache
def row_of(seed: int, *, head: Head = "short", phrasing: Phrasing = "trained", ours_right: bool = True) -> Row:
    """The row of a perfect reader, or of one that errata do not reach."""
    case = draw_case(seed, head=head, phrasing=phrasing)
    row = run_case(reader(case), case)
    return row if ours_right else replace(row, ours=replace(row.ours, tool="no_tool", right=False), agree=False)
