"""Every store holds to what sessions rely on, and the suite sees the stores that do not."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest

from pkv_agents import STORE_CHECKS, ConflictError, ConformanceError, MemoryStore, StoredSession, check_store
from tests.stores.backends import BACKENDS, MakeStore


@pytest.mark.parametrize("make_store", BACKENDS, indirect=True)
@pytest.mark.parametrize("name", STORE_CHECKS)
def test_conformance(make_store: MakeStore, name: str) -> None:
    kept = make_store()
    kept.save("of somebody else", {"n": 1}, expected_version=0)
    check_store(make_store, only=[name])
    assert kept.keys() == ("of somebody else",)


class Base(MemoryStore):
    """A sound store, to be broken in one place."""


class NoVersionCheck(Base):
    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        found = self.load(key)
        return super().save(key, data, expected_version=found.version if found is not None else 0)


class CheckThenAct(Base):
    """Compares and sets in two steps, so that two threads may both win."""

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        found = self.load(key)
        if (found.version if found is not None else 0) != expected_version:
            raise ConflictError("late")
        time.sleep(0.005)
        self._records[key] = (json.dumps(data), expected_version + 1)
        return expected_version + 1


class Sorts(Base):
    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        text = json.dumps(data, sort_keys=True)
        return super().save(key, json.loads(text), expected_version=expected_version)


class Shortens(Base):
    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        return super().save(key[:255], data, expected_version=expected_version)

    def load(self, key: str) -> StoredSession | None:
        return super().load(key[:255])


class Shares(Base):
    """Keeps the very object."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Mapping[str, object]] = {}

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        version = super().save(key, data, expected_version=expected_version)
        self.kept[key] = data
        return version

    def load(self, key: str) -> StoredSession | None:
        found = super().load(key)
        return StoredSession(self.kept[key], found.version) if found is not None else None


class NeverDeletes(Base):
    def delete(self, key: str) -> bool:
        return key in self._records


class Unsorted(Base):
    def keys(self) -> tuple[str, ...]:
        return tuple(self._records)


class Writes(Base):
    """Saves although it raises."""

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        try:
            return super().save(key, data, expected_version=expected_version)
        except ConflictError:
            self._records[key] = (json.dumps(data), expected_version + 1)
            raise


class Upgrades(Base):
    """Makes what it does not know its own."""

    def load(self, key: str) -> StoredSession | None:
        found = super().load(key)
        if found is None or found.data.get("version") != 999:
            return found
        self._records[key] = (json.dumps({"ledger": None}), found.version)
        return StoredSession({"ledger": None}, found.version)


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (NoVersionCheck, "a_wrong_version_changes_nothing"),
        (NoVersionCheck, "two_handles_are_one_store"),
        (NoVersionCheck, "threads_on_one_session"),
        (NoVersionCheck, "two_live_sessions"),
        (CheckThenAct, "threads_on_one_session"),
        (CheckThenAct, "no_update_is_lost"),
        (Sorts, "data_comes_back_byte_for_byte"),
        (Shortens, "odd_keys"),
        (Shares, "what_is_loaded_is_a_copy"),
        (NeverDeletes, "delete_then_save"),
        (Unsorted, "keys_are_sorted"),
        (Writes, "a_wrong_version_changes_nothing"),
        (Upgrades, "an_unknown_future_format"),
    ],
)
def test_the_suite_sees_a_broken_store(broken: type[MemoryStore], name: str) -> None:
    store = broken()
    with pytest.raises(ConformanceError, match=f"^{name}: "):
        check_store(lambda: store, only=[name])


def test_a_store_without_a_backend() -> None:
    """Two handles that share nothing."""
    with pytest.raises(ConformanceError):
        check_store(MemoryStore)


def test_the_whole_suite_in_one_call() -> None:
    store = MemoryStore()
    check_store(lambda: store)
    assert store.keys() == ()
