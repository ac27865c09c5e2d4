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
from .diff import Change, diff, fold
from .errata import DEFAULT_STYLE, ErrataStyle, check_tag, new_tag, render_baseline, render_erratum
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
    TemplateError,
    ToolError,
    UnknownKeyError,
    UnsupportedModelError,
)
from .escape import neutralise
from .explain import Explanation, ToldChange, explain
from .keyed import KeyedList
from .ledger import LEDGER_VERSION, Carrier, Epoch, Erratum, Ledger, Sent
from .markers import Hidden, Pinned, Tracked, Untrusted, Volatile
from .messages import Message, Part, Role, ToolCall
from .notices import Notice
from .patch import REMOVE, apply_patch
from .planning import plan
from .predict import Prediction, predict
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
from .stores import MemoryStore, SQLiteStore
from .tokens import TokenCounter, Tokenizer, estimate_message_tokens, estimate_tokens, token_counter
from .tools import ToolSpec, canonical_tool, order_tools, sorted_arguments, tool_json
from .turnplan import Insertion, Previous, TurnPlan
from .usage import Usage, normalise_usage
from .wire import append_text, wire, wire_new

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_MID_SYSTEM",
    "AdapterError",
    "AgentSession",
    "Anchor",
    "Breakpoint",
    "BreakpointPlan",
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
    "Explanation",
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
    "Message",
    "MessageError",
    "MissingSessionKeyError",
    "ModelError",
    "Notice",
    "OPENAI",
    "OPENAI_5_6",
    "OptionsError",
    "Part",
    "Pinned",
    "PkvError",
    "Prediction",
    "Previous",
    "Profile",
    "ProfileError",
    "REMOVE",
    "RebasePolicy",
    "RebaseQuote",
    "Role",
    "SQLiteStore",
    "SchemaError",
    "Sent",
    "SessionError",
    "SessionReport",
    "SessionStore",
    "SlabError",
    "Snapshot",
    "StateError",
    "StoreError",
    "StoredSession",
    "StrictNoticeError",
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
    "append_text",
    "apply_breakpoints",
    "apply_patch",
    "cache_key",
    "cache_request",
    "canonical_tool",
    "check_tag",
    "commit",
    "diff",
    "estimate_message_tokens",
    "estimate_tokens",
    "explain",
    "fold",
    "minimum_notice",
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
    "shards_for",
    "snapshot",
    "sorted_arguments",
    "system_refused",
    "token_counter",
    "tool_json",
    "wire",
    "wire_new",
    "without_system",
]
