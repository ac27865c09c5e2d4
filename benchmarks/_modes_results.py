"""What `benchmarks.parity --modes` has measured: rows by part, in a file that keeps the parts that are not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks._frame import BenchmarkError, read_json
from benchmarks._modes_amended import AmendedRow
from benchmarks._modes_edits import EditRow
from benchmarks._modes_facts import FactRow
from benchmarks._modes_long import ToggleRow
from benchmarks._modes_splice import SpliceRow
from benchmarks._modes_written import ContinuationRow

FORMAT = 2
ROWS: Mapping[str, Callable[..., Any]] = {
    "edits": EditRow,
    "at_once": EditRow,
    "splice": SpliceRow,
    "facts": FactRow,
    "toggles": ToggleRow,
    "amended": AmendedRow,
    "continuations": ContinuationRow,
}
"""The parts, in the order in which they run, and what their rows are."""
PARTS = tuple(ROWS)


@dataclass(slots=True)
class Part:
    """One part.

    Attributes:
        about: What it ran on: identity of the model, machine, sizes, seconds.
        pairs: Of edits, by place: how many pairs counted, and how many were drawn.
        rows: The rows.
    """

    about: Mapping[str, object] = field(default_factory=dict[str, object])
    pairs: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    rows: list[Any] = field(default_factory=list[Any])


class ModeResults:
    """Every part that was measured, now or in a former run.

    Args:
        parts: Of a former run.
    """

    def __init__(self, parts: Mapping[str, Part] | None = None) -> None:
        self._parts = dict(parts or {})

    def rows(self, part: str) -> Sequence[Any]:
        """The rows of a part; none if it was never run."""
        return self._parts[part].rows if part in self._parts else ()

    def pairs(self, part: str) -> Mapping[str, Sequence[int]]:
        """Of each place, how many pairs counted and how many were drawn."""
        return self._parts[part].pairs if part in self._parts else {}

    def begin(self, part: str) -> Part:
        """An empty part, which takes the place of a former one."""
        self._parts[part] = made = Part()
        return made

    def forget_others(self, part: str, identity: Mapping[str, str], same: Sequence[str]) -> None:
        """Drop former parts on the same adapter that another model or version has measured.

        Args:
            part: The part that runs now.
            identity: Of its model.
            same: The parts on that adapter.
        """
        for name in same:
            if name != part and name in self._parts and self._parts[name].about.get("identity") != dict(identity):
                del self._parts[name]

    def data(self) -> dict[str, object]:
        """For the file."""
        return {
            name: {**part.about, "pairs": part.pairs, "rows": [asdict(row) for row in part.rows]}
            for name in PARTS
            if (part := self._parts.get(name)) is not None
        }


def former_results(path: Path | None) -> ModeResults:
    """The parts that a file holds; none if there is no file, or one of another form.

    Raises:
        BenchmarkError: The file is no result of this benchmark, or damaged.
    """
    if path is None or not path.exists():
        return ModeResults()
    data = read_json(path)
    if data.get("benchmark") != "parity modes":
        raise BenchmarkError(f"{path} holds no results of this benchmark; name another file")
    if data.get("format") != FORMAT:
        return ModeResults()
    parts: dict[str, Part] = {}
    try:
        for name, found in cast("Mapping[str, dict[str, Any]]", data["parts"]).items():
            rows, pairs = found.pop("rows"), found.pop("pairs")
            parts[name] = Part(found, pairs, [ROWS[name](**row) for row in rows])
    except (AttributeError, KeyError, TypeError) as error:
        raise BenchmarkError(f"{path} is damaged: {error}") from error
    return ModeResults(parts)
