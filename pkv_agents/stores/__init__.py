"""Session stores: where a session's record lives between two processes.

A store keeps one JSON document a key, with a version that counts its saves. A save names the version that it replaces,
so that of two processes on one session one is told (`ConflictError`) instead of losing the other's turn.

    MemoryStore      this process
    SQLiteStore      one machine, one file
    RedisStore       several machines
    PostgresStore    several machines
    LangGraphStore   a graph's own BaseStore; not for two processes at once on one session

A store of your own is a class with the four methods of `SessionStore`; `check_store` holds it to what sessions rely on.
"""

from .langgraph import LangGraphStore
from .manage import SessionInfo, delete_session, export_session, import_session, list_sessions, reset_session
from .memory import MemoryStore
from .postgres import PostgresStore
from .redis import RedisStore
from .sqlite import SQLiteStore

__all__ = [
    "LangGraphStore",
    "MemoryStore",
    "PostgresStore",
    "RedisStore",
    "SQLiteStore",
    "SessionInfo",
    "delete_session",
    "export_session",
    "import_session",
    "list_sessions",
    "reset_session",
]
