"""A process that adds to a counter in a store, for tests with several at once.

    python -m tests.stores.counter KIND ADDRESS KEY TIMES

It begins when its standard input is closed, so that several can begin together.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from pkv_agents import ConflictError, PostgresStore, RedisStore, SessionStore, SQLiteStore


def open_store(kind: str, address: str, stack: ExitStack) -> SessionStore:
    if kind == "sqlite":
        return stack.enter_context(SQLiteStore(address))
    if kind == "redis":
        import redis

        return RedisStore(stack.enter_context(redis.Redis(host="127.0.0.1", port=int(address))), "counter:")
    import psycopg

    return PostgresStore(lambda: psycopg.connect(address), "counter")


def add(store: SessionStore, key: str) -> None:
    while True:
        found = store.load(key)
        count, version = (int(str(found.data["n"])), found.version) if found is not None else (0, 0)
        try:
            store.save(key, {"n": count + 1}, expected_version=version)
        except ConflictError:
            continue
        return


def main() -> None:
    kind, address, key, times = sys.argv[1:]
    sys.stdin.read()
    with ExitStack() as stack:
        store = open_store(kind, address, stack)
        for _ in range(int(times)):
            add(store, key)


if __name__ == "__main__":
    main()
