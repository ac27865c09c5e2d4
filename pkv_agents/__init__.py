"""pkv-agents: state that changes without breaking the prompt cache.

Everything public is here; modules are private in layout. Importing this package imports pydantic and no framework.
"""

from ._rebase import DEFAULT_POLICY, RebasePolicy, RebaseQuote
from ._report import SessionReport, TurnRecord
from ._stored import SessionStore, StoredSession
from ._walk import snapshot
from .anchors import Anchor
from .breakpoints import Breakpoint, BreakpointPlan, apply_breakpoints, plan_breakpoints
from .cachekeys import cache_key, shards_for
from .cachesim import CacheOutcome, CacheRequest, CacheSim, cache_request
from .conformance import STORE_CHECKS, check_store
from .cost import Cost, cost_of, total_cost
from .diff import Change, diff, fold
from .errata import check_tag, new_tag, render_baseline, render_erratum
from .errors import (
    AdapterError,
    ConflictError,
    ConformanceError,
    ContextLengthError,
    GrammarError,
    LedgerError,
    MessageError,
    MissingSessionKeyError,
    ModelError,
    OptionsError,
    PkvError,
    PriceError,
    ProfileError,
    SchemaError,
    SegmentError,
    SessionError,
    SlabError,
    StateError,
    StoreError,
    StrictNoticeError,
    StyleError,
    TemplateError,
    ToolError,
    UnknownKeyError,
    UnsupportedModelError,
)
from .escape import neutralise
from .explain import Explanation, ToldChange, explain
from .keyed import KeyedList
from .ledger import LEDGER_VERSION, Carrier, Epoch, Erratum, Ledger, Sent
from .markers import Hidden, Pinned, Shared, Tracked, Untrusted, Volatile
from .merge import MergedPatches, PatchConflict, merge_patches
from .messages import Message, Part, Role, ToolCall
from .notices import Notice
from .patch import REMOVE, append, apply_patch
from .planning import plan
from .predict import Prediction, predict
from .prices import DEFAULT_PRICES, Price, PriceRow, PriceTable, model_family
from .profiles import (
    ANTHROPIC,
    ANTHROPIC_MID_SYSTEM,
    GENERIC,
    LOCAL,
    OPENAI,
    OPENAI_5_6,
    Profile,
    Ttl,
    minimum_notice,
    profile_for,
)
from .recording import commit
from .refusals import refuses_system, system_refused, without_system
from .session import AgentSession
from .snapshots import LeafMeta, Snapshot
from .state import TrackedState
from .state_data import dump_state, load_state
from .stores import (
    LangGraphStore,
    MemoryStore,
    PostgresStore,
    RedisStore,
    SessionInfo,
    SQLiteStore,
    delete_session,
    export_session,
    import_session,
    list_sessions,
    reset_session,
)
from .styles import CALM_STYLE, DEFAULT_STYLE, PLAIN_STYLE, ErrataStyle
from .tokens import TokenCounter, Tokenizer, estimate_message_tokens, estimate_tokens, token_counter
from .tools import ToolSpec, canonical_tool, order_tools, sorted_arguments, tool_json
from .turnplan import Insertion, Previous, TurnPlan
from .usage import Usage, merge_stream_usage, normalise_usage
from .wire import append_text, wire, wire_new

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_MID_SYSTEM",
    "AdapterError",
    "AgentSession",
    "Anchor",
    "Breakpoint",
    "BreakpointPlan",
    "CALM_STYLE",
    "CacheOutcome",
    "CacheRequest",
    "CacheSim",
    "Carrier",
    "Change",
    "ConflictError",
    "ConformanceError",
    "ContextLengthError",
    "Cost",
    "DEFAULT_POLICY",
    "DEFAULT_PRICES",
    "DEFAULT_STYLE",
    "Epoch",
    "ErrataStyle",
    "Erratum",
    "Explanation",
    "GENERIC",
    "GrammarError",
    "Hidden",
    "Insertion",
    "KeyedList",
    "LEDGER_VERSION",
    "LOCAL",
    "LangGraphStore",
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
    "PostgresStore",
    "Prediction",
    "Previous",
    "Price",
    "PriceError",
    "PriceRow",
    "PriceTable",
    "Profile",
    "ProfileError",
    "REMOVE",
    "RebasePolicy",
    "RebaseQuote",
    "RedisStore",
    "Role",
    "SQLiteStore",
    "STORE_CHECKS",
    "SchemaError",
    "SegmentError",
    "Sent",
    "SessionError",
    "SessionInfo",
    "SessionReport",
    "SessionStore",
    "Shared",
    "SlabError",
    "Snapshot",
    "StateError",
    "StoreError",
    "StoredSession",
    "StrictNoticeError",
    "StyleError",
    "TemplateError",
    "TokenCounter",
    "Tokenizer",
    "ToldChange",
    "ToolCall",
    "ToolError",
    "ToolSpec",
    "Tracked",
    "TrackedState",
    "Ttl",
    "TurnPlan",
    "TurnRecord",
    "UnknownKeyError",
    "UnsupportedModelError",
    "Untrusted",
    "Usage",
    "Volatile",
    "append",
    "append_text",
    "apply_breakpoints",
    "apply_patch",
    "cache_key",
    "cache_request",
    "canonical_tool",
    "check_store",
    "check_tag",
    "commit",
    "cost_of",
    "delete_session",
    "diff",
    "dump_state",
    "estimate_message_tokens",
    "estimate_tokens",
    "explain",
    "export_session",
    "fold",
    "import_session",
    "list_sessions",
    "load_state",
    "merge_patches",
    "merge_stream_usage",
    "minimum_notice",
    "model_family",
    "neutralise",
    "new_tag",
    "normalise_usage",
    "order_tools",
    "plan",
    "plan_breakpoints",
    "predict",
    "profile_for",
    "refuses_system",
    "render_baseline",
    "render_erratum",
    "reset_session",
    "shards_for",
    "snapshot",
    "sorted_arguments",
    "system_refused",
    "token_counter",
    "tool_json",
    "total_cost",
    "wire",
    "wire_new",
    "without_system",
]
