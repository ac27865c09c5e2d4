"""A source of small models for the tests of the embedded model's cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from examples.support_agent.embedded import NEEDED
from examples.support_agent.model_sources import Report


@dataclass
class FakeSource:
    """Writes a small model, or does what ``instead`` says half-way through."""

    name: str = "fake"
    instead: Callable[[], None] | None = None
    files: tuple[str, ...] = (*NEEDED, "chat_template.jinja")
    built: int = 0

    def build(self, into: Path, scratch: Path, report: Report) -> None:
        self.built += 1
        (scratch / "part").write_bytes(b"x" * 64)
        for number, name in enumerate(self.files):
            report("fetching", number, len(self.files))
            (into / name).write_text(f"{self.name} {name}")
            if number == 1 and self.instead is not None:
                self.instead()


@dataclass
class Raises:
    """A callable that raises, for use inside ``FakeSource``."""

    error: BaseException
    calls: list[int] = field(default_factory=list[int])

    def __call__(self) -> None:
        self.calls.append(1)
        raise self.error


def rest(cache: Path) -> list[str]:
    """What lies in the cache beside the lock."""
    return sorted(p.name for p in cache.iterdir() if p.suffix != ".lock") if cache.exists() else []
