"""pkv-agents for LangChain: tracked state for agents and chat models, and local models.

agent = create_agent(model, tools, middleware=[StateMiddleware(Shop, instructions=POLICY)])
llm = with_state(ChatOpenAI(...), session)
llm = LocalChatModel(local=LocalModel(model, tokenizer))
"""

from typing import TYPE_CHECKING, Any

from langchain_pkv._ledger import LedgerRecord, read_ledger, rebase_update
from langchain_pkv._messages import to_core
from langchain_pkv._state import read_state
from langchain_pkv._wrapping import with_state
from langchain_pkv.compaction import SummaryMiddleware, TrimMiddleware
from langchain_pkv.middleware import ModelCall, StateMiddleware
from langchain_pkv.stateful import StatefulChatModel

if TYPE_CHECKING:
    from langchain_pkv.local import LocalChatModel

__all__ = [
    "LedgerRecord",
    "LocalChatModel",
    "ModelCall",
    "StateMiddleware",
    "StatefulChatModel",
    "SummaryMiddleware",
    "TrimMiddleware",
    "read_ledger",
    "read_state",
    "rebase_update",
    "to_core",
    "with_state",
]


def __getattr__(name: str) -> Any:
    """Import `LocalChatModel` when it is asked for: it needs the extra `local`."""
    if name == "LocalChatModel":
        from langchain_pkv.local import LocalChatModel

        return LocalChatModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
