"""Where keys and values come from: exact, composed or edited.

`EXACT` means: what one cold prefill of the same token ids gives. Everything else is an approximation of that, and so is
whatever was computed behind it, so an origin is inherited by all later tokens. It is part of a cache's key: the same
ids with the same origin have the same keys and values, and an exact look-up never sees any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Exact:
    """What one cold prefill of the same token ids gives."""


@dataclass(frozen=True, slots=True)
class Composed:
    """Put together from parts that were computed apart.

    Attributes:
        parts: Of each part a digest of its ids and of what stood before it when it was computed.
        seam: How many tokens at the start of each part were recomputed in their new place.
    """

    parts: tuple[str, ...]
    seam: int = 0


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """One edit of one field.

    Attributes:
        path: The field.
        start: Its first token at that moment.
        old: Digest of the token ids that it had.
        new: Digest of the token ids that it got.
        recomputed: Tokens elsewhere that were recomputed with it.
    """

    path: str
    start: int
    old: str
    new: str
    recomputed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Edited:
    """A sequence in which fields were replaced without a prefill of all that follows them.

    Attributes:
        edits: What was replaced, in that order.
        base: Where the sequence came from before the first edit.
    """

    edits: tuple[FieldEdit, ...]
    base: Exact | Composed = field(default_factory=Exact)


Origin: TypeAlias = Exact | Composed | Edited
"""How keys and values came about."""

EXACT = Exact()


def digest_of(ids: Iterable[int], *behind: object) -> str:
    """A short digest of token ids and of what else decides their keys and values.

    Args:
        ids: Token ids.
        *behind: Anything with a stable repr: what stood before them, an origin.
    """
    text = f"{','.join(str(int(token)) for token in ids)} {behind!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
