"""Every store under test as one shape: a backend that is empty at first, and handles on it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from pkv_agents import LangGraphStore, MemoryStore, PostgresStore, RedisStore, SessionStore, SQLiteStore

MakeStore = Callable[[], SessionStore]

BACKENDS = ("memory", "sqlite", "langgraph", "langgraph-sqlite", "redis", "redis-text", "postgres")
SERVERS = {"redis": "redis_port", "redis-text": "redis_port", "postgres": "postgres"}
"""The fixture of the server that a backend needs."""


@contextmanager
def backend(name: str, folder: Path, server: Any) -> Generator[MakeStore]:
    """A function that makes handles on one new backend."""
    with ExitStack() as stack:
        match name:
            case "memory":
                store = MemoryStore()
                yield lambda: store
            case "sqlite":
                yield lambda: stack.enter_context(SQLiteStore(folder / "sessions.db"))
            case "langgraph":
                from langgraph.store.memory import InMemoryStore

                base = InMemoryStore()
                yield lambda: LangGraphStore(base)
            case "langgraph-sqlite":
                from langgraph.store.sqlite import SqliteStore  # pyright: ignore[reportMissingTypeStubs]

                kept = stack.enter_context(SqliteStore.from_conn_string(str(folder / "graph.db")))
                kept.setup()
                yield lambda: LangGraphStore(kept, ("app", "sessions"))
            case "redis" | "redis-text":
                yield _redis(stack, server, name == "redis-text")
            case _:
                yield pooled(stack, server.dsn())


def pooled(stack: ExitStack, dsn: str) -> MakeStore:
    """Handles on a new table, over one pool."""
    from psycopg_pool import ConnectionPool

    pool = stack.enter_context(ConnectionPool(dsn, min_size=1, max_size=8, open=True))
    table = f"t{uuid4().hex}"
    return lambda: PostgresStore(pool.connection, table)


def _redis(stack: ExitStack, port: int, text: bool) -> MakeStore:
    import redis

    prefix = f"[pkv*?\\]-{uuid4().hex}:"  # characters that mean something in Redis' patterns

    def make() -> SessionStore:
        client = stack.enter_context(redis.Redis(host="127.0.0.1", port=port, decode_responses=text))
        return RedisStore(client, prefix)

    return make
