"""A source of tools that an application may get wrong, and the notices that come of it."""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from typing import Any

from llama_index.core.objects import ObjectRetriever

from tests.llama_index.skills import SkillTalk, track


async def fetched(*_: Any) -> list[Any]:
    return []


def broken_halfway() -> Any:
    yield track
    raise OSError("gone")


UNREADABLE: dict[str, Any] = {
    "raises": ConnectionError("down"),
    "none": None,
    "text": "track",
    "number": 3,
    "generator": broken_halfway,
    "async": fetched,
}
"""What a source gives (an exception is raised, a function called), by what is wrong with it."""


class Source:
    """A function that returns whatever it holds now."""

    def __init__(self, now: Any = ()) -> None:
        self.now = now

    def __call__(self, *_: Any) -> Any:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now(*_) if callable(self.now) else self.now


class Finder(ObjectRetriever[Any]):
    """A retriever that finds whatever its source holds."""

    def __init__(self, source: Source) -> None:
        super().__init__(None, None)  # pyright: ignore[reportArgumentType]
        self.source = source

    def retrieve(self, str_or_query_bundle: Any) -> Any:
        return self.source()

    async def aretrieve(self, str_or_query_bundle: Any) -> Any:
        return self.source()


def paths(talk: SkillTalk) -> list[tuple[str, str]]:
    """The notices of tools."""
    return [(notice.code, notice.path) for notice in talk.notices if notice.code.startswith("tool")]
