"""The ledger: what was sent, and where in the history it stands.

The ledger is private, plain data, and the only thing that is believed about the past: errata are never read back from
messages. Each erratum is anchored to the *content* of the history before it, so that it finds its place again after a
save, in a fork, or in another process, and is nowhere when that history is gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType, cast

from .diff import Change
from .errors import MessageError
from .messages import Message, Part
from .snapshots import Snapshot

Anchor = NewType("Anchor", str)
Carrier = Literal["system", "user_suffix"]

LEDGER_VERSION = 1
MAX_EPOCHS = 16
"""Older epochs are dropped: a fork from before them begins a new epoch, as if its history had been rewritten."""

ROOT = Anchor(hashlib.sha256(b"pkv-agents history").hexdigest()[:32])

# Parts carry markers and ids beside their content; those may differ between two sendings of one message.
_NOT_CONTENT = frozenset({"cache_control", "prompt_cache_breakpoint", "id", "index", "annotations"})
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


def chain(messages: Sequence[Message]) -> tuple[Anchor, ...]:
    """Hash every prefix of a history.

    Only content counts: role, text or parts, names and arguments of tool calls. Ids and metadata do not.

    Args:
        messages: The history, without the head.

    Returns:
        n + 1 anchors; the i-th stands for the first i messages.

    Raises:
        MessageError: A part or an argument is not plain JSON data.
    """
    anchors: list[str] = [ROOT]
    link: str = ROOT
    sha256 = hashlib.sha256
    for message in messages:
        content = message.content
        if isinstance(content, str) and not message.tool_calls:
            text = f"{link}{message.role}:{content}"
        else:
            text = f"{link}{_message_content(message)}"
        link = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        anchors.append(link)
    return cast("tuple[Anchor, ...]", tuple(anchors))


def _message_content(message: Message) -> str:
    content = _parts(message.content)
    calls = [[call.name, dict(call.arguments)] for call in message.tool_calls]
    if isinstance(content, str) and not calls:
        return f"{message.role}:{content}"
    try:
        return f"{message.role}/{_canonical([content, calls])}"
    except (TypeError, ValueError) as error:
        raise MessageError(f"a {message.role} message holds something that is not plain JSON data: {error}") from None


def _parts(content: str | tuple[Part, ...]) -> str | list[dict[str, object]]:
    """Content without markers and ids; one plain text part is the same as its text."""
    if isinstance(content, str):
        return content
    parts = [{name: value for name, value in part.items() if name not in _NOT_CONTENT} for part in content]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


@dataclass(frozen=True, slots=True)
class Erratum:
    """An erratum that was sent; it is replayed byte for byte.

    Attributes:
        anchor: The history before it.
        text: The block.
        carrier: The form in which it was sent.
        changes: What it says.
    """

    anchor: Anchor
    text: str
    carrier: Carrier
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Epoch:
    """From one baseline to the next.

    Attributes:
        number: Counts up in a session.
        start: The history at which this epoch began; the root for one whose whole history was new.
        first: The anchor after the first message (empty while there was none): it tells a fork from a rewritten front.
        tag: The tag of the blocks.
        baseline: What the baseline says.
        baseline_text: The block that was sent.
        errata: What was told since, in order of their commits.
        reason: Why the epoch began: `start`, or the code or words of the rebase.
        head: A hash of the instructions above the baseline.
        observed: When each value with a `ttl` was first told or last confirmed.
    """

    number: int
    start: Anchor
    first: str
    tag: str
    baseline: Snapshot
    baseline_text: str
    errata: tuple[Erratum, ...] = ()
    reason: str = "start"
    head: str = ""
    observed: Mapping[str, datetime] = field(default_factory=dict[str, datetime])


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything that was sent in a session, most recently used epoch last.

    Attributes:
        version: The format of the stored form.
        revision: Counts the commits.
        last: The id of the last committed plan; a plan made from another state of the ledger is stale.
        epochs: At least one.
    """

    version: int = LEDGER_VERSION
    revision: int = 0
    last: str = ""
    epochs: tuple[Epoch, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The ledger as plain JSON data, the same for equal ledgers."""
        from ._codec import encode

        return encode(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Ledger:
        """Read a ledger back.

        Args:
            data: What `to_dict` made, perhaps through JSON.

        Raises:
            LedgerError: Damaged data, or a version that this library does not know; `data` is not changed.
        """
        from ._codec import decode

        return decode(data)
