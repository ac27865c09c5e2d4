"""The LangGraph store: what it can promise over a BaseStore that cannot compare and set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from pkv_agents import ConflictError, LangGraphStore, LedgerError, StoreError


class Overtaken(InMemoryStore):
    """Another process writes at a chosen moment: before our read, before our write, or after it."""

    def __init__(self, before_put: Callable[[], None], after_put: Callable[[], None]) -> None:
        super().__init__()
        self.before_put, self.after_put = before_put, after_put

    def put(self, *args: Any, **kwargs: Any) -> None:
        self.before_put()
        super().put(*args, **kwargs)
        self.after_put()


def nothing() -> None:
    pass


def overwrite(base: InMemoryStore) -> Callable[[], None]:
    theirs = {"version": 2, "data": '{"by":"them"}', "writer": "them"}
    return lambda: InMemoryStore.put(base, ("pkv_agents",), "a", theirs)


def test_a_race_that_is_seen() -> None:
    """Their write stands after ours: we are told."""
    base = Overtaken(nothing, nothing)
    store = LangGraphStore(base)
    store.save("a", {"by": "us"}, expected_version=0)
    base.after_put = overwrite(base)
    with pytest.raises(ConflictError, match="version 2, expected 1"):
        store.save("a", {"by": "us"}, expected_version=1)
    found = store.load("a")
    assert found is not None and found.data == {"by": "them"}


def test_a_race_that_is_not_seen() -> None:
    """Their write falls between our check and our write, and they have looked already: as documented, it is lost."""
    base = Overtaken(nothing, nothing)
    store = LangGraphStore(base)
    store.save("a", {"by": "us"}, expected_version=0)
    base.before_put = overwrite(base)
    assert store.save("a", {"by": "us"}, expected_version=1) == 2
    found = store.load("a")
    assert found is not None and (found.data, found.version) == ({"by": "us"}, 2)


def test_a_record_that_vanishes_is_a_conflict() -> None:
    base = Overtaken(nothing, nothing)
    base.after_put = lambda: base.delete(("pkv_agents",), "a")
    with pytest.raises(ConflictError, match="version 0, expected 0"):
        LangGraphStore(base).save("a", {}, expected_version=0)


def test_what_is_kept_and_where() -> None:
    base = InMemoryStore(index={"dims": 2, "embed": never})
    store = LangGraphStore(base, ("app", "pkv"))
    store.save("user-42", {"b": "é\x00", "a": 1}, expected_version=0)
    base.put(("app", "pkv", "below"), "theirs", {"n": 1}, index=False)
    base.put(("app",), "theirs", {"n": 1}, index=False)
    assert store.keys() == ("user-42",)
    item = base.get(("app", "pkv"), "user-42")
    assert item is not None
    assert {**item.value, "writer": ""} == {"version": 1, "data": '{"b":"\\u00e9\\u0000","a":1}', "writer": ""}


def never(texts: Any) -> list[list[float]]:
    raise AssertionError("a session was embedded")


def test_a_damaged_record() -> None:
    base = InMemoryStore()
    store = LangGraphStore(base)
    for value in ({}, {"version": "1", "data": "{}"}, {"version": 1, "data": {}}, {"version": 1, "data": "{"}):
        base.put(("pkv_agents",), "a", value)
        with pytest.raises(LedgerError, match="'a' is damaged"):
            store.load("a")
    assert store.delete("a") and not store.delete("a")


@pytest.mark.parametrize("namespace", [(), "pkv_agents", (1,)])
def test_a_namespace_that_is_none(namespace: Any) -> None:
    with pytest.raises(StoreError, match="namespace"):
        LangGraphStore(InMemoryStore(), namespace)


def test_a_failing_store_is_our_error() -> None:
    store = LangGraphStore(InMemoryStore(), ("a.b",))  # LangGraph allows no dot there
    for use in (lambda: store.load("a"), lambda: store.save("a", {}, expected_version=0), lambda: store.delete("a")):
        with pytest.raises(StoreError, match=r"failed: langgraph\.store\.base\.InvalidNamespaceError$") as caught:
            use()
        assert caught.value.__suppress_context__ and caught.value.__context__ is not None
