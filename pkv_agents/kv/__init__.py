"""Keys and values of local models: slabs, and a token-exact prefix cache over them (needs the extra `local`)."""

from __future__ import annotations

from pkv_agents.kv._hf import HFModel, ModelFacts
from pkv_agents.kv._memory import keep_freed_memory
from pkv_agents.kv.prefix_cache import CacheKey, CacheStats, Lease, PrefixCache
from pkv_agents.kv.slab import Slab, SlabError, SlabShape

__all__ = [
    "CacheKey",
    "CacheStats",
    "HFModel",
    "Lease",
    "ModelFacts",
    "PrefixCache",
    "Slab",
    "SlabError",
    "SlabShape",
    "keep_freed_memory",
]
