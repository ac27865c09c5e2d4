"""Critical fields: an erratum about one is said again once much has been said since."""

from __future__ import annotations

from collections.abc import Sequence

from .diff import Change
from .ledger import Epoch
from .messages import Message
from .paths import is_below
from .snapshots import PLAIN, Snapshot
from .tokens import estimate_message_tokens


def restated(
    epoch: Epoch,
    told: Snapshot,
    changes: Sequence[Change],
    now: Snapshot,
    rest: Sequence[Message],
    distance: int,
) -> tuple[Change, ...]:
    """The lines about critical fields whose errata stand too far from the end.

    Args:
        epoch: The epoch, with the errata of this history in order.
        told: What the model has been told.
        changes: What is told now anyway.
        now: The state.
        rest: The history.
        distance: How many tokens are too far.

    Returns:
        Lines that say what was said before; none for a field that only the baseline states.
    """
    last: dict[str, int] = {}
    for erratum in epoch.errata:
        for change in erratum.changes:
            if now.meta.get(change.path, PLAIN).critical and change.path in told:
                last[change.path] = erratum.anchor.after
    if not last:
        return ()
    far = _far_position(rest, distance)
    return tuple(
        Change(path, "set", told[path], ((path, told[path]),), untrusted=now.meta.get(path, PLAIN).untrusted)
        for path, position in last.items()
        if position <= far and not any(path == change.path or is_below(path, change.path) for change in changes)
    )


def _far_position(rest: Sequence[Message], distance: int) -> int:
    """The last position from which at least so many tokens lie before the end; -1 when the history is shorter."""
    behind = 0
    for position in range(len(rest) - 1, -1, -1):
        behind += estimate_message_tokens([rest[position]])
        if behind >= distance:
            return position
    return -1
