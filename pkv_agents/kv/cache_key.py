"""What an entry of the prefix cache is looked up by, and what the cache counts."""

from __future__ import annotations

from dataclasses import dataclass

from pkv_agents.kv.origin import EXACT, Origin


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything beside the token ids that changes keys and values, or who may see them.

    Attributes:
        fingerprint: Of the model's configuration and weights.
        adapter: Name of the active adapter, empty if none.
        dtype: Type of keys and values.
        salt: The tenant: entries of different salts are never shared.
        origin: How keys and values came about. An exact look-up never sees what was composed or edited.
    """

    fingerprint: str
    adapter: str = ""
    dtype: str = ""
    salt: str = ""
    origin: Origin = EXACT


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the cache holds and what happened so far."""

    slabs: int
    bytes: int
    budget: int
    continued: int
    copied: int
    cold: int
    evicted: int
