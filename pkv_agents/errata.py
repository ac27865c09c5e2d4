"""The words: how a baseline and an erratum read.

Both are pure functions of their arguments and end without a newline. The wording is data (`ErrataStyle` in `styles`),
so that a profile or a user can choose another; the ledger keeps what was sent, so a later choice never rewrites the
past.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable
from functools import cache

from .changes import Change
from .errors import SessionError
from .escape import escape_block
from .snapshots import Snapshot
from .styles import CALM_STYLE, DEFAULT_STYLE, PLAIN_STYLE, ErrataStyle

_TAG = re.compile(r"[a-z2-7]{4}")
_HAS_LINES = re.compile(r'"(?:[^"\\]|\\.)*?\\n')
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def new_tag() -> str:
    """A random tag for a session: four characters of lower-case base32."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(4))


def check_tag(tag: str) -> str:
    """The tag itself, if it is one.

    Raises:
        SessionError: It is not four characters of lower-case base32.
    """
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped)
        raise SessionError(f"tag {tag!r} is not four characters of [a-z2-7]; leave it out to get a random one")
    return tag


def render_baseline(snapshot: Snapshot, *, tag: str, style: ErrataStyle = DEFAULT_STYLE) -> str:
    """Render what ends the head: every field that is not Volatile.

    Shared fields come first, the same for all sessions; then the declaration and the block of the session's own.

    Args:
        snapshot: The state.
        tag: The session's tag.
        style: The wording.

    Returns:
        The text, without a trailing newline.
    """
    start, middle, after, end = _line_pieces(style)
    lines: list[str] = []
    shared: list[str] = []
    for path, text in snapshot.leaves.items():
        meta = snapshot.meta.get(path)
        if meta is None:
            lines.append(f"{start}{path}{middle}{after}{text}{end}")
        elif not meta.volatile:
            note = _note(style, meta.label, meta.untrusted)
            line = f"{start}{path}{middle}{note}{after}{text}{end}"
            if meta.shared and not meta.untrusted:
                # (What is stale says so behind its quotes, so it stays one line.)
                has_lines = text.endswith('"') and _HAS_LINES.match(text)
                shared.append(standing(path, text, note) if has_lines else line)
            else:
                lines.append(line)
    declaration = style.declaration
    if any(meta.untrusted for meta in snapshot.meta.values()):
        declaration = f"{declaration} {style.untrusted_declaration}".rstrip()
    own = _block(style.baseline.replace("{declaration}", declaration), lines, tag)
    return "\n".join([*shared, "", own]) if shared else own


def render_erratum(changes: Iterable[Change], *, tag: str, style: ErrataStyle = DEFAULT_STYLE) -> str:
    """Render one block for all of a turn's changes: current values only, or edits of what was told.

    Args:
        changes: What `diff` found.
        tag: The session's tag.
        style: The wording.

    Returns:
        The block, without a trailing newline.
    """
    lines = [
        update_line(
            change.path,
            style.removed if change.kind == "remove" else change.text,
            note=_note(style, None, change.untrusted),
            style=style,
        )
        for change in changes
    ]
    return _block(style.erratum, lines, tag)


def update_line(path: str, text: str, *, note: str = "", style: ErrataStyle = DEFAULT_STYLE) -> str:
    """One line of an erratum: a field and its new value, or an edit of it, in its JSON form."""
    start, middle, after, end = _line_pieces(style)
    return f"{start}{path}{middle}{note}{after}{text}{end}"


def standing(path: str, text: str, note: str = "") -> str:
    """How a text of several lines, given as JSON, stands in a head: as it is, named by its path as an erratum will."""
    return f'<text path="{path}"{note}>\n{escape_block(json.loads(text))}\n</text>'


def _block(template: str, lines: list[str], tag: str) -> str:
    """The tag and the lines put in; the tag first, since a line may hold anything."""
    before, _, after = template.replace("{tag}", tag).partition("{lines}\n")
    return before + "\n".join([*lines, after])


@cache
def _line_pieces(style: ErrataStyle) -> tuple[str, str, str, str]:
    """What stands before the path, between path and note, between note and value, and after the value."""
    before, _, rest = style.line.partition("{path}")
    words, _, rest = rest.partition("{note}")
    more, _, end = rest.partition("{value}")
    return before, words, more, end


def _note(style: ErrataStyle, label: str | None, untrusted: bool) -> str:
    """What stands in parentheses after a path."""
    if not untrusted and not label:
        return ""
    return f" ({'; '.join(word for word in (label, style.untrusted if untrusted else None) if word)})"


__all__ = [
    "CALM_STYLE",
    "DEFAULT_STYLE",
    "PLAIN_STYLE",
    "ErrataStyle",
    "check_tag",
    "new_tag",
    "render_baseline",
    "render_erratum",
]
