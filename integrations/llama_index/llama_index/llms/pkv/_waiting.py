"""What is known of the tools before a call, until the call is planned: the two meet in the session's report."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from pkv_agents import ToolsUpdate

_waiting: WeakKeyDictionary[Any, ToolsUpdate] = WeakKeyDictionary()


def leave(owner: Any, update: ToolsUpdate) -> None:
    """Leave what changed for the next call.

    Args:
        owner: Whose call it is: a session, or the store of a workflow's context.
        update: What changed.
    """
    before = take(owner)
    notices = tuple(dict.fromkeys((*before.notices, *update.notices)))
    moves = before.moves_array or update.moves_array
    if notices or moves:
        _waiting[owner] = ToolsUpdate({}, notices, moves)


def take(owner: Any) -> ToolsUpdate:
    """What was left for this call; the patch is empty, since the state has it."""
    return _waiting.pop(owner, None) or ToolsUpdate({})


__all__ = ["leave", "take"]
