"""One line of an erratum, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Change:
    """One line of an erratum.

    Attributes:
        path: What it is about; for a removal, the outermost thing that is gone.
        kind: `set` or `remove`.
        text: What is shown (empty for a removal): the JSON text of the value, or the words of an edit.
        leaves: The leaves that are true from here on, at or below `path`.
        edits: For an edit: a hash of the leaves that it edits. To a reader who was told otherwise, it says nothing.
        untrusted: The value came from outside (`Untrusted()`).
    """

    path: str
    kind: Literal["set", "remove"]
    text: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    edits: str = ""
    untrusted: bool = False
