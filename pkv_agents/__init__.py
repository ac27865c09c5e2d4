"""pkv-agents: state that changes without breaking the prompt cache."""

from ._walk import snapshot
from .diff import Change, diff, fold
from .errata import DEFAULT_STYLE, ErrataStyle, new_tag, render_baseline, render_erratum
from .errors import (
    AdapterError,
    ConflictError,
    ContextLengthError,
    GrammarError,
    LedgerError,
    MessageError,
    MissingSessionKeyError,
    ModelError,
    PkvError,
    ProfileError,
    SchemaError,
    SessionError,
    StateError,
    StoreError,
    StrictNoticeError,
    TemplateError,
    UnknownKeyError,
    UnsupportedModelError,
)
from .escape import neutralise
from .keyed import KeyedList
from .markers import Hidden, Pinned, Tracked, Untrusted, Volatile
from .messages import Message, ToolCall
from .patch import REMOVE, apply_patch
from .snapshot import LeafMeta, Snapshot
from .state import TrackedState

__all__ = [
    "AdapterError",
    "Change",
    "ConflictError",
    "ContextLengthError",
    "DEFAULT_STYLE",
    "ErrataStyle",
    "GrammarError",
    "Hidden",
    "KeyedList",
    "LeafMeta",
    "LedgerError",
    "Message",
    "MessageError",
    "MissingSessionKeyError",
    "ModelError",
    "Pinned",
    "PkvError",
    "ProfileError",
    "REMOVE",
    "SchemaError",
    "SessionError",
    "Snapshot",
    "StateError",
    "StoreError",
    "StrictNoticeError",
    "TemplateError",
    "ToolCall",
    "Tracked",
    "TrackedState",
    "UnknownKeyError",
    "UnsupportedModelError",
    "Untrusted",
    "Volatile",
    "apply_patch",
    "diff",
    "fold",
    "neutralise",
    "new_tag",
    "render_baseline",
    "render_erratum",
    "snapshot",
]
