"""A source of tools that an application may get wrong, and the notices that come of it."""

from __future__ import annotations

from typing import Any

from pkv_agents import Notice
from tests.langchain.skilled import (
    made,
)


async def fetched(_: Any) -> list[Any]:
    return []


def broken_halfway() -> Any:
    yield made("half")
    raise OSError("gone")


UNREADABLE = {
    "raises": ConnectionError("down"),
    "none": None,
    "text": "track",
    "number": 3,
    "generator": broken_halfway,
    "server": {"files": None},
    "async": lambda: fetched(None),
}
"""What a source gives (an exception is raised, a function called), by what is wrong with it."""


class Source:
    """A function from the runtime to whatever it holds now."""

    def __init__(self, now: Any) -> None:
        self.now = now
        self.asked = 0

    def __call__(self, _: Any) -> Any:
        self.asked += 1
        if isinstance(self.now, Exception):
            raise self.now
        return self.now() if callable(self.now) else self.now


def found(said: list[Notice]) -> list[tuple[str, str]]:
    return [(notice.code, notice.path) for notice in said]
