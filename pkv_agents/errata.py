"""The words: how a baseline and an erratum read.

Both are pure functions of their arguments and end without a newline. The wording is data (`ErrataStyle`), so that a
profile or a user can choose another; the ledger keeps what was sent, so a later choice never rewrites the past.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from .diff import Change
from .errors import SessionError
from .escape import neutralise
from .snapshots import PLAIN, Snapshot

_TAG = re.compile(r"[a-z2-7]{4}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(frozen=True, slots=True)
class ErrataStyle:
    """The wording of baseline and errata.

    Attributes:
        declaration: What stands above the baseline, once; `{tag}` is the session's tag.
        removed: The one word that is not JSON: what stands for a value that is gone.
    """

    declaration: str = (
        'Current state. A later <state-update id="{tag}"> block gives the current value of the fields it names; '
        "it overrides earlier values and any conclusion drawn from them."
    )
    removed: str = "removed"


DEFAULT_STYLE = ErrataStyle()


def new_tag() -> str:
    """A random tag for a session: four characters of lower-case base32."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(4))


def check_tag(tag: str) -> str:
    """The tag itself, if it is one.

    Raises:
        SessionError: It is not four characters of lower-case base32.
    """
    if not _TAG.fullmatch(tag):
        raise SessionError(f"tag {tag!r} is not four characters of [a-z2-7]; leave it out to get a random one")
    return tag


def render_baseline(snapshot: Snapshot, *, tag: str, style: ErrataStyle = DEFAULT_STYLE) -> str:
    """Render the block that ends the head: the declaration and every field that is not Volatile.

    Args:
        snapshot: The state.
        tag: The session's tag.
        style: The wording.

    Returns:
        The block, without a trailing newline.
    """
    lines = [style.declaration.replace("{tag}", tag), f'<state id="{tag}">']
    for path, text in snapshot.leaves.items():
        meta = snapshot.meta.get(path, PLAIN)
        if not meta.volatile:
            lines.append(f"{path} ({meta.label}): {text}" if meta.label else f"{path}: {text}")
    lines.append("</state>")
    return "\n".join(lines)


def render_erratum(changes: Iterable[Change], *, tag: str, style: ErrataStyle = DEFAULT_STYLE) -> str:
    """Render one block for all of a turn's changes: current values only.

    Args:
        changes: What `diff` found.
        tag: The session's tag.
        style: The wording.

    Returns:
        The block, without a trailing newline.
    """
    lines = [f'<state-update id="{tag}">']
    lines += [f"{change.path}: {style.removed if change.kind == 'remove' else change.text}" for change in changes]
    lines.append("</state-update>")
    return "\n".join(lines)


__all__ = ["DEFAULT_STYLE", "ErrataStyle", "check_tag", "neutralise", "new_tag", "render_baseline", "render_erratum"]
