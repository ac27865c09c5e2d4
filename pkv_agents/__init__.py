"""pkv-agents: state that changes without breaking the prompt cache.

Everything public is here; modules are private in layout. Importing this package imports pydantic and no framework.
"""

from ._report import SessionReport, TurnRecord
from ._stored import SessionStore, StoredSession
from ._walk import snapshot
from .breakpoints import Breakpoint, plan_breakpoints
from .cachesim import CacheOutcome, CacheRequest, CacheSim, cache_request
from .diff import Change, diff, fold
from .errata import check_tag, new_tag, render_baseline, render_erratum
from .errors import (
    AdapterError,
    ConflictError,
    ContextLengthError,
    GrammarError,
    LedgerError,
    MessageError,
    MissingSessionKeyError,
    ModelError,
    OptionsError,
    PkvError,
    ProfileError,
    SchemaError,
    SessionError,
    SlabError,
    StateError,
    StoreError,
    StrictNoticeError,
    StyleError,
    TemplateError,
    UnknownKeyError,
    UnsupportedModelError,
)
from .escape import neutralise
from .keyed import KeyedList
from .ledger import LEDGER_VERSION, Anchor, Carrier, Epoch, Erratum, Ledger, chain
from .markers import Hidden, Pinned, Tracked, Untrusted, Volatile
from .merge import MergedPatches, PatchConflict, merge_patches
from .messages import Message, Part, Role, ToolCall
from .notices import Notice
from .patch import REMOVE, append, apply_patch
from .planning import commit, plan
from .profiles import ANTHROPIC, ANTHROPIC_MID_SYSTEM, GENERIC, LOCAL, OPENAI, OPENAI_5_6, Profile, profile_for
from .session import AgentSession
from .snapshots import LeafMeta, Snapshot
from .state import TrackedState
from .stores import MemoryStore, SQLiteStore
from .styles import CALM_STYLE, DEFAULT_STYLE, PLAIN_STYLE, ErrataStyle
from .tokens import estimate_tokens
from .turnplan import DEFAULT_POLICY, Insertion, RebasePolicy, TurnPlan
from .usage import Usage, normalise_usage
from .wire import append_text, wire

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_MID_SYSTEM",
    "AdapterError",
    "AgentSession",
    "Anchor",
    "Breakpoint",
    "CALM_STYLE",
    "CacheOutcome",
    "CacheRequest",
    "CacheSim",
    "Carrier",
    "Change",
    "ConflictError",
    "ContextLengthError",
    "DEFAULT_POLICY",
    "DEFAULT_STYLE",
    "Epoch",
    "ErrataStyle",
    "Erratum",
    "GENERIC",
    "GrammarError",
    "Hidden",
    "Insertion",
    "KeyedList",
    "LEDGER_VERSION",
    "LOCAL",
    "LeafMeta",
    "Ledger",
    "LedgerError",
    "MemoryStore",
    "MergedPatches",
    "Message",
    "MessageError",
    "MissingSessionKeyError",
    "ModelError",
    "Notice",
    "OPENAI",
    "OPENAI_5_6",
    "OptionsError",
    "PLAIN_STYLE",
    "Part",
    "PatchConflict",
    "Pinned",
    "PkvError",
    "Profile",
    "ProfileError",
    "REMOVE",
    "RebasePolicy",
    "Role",
    "SQLiteStore",
    "SchemaError",
    "SessionError",
    "SessionReport",
    "SessionStore",
    "SlabError",
    "Snapshot",
    "StateError",
    "StoreError",
    "StoredSession",
    "StrictNoticeError",
    "StyleError",
    "TemplateError",
    "ToolCall",
    "Tracked",
    "TrackedState",
    "TurnPlan",
    "TurnRecord",
    "UnknownKeyError",
    "UnsupportedModelError",
    "Untrusted",
    "Usage",
    "Volatile",
    "append",
    "append_text",
    "apply_patch",
    "cache_request",
    "chain",
    "check_tag",
    "commit",
    "diff",
    "estimate_tokens",
    "fold",
    "merge_patches",
    "neutralise",
    "new_tag",
    "normalise_usage",
    "plan",
    "plan_breakpoints",
    "profile_for",
    "render_baseline",
    "render_erratum",
    "snapshot",
    "wire",
]
