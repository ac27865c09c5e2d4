"""Keys and values of local models (needs the extra `local`).

Slabs and a token-exact prefix cache over them continue a prompt; segments can be cut, moved, joined, edited and kept on
disk.
"""

from __future__ import annotations

from pkv_agents.kv._hf import HFModel, ModelFacts
from pkv_agents.kv._memory import keep_freed_memory
from pkv_agents.kv.compose import Placed, compiled_digest, compose, placed_origin
from pkv_agents.kv.disk import DiskStore
from pkv_agents.kv.edit import EditMode, edit
from pkv_agents.kv.edit_runs import TokenRun, rewrite
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.families import Family, support_table
from pkv_agents.kv.origin import EXACT, Composed, Edited, Exact, FieldEdit, Origin
from pkv_agents.kv.prefix_cache import CacheKey, CacheStats, Lease, PrefixCache
from pkv_agents.kv.rotary import RotaryRule
from pkv_agents.kv.segment import FieldSpan, KVSegment, concat
from pkv_agents.kv.slab import Slab, SlabError, SlabShape
from pkv_agents.kv.splice import compile_segment, splice

__all__ = [
    "CacheKey",
    "CacheStats",
    "Composed",
    "DiskStore",
    "EXACT",
    "EditMode",
    "Edited",
    "Exact",
    "Family",
    "FieldEdit",
    "FieldSpan",
    "Forwarded",
    "HFModel",
    "KVSegment",
    "Lease",
    "ModelFacts",
    "Origin",
    "Placed",
    "PrefixCache",
    "RotaryRule",
    "SegmentModel",
    "Slab",
    "SlabError",
    "SlabShape",
    "TokenRun",
    "compile_segment",
    "compiled_digest",
    "compose",
    "concat",
    "edit",
    "keep_freed_memory",
    "placed_origin",
    "rewrite",
    "splice",
    "support_table",
]
