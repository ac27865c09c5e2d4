"""Paths: how one leaf of a state is named, to a person, a patch and a model.

`customer.tier`, `orders[K417].status`, `items[0].price`, `notes["a b"]`. A field stands after a dot, the key of a list
entry or dict entry (or the index in a list without keys) stands in brackets. So does an extra field whose name is no
identifier, be it the state's own: `["a b"]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import StateError
from .escape import quote_key

_NAME = re.compile(r"[^\W\d]\w*")
_SEGMENT = re.compile(
    rf'(?P<dot>\.?)(?P<name>{_NAME.pattern})|\[(?:(?P<bare>[A-Za-z0-9_.-]+)|(?P<quoted>"(?:[^"\\]|\\.)*"))\]'
)


# As a whole, for paths of ours that come back from a store: one look is enough.
_JSON_TEXT = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"'
_KEY = rf"\[(?:[A-Za-z0-9_.-]+|{_JSON_TEXT})\]"
_PATH = re.compile(rf"(?:{_NAME.pattern}|{_KEY})(?:\.{_NAME.pattern}|{_KEY})*")


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of a path: a field of a model, or the key of an entry."""

    text: str
    is_key: bool


def is_field_name(name: str) -> bool:
    """Whether a path can hold this field name."""
    return name.isidentifier() and _NAME.fullmatch(name) is not None


def join_field(path: str, name: str) -> str:
    """The path of a field below `path` (which is empty at the root)."""
    return f"{path}.{name}" if path else name


def join_key(path: str, key: str) -> str:
    """The path of the entry `key` of the container at `path`."""
    return f"{path}[{quote_key(key)}]"


def _matches(path: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None or (match["name"] is not None and bool(match["dot"]) != (at > 0)):
            raise StateError(f"path {path!r} cannot be read at character {at}; write it like 'orders[K417].status'")
        yield match
        at = match.end()


def parse_path(path: str) -> tuple[Segment, ...]:
    """Split a path into its steps.

    Args:
        path: For instance `orders[K417].status`; a key may be bare or a JSON string.

    Returns:
        The steps, outermost first.

    Raises:
        StateError: The text is no path.
    """
    if not path:
        raise StateError("an empty path names nothing; write it like 'orders[K417].status'")
    segments: list[Segment] = []
    for match in _matches(path):
        if match["name"] is not None:
            segments.append(Segment(match["name"], is_key=False))
        elif match["bare"] is not None:
            segments.append(Segment(match["bare"], is_key=True))
        else:
            segments.append(Segment(_unquote(path, match["quoted"]), is_key=True))
    return tuple(segments)


def is_path(path: str) -> bool:
    """Whether a text is a path, as a snapshot writes it."""
    return _PATH.fullmatch(path) is not None


def canonical_path(path: str) -> str:
    """A path in the one spelling in which a snapshot, an erratum and a ledger write it.

    Args:
        path: In any spelling that a patch may use, for instance `its["a"].eta`.

    Returns:
        For instance `its[a].eta`.

    Raises:
        StateError: The text is no path.
    """
    made = ""
    for segment in parse_path(path):
        made = join_key(made, segment.text) if segment.is_key else join_field(made, segment.text)
    return made


def _unquote(path: str, quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise StateError(f"path {path!r} has a key that is no JSON string; quote it with json.dumps") from None


def prefixes(path: str) -> tuple[str, ...]:
    """All paths on the way to `path`, outermost first, itself last."""
    return tuple(path[: match.end()] for match in _matches(path))


def is_below(path: str, ancestor: str) -> bool:
    """Whether `path` lies strictly inside `ancestor`."""
    return len(path) > len(ancestor) and path.startswith(ancestor) and path[len(ancestor)] in ".["
