"""A store in a LangGraph `BaseStore`, for graphs that have one already."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from .._stored import StoredSession
from ..errors import StoreError
from ._base import conflict, foreign_errors, key_of, key_text, record_of, record_text

_PAGE = 100  # items that one step of a listing asks for


class LangGraphItem(Protocol):
    """What `LangGraphStore` needs of an `Item`."""

    @property
    def key(self) -> str:
        """The name of the item in its namespace."""
        ...

    @property
    def namespace(self) -> tuple[str, ...]:
        """Where the item lies."""
        ...

    @property
    def value(self) -> dict[str, Any]:
        """What was put."""
        ...


class LangGraphBaseStore(Protocol):
    """What `LangGraphStore` needs of a `langgraph.store.base.BaseStore`."""

    def get(self, namespace: tuple[str, ...], key: str, /) -> LangGraphItem | None:
        """Read an item."""
        ...

    def put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any], /, index: Literal[False]) -> None:
        """Write an item."""
        ...

    def delete(self, namespace: tuple[str, ...], key: str, /) -> None:
        """Remove an item."""
        ...

    def search(self, namespace: tuple[str, ...], /, *, limit: int, offset: int) -> Sequence[LangGraphItem]:
        """List items of a namespace and of those below it."""
        ...


class LangGraphStore:
    """A store in a LangGraph `BaseStore`.

    A BaseStore can read and write, and cannot compare and set; no order of plain reads and writes decides safely
    between two writers. So this is what holds:

    - threads of one process: safe, also through two stores on one BaseStore;
    - one process after another on a session: safe;
    - two processes *at the same moment* on one session: a save checks the version, writes, and reads back whether its
      own record stands there. It raises ConflictError when it was overtaken before that; when the other's write comes
      later, the first one's turn is lost, and nobody is told. The session stays readable, and what the model is told
      stays true to the ledger that was kept. Where that can happen, use SQLiteStore, PostgresStore or RedisStore.

    Items are not indexed for semantic search. Where the BaseStore has a default ttl, sessions are forgotten by it.

    Args:
        store: The BaseStore, for instance the one of the graph.
        namespace: Where the sessions lie. Nothing else may be kept there.

    Raises:
        StoreError: The namespace is empty, or not of texts.
    """

    def __init__(self, store: LangGraphBaseStore, namespace: tuple[str, ...] = ("pkv_agents",)) -> None:
        if isinstance(namespace, str) or not namespace or not all(isinstance(part, str) for part in namespace):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise StoreError("namespace: a tuple of strings, for instance ('pkv_agents',)")
        self._store = store
        self._namespace = tuple(namespace)

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None.

        Raises:
            LedgerError: The record is damaged.
            StoreError: The BaseStore failed.
        """
        found = self._get(key_text(key))
        return record_of(key, found.get("data"), found.get("version")) if found is not None else None

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record; see `SessionStore.save`, and above for what is not safe."""
        name, text = key_text(key), record_text(key, data)
        with _lock(name):
            before = self._get(name)
            version = before.get("version") if before is not None else 0
            if version != expected_version:
                raise conflict(key, expected_version, version)
            # The data is one text, so that no BaseStore's own format reorders or reinterprets it.
            record = {"version": expected_version + 1, "data": text, "writer": uuid.uuid4().hex}
            with foreign_errors("the LangGraph store"):
                self._store.put(self._namespace, name, record, index=False)
            after = self._get(name) or {}
            if after.get("writer") != record["writer"]:
                raise conflict(key, expected_version, after.get("version", 0))
        return expected_version + 1

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        name = key_text(key)
        with _lock(name):
            found = self._get(name) is not None
            with foreign_errors("the LangGraph store"):
                self._store.delete(self._namespace, name)
        return found

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted; those saved or deleted during the listing may be missing or listed."""
        names: set[str] = set()
        offset = 0
        while True:
            with foreign_errors("the LangGraph store"):
                page = self._store.search(self._namespace, limit=_PAGE, offset=offset)
            names.update(item.key for item in page if tuple(item.namespace) == self._namespace)
            if len(page) < _PAGE:
                return tuple(sorted(map(key_of, names)))
            offset += _PAGE

    def _get(self, name: str) -> Mapping[str, Any] | None:
        with foreign_errors("the LangGraph store"):
            item = self._store.get(self._namespace, name)
        return item.value if item is not None else None


def _new_locks() -> list[threading.Lock]:
    return [threading.Lock() for _ in range(64)]


# Of the process and not of one store, since two may share a BaseStore. A session always has the same one.
_LOCKS = _new_locks()


def _lock(name: str) -> threading.Lock:
    return _LOCKS[hash(name) % len(_LOCKS)]


def _after_fork() -> None:
    _LOCKS[:] = _new_locks()  # another thread of the parent may have held one


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_after_fork)
