"""Keys and values of local models (needs the extra `local`).

Slabs and a token-exact prefix cache over them continue a prompt; segments can be cut, moved, joined, edited and kept on
disk.
"""

from __future__ import annotations

from pkv_agents.kv._hf import HFModel, ModelFacts, load_folder
from pkv_agents.kv._memory import keep_freed_memory
from pkv_agents.kv.cache_key import CacheKey, CacheStats
from pkv_agents.kv.compose import Placed, compiled_digest, compose, placed_origin
from pkv_agents.kv.disk import DiskStore
from pkv_agents.kv.edit import EditMode, edit
from pkv_agents.kv.edit_runs import TokenRun, rewrite
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.families import Family, RopeKind, rope_table, support_table
from pkv_agents.kv.floating import FloatingCost, FloatingMemory
from pkv_agents.kv.image_span import ImageSpan
from pkv_agents.kv.images import Images
from pkv_agents.kv.origin import EXACT, Composed, Edited, Exact, FieldEdit, Origin
from pkv_agents.kv.prefix_cache import Lease, PrefixCache
from pkv_agents.kv.rotary import RotaryRule
from pkv_agents.kv.segment import FieldSpan, KVSegment, concat
from pkv_agents.kv.slab import Slab, SlabError, SlabShape
from pkv_agents.kv.spans import Replacement, field_spans, replacement
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
    "FloatingCost",
    "FloatingMemory",
    "Forwarded",
    "HFModel",
    "ImageSpan",
    "Images",
    "KVSegment",
    "Lease",
    "ModelFacts",
    "Origin",
    "Placed",
    "PrefixCache",
    "Replacement",
    "RopeKind",
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
    "field_spans",
    "keep_freed_memory",
    "load_folder",
    "placed_origin",
    "replacement",
    "rewrite",
    "rope_table",
    "splice",
    "support_table",
]
