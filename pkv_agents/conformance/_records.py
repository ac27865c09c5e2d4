"""Checks of single records: what goes in comes out, under its key, with its version."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

from .._stored import SessionStore
from ._expect import expect, expect_conflict, must_load

MakeStore = Callable[[], SessionStore]

NESTED: dict[str, object] = {
    "z": 1,
    "a": {"list": [None, True, False, 0, -1, 2**53, 1.5, "", [], {}, [[["deep"]]]], "y": "", "b": "order is kept"},
    "text": 'é 日本 🙂 e\u0301 \u0000 \x1f \x7f \u2028 " \\ \\u0041 </state> {"a":1} %s $1 ?',
    "": "an empty name",
    "na.me/🙂\u0000": ["a name"],
}
LARGE = 5_000_000
"""Characters of text in the large record."""


def nothing_is_none(make_store: MakeStore, prefix: str) -> None:
    """A session that was never saved is None, is not listed, and is not there to delete."""
    store, key = make_store(), f"{prefix}key"
    expect(store.load(key) is None, "load gives something for a session that was never saved")
    expect(key not in set(store.keys()), "keys lists a session that was never saved")
    expect(store.delete(key) is False, "delete says that there was a session")


def data_comes_back_byte_for_byte(make_store: MakeStore, prefix: str) -> None:
    """Nested data is loaded as it was saved: types, unicode, and the order of names."""
    store, key = make_store(), f"{prefix}key"
    store.save(key, NESTED, expected_version=0)
    for handle in (store, make_store()):
        found = json.dumps(must_load(handle, key).data)
        expect(found == json.dumps(NESTED), f"what was loaded differs from what was saved: {found}")


def what_is_loaded_is_a_copy(make_store: MakeStore, prefix: str) -> None:
    """Neither what was passed to save nor what load gave is the record itself."""
    store, key = make_store(), f"{prefix}key"
    data: dict[str, object] = {"list": [1]}
    store.save(key, data, expected_version=0)
    for changed in (data, must_load(store, key).data):
        cast("list[int]", changed["list"]).append(2)
        expect(must_load(store, key).data == {"list": [1]}, "a change to data in memory changed the stored record")


def versions_count(make_store: MakeStore, prefix: str) -> None:
    """Versions are 1, 2, 3 and come with the data."""
    store, key = make_store(), f"{prefix}key"
    for version in (1, 2, 3):
        got = store.save(key, {"n": version}, expected_version=version - 1)
        expect(got == version, f"save number {version} gave version {got}")
        found = must_load(store, key)
        expect(found.version == version, f"load gives version {found.version} after save number {version}")
        expect(found.data == {"n": version}, f"load gives the data of another save than number {version}")


def a_wrong_version_changes_nothing(make_store: MakeStore, prefix: str) -> None:
    """A save that expects another version raises ConflictError and leaves everything as it was."""
    store, key = make_store(), f"{prefix}key"
    expect_conflict(store, key, {"n": "wrong"}, 1)
    expect(store.load(key) is None, "a refused save made a record")
    store.save(key, {"n": 1}, expected_version=0)
    store.save(key, {"n": 2}, expected_version=1)
    for version in (0, 1, 3):
        expect_conflict(store, key, {"n": "wrong"}, version)
        found = must_load(store, key)
        expect((found.data, found.version) == ({"n": 2}, 2), "a refused save changed the record")


def two_handles_are_one_store(make_store: MakeStore, prefix: str) -> None:
    """What one handle saves or deletes, the other sees at once; an old version is refused across them."""
    one, two, key = make_store(), make_store(), f"{prefix}key"
    expect(two.load(key) is None, "load gives something for a session that was never saved")
    one.save(key, {"n": 1}, expected_version=0)
    expect(must_load(two, key).version == 1, "the second handle does not see the first one's save")
    two.save(key, {"n": 2}, expected_version=1)
    expect_conflict(one, key, {"n": "wrong"}, 1)
    expect(must_load(one, key).data == {"n": 2}, "the first handle does not see the second one's save")
    expect(two.delete(key) is True, "delete does not say that there was a session")
    expect(one.load(key) is None, "the first handle does not see the second one's delete")


def delete_then_save(make_store: MakeStore, prefix: str) -> None:
    """A deleted session is gone, and a save under its key begins at version 1 again."""
    store, key = make_store(), f"{prefix}key"
    store.save(key, {"n": 1}, expected_version=0)
    store.save(key, {"n": 2}, expected_version=1)
    expect(store.delete(key) is True, "delete does not say that there was a session")
    expect(store.delete(key) is False, "a second delete says that there was a session")
    expect(store.load(key) is None and key not in set(store.keys()), "a deleted session is still there")
    expect_conflict(store, key, {"n": "wrong"}, 2)
    expect(store.save(key, {"n": 3}, expected_version=0) == 1, "a save after a delete does not begin at version 1")


def keys_are_sorted(make_store: MakeStore, prefix: str) -> None:
    """Listing gives every session once, as a sorted tuple, also when there are many."""
    store = make_store()
    keys = [f"{prefix}{number}" for number in range(110)] + [f"{prefix}{name}" for name in ("b", "B", "é", "a", "10b")]
    for key in keys:
        store.save(key, {}, expected_version=0)
    found = store.keys()
    expect(type(found) is tuple, f"keys gives a {type(found).__name__}, not a tuple")
    expect([key for key in found if key.startswith(prefix)] == sorted(keys), "keys are not all there, once, and sorted")


def odd_keys(make_store: MakeStore, prefix: str) -> None:
    """Any text is a key of its own."""
    store = make_store()
    odd = ["", " ", "a", "A", "a ", "a\x00", "a\x00b", "a\nb", "🙂", "é", "e\u0301", "a/b", "a.b", ":", "a:b", "../a"]
    odd += ["*", "a*", "[a]", "?", "%", "_", "'", '"', "\\", "\\u0000", "'; DROP TABLE pkv_sessions; --", "k" * 10_000]
    keys = [prefix + name for name in (*odd, "k" * 9_999 + "x")]
    if store.load("") is None:
        keys.append("")
    try:
        for number, key in enumerate(keys):
            expect(store.load(key) is None, f"the key that ends in {key[-20:]!r} is taken for another one")
            store.save(key, {"n": number}, expected_version=0)
        for number, key in enumerate(keys):
            expect(must_load(store, key).data == {"n": number}, f"the key that ends in {key[-20:]!r} has lost its data")
        expect(set(keys) <= set(store.keys()), "keys does not give back every key as it was")
    finally:
        if "" in keys:
            store.delete("")


def a_large_record(make_store: MakeStore, prefix: str) -> None:
    """A record of five million characters is kept whole."""
    store, key = make_store(), f"{prefix}key"
    data = {"text": "é🙂 0123456" * (LARGE // 10)}
    store.save(key, data, expected_version=0)
    expect(must_load(make_store(), key).data == data, "a large record does not come back whole")
    store.save(key, {"text": ""}, expected_version=1)
    expect(must_load(store, key).data == {"text": ""}, "a large record is not replaced whole")
