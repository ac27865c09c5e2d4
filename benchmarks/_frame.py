"""What every benchmark needs around its measurement: options, lines and tables, a JSON file, an honest machine line."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pkv_agents import PkvError


class BenchmarkError(Exception):
    """A benchmark cannot run as asked; the message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the numbers were measured on."""

    processor: str
    cores: int
    threads: int
    dtype: str
    python: str
    torch: str
    transformers: str

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.processor}, {self.cores} cores, {self.threads} threads, {self.dtype}, Python {self.python}, "
            f"torch {self.torch}, transformers {self.transformers}"
        )


def this_machine(*, dtype: str) -> Machine:
    """The machine as it is now; `dtype` is what the benchmark computes in."""
    import torch

    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(
        processor=_processor(),
        cores=len(affinity(0)) if affinity is not None else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        dtype=dtype,
        python=platform.python_version(),
        torch=version_of("torch"),
        transformers=version_of("transformers"),
    )


def version_of(distribution: str) -> str:
    """The installed version; `source` when it runs from a checkout that is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "source"


def options_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary here, as they come")
    parser.add_argument("--threads", type=_positive, metavar="N", help="torch threads (default: torch's own)")
    return parser


def count(text: str) -> int:
    """An option's whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def tenth(number: int) -> int:
    """A tenth, rounded up."""
    return -(-number // 10)


def say(line: str = "") -> None:
    """Print a line at once, whatever stdout is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns under headers; the first to the left, the others to the right."""
    cells = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(max(lines, key=len)), *lines[1:]])


def write_json(path: Path, data: Mapping[str, object]) -> None:
    """Replace a JSON file in one step, so that an interrupt leaves the old one or the new one.

    Raises:
        BenchmarkError: It cannot be written.
    """
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}-", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise BenchmarkError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def read_json(path: Path) -> Mapping[str, object]:
    """A JSON object from a file.

    Raises:
        BenchmarkError: There is none.
    """
    try:
        data: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BenchmarkError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise BenchmarkError(f"{path} is no JSON file: {error}") from error
    if not isinstance(data, Mapping):
        raise BenchmarkError(f"{path} holds no JSON object")
    return cast("Mapping[str, object]", data)


class Pace:
    """Guesses how long the rest takes.

    Args:
        units: The whole work, in any unit that takes about the same time each.
    """

    def __init__(self, units: float) -> None:
        self._left, self._done = units, 0.0
        self._started = time.monotonic()

    def advance(self, units: float) -> str:
        """Count some units as done; what is left, in words."""
        self._done += units
        self._left -= units
        minutes = (time.monotonic() - self._started) / self._done * self._left / 60
        return f"{minutes:.0f} min left" if minutes >= 1 else f"{minutes * 60:.0f} s left"


def run_benchmark(main: Callable[[], int]) -> int:
    """Run a benchmark's main: a known error becomes one line and exit status 1, ctrl-C becomes 130."""
    try:
        return main()
    except (BenchmarkError, PkvError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


def _positive(text: str) -> int:
    number = count(text)
    if not number:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
