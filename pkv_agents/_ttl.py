"""Fields with a `ttl`: a value that nobody confirmed in time is said to be stale, once.

Staleness is part of what is true, so it is written into the snapshot (`"14:00" (stale since "...")`) and then diffed,
told, replayed and folded like any other change. A value cannot forge it: values are quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from .paths import canonical_path, prefixes
from .snapshots import Snapshot

_STALE = " (stale since "


def is_stale(text: str) -> bool:
    """Whether a leaf's text says that it is stale (values are quoted, so none of them can)."""
    return _STALE in text and text.endswith('")')


def aged(
    now: Snapshot,
    told: Snapshot,
    observed: Mapping[str, datetime],
    confirmed: Mapping[str, datetime],
    clock: datetime | None,
) -> tuple[Snapshot, Mapping[str, datetime]]:
    """Write into a snapshot which of its values are too old.

    Args:
        now: The state.
        told: What the model has been told; empty in a new session.
        observed: When each value with a ttl was first seen or last confirmed, as far as the ledger knows.
        confirmed: When paths were set by the application, the same value again included. A path in any spelling renews
            what stands there, inside it, or around it.
        clock: The time, with a zone; None leaves everything as it was told.

    Returns:
        The snapshot, and when each value with a ttl that it holds was last seen to be true.
    """
    timed = {path: meta.ttl for path, meta in now.meta.items() if meta.ttl is not None and path in now.leaves}
    if not timed:
        return now, {}
    leaves, seen = dict(now.leaves), dict[str, datetime]()
    at_or_above, at_or_below = _by_place(confirmed)
    for path, ttl in timed.items():
        text, said = leaves[path], told.get(path, "")
        if clock is None:
            leaves[path] = said if said.startswith(text + _STALE) else text
            continue
        at = clock
        if said == text or said.startswith(text + _STALE):
            times = [at_or_above[place] for place in prefixes(path) if place in at_or_above]
            times += [at_or_below[path]] if path in at_or_below else []
            at = max([observed.get(path, clock), *times])
        seen[path] = at
        if clock - at >= ttl:
            since = (at + ttl).astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            leaves[path] = f'{text}{_STALE}"{since}")'
    return replace(now, leaves=leaves), seen if clock is not None else observed


def _by_place(confirmed: Mapping[str, datetime]) -> tuple[dict[str, datetime], dict[str, datetime]]:
    """When each path was last confirmed in any spelling, and when last anything at or below each place was."""
    exactly, within = dict[str, datetime](), dict[str, datetime]()
    for path, at in confirmed.items():
        *around, own = prefixes(canonical_path(path))
        exactly[own] = max(at, exactly.get(own, at))
        for place in (*around, own):
            within[place] = max(at, within.get(place, at))
    return exactly, within
