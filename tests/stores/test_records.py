"""The record of a session: written, read with suspicion, and in no other form than text that every backend keeps."""

from __future__ import annotations

import json
import pickle
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import LedgerError, MemoryStore, SessionError, StoredSession, StoreError, Usage
from pkv_agents._stored import SessionRecord, decode_record, encode_record
from pkv_agents.stores._base import foreign_errors, key_of, key_text, record_of, record_text
from tests.core.shop import HELLO, make

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(TEXTS)
def test_every_key_is_plain_text_and_comes_back(key: str) -> None:
    text = key_text(key)
    assert text.isascii() and (text.isprintable() or not text) and key_of(text) == key


@given(TEXTS, TEXTS)
def test_no_two_keys_are_one(one: str, two: str) -> None:
    assert (key_text(one) == key_text(two)) == (one == two)


@pytest.mark.parametrize("key", [None, 4, b"a", "\ud83d", "\ud83d\ude42"])
def test_keys_that_are_no_text(key: Any) -> None:
    for use in (lambda: MemoryStore().save(key, {}, expected_version=0), lambda: key_text(key)):
        with pytest.raises(StoreError, match="key"):
            use()


@given(st.dictionaries(st.text(), JSON))
def test_data_comes_back(data: dict[str, object]) -> None:
    text = record_text("a", data)
    assert text.isascii() and text.isprintable()
    found = record_of("a", text, 3)
    assert found.version == 3 and json.dumps(found.data) == json.dumps(json.loads(json.dumps(data)))


def test_data_that_is_not_plain() -> None:
    loop: dict[str, object] = {}
    loop["self"] = loop
    for data in ({"a": {1}}, {"a": float("nan")}, {("a",): 1}, loop):
        with pytest.raises(StoreError, match="'a' is not plain JSON data"):
            record_text("a", data)  # pyright: ignore[reportArgumentType] (the mistakes under test)


def test_a_long_key_does_not_fill_the_message() -> None:
    with pytest.raises(StoreError) as caught:
        record_text("k" * 10_000, {"a": object()})
    assert len(str(caught.value)) < 250


def record() -> SessionRecord:
    session = make()
    session.commit(session.plan(HELLO))
    return SessionRecord(session.ledger, Usage(fresh=7, output=1), 3, {"later": ["é", {"n": None}]})


@pytest.mark.parametrize("given", [record(), SessionRecord()])
def test_a_record_comes_back(given: SessionRecord) -> None:
    data = json.loads(json.dumps(encode_record(given)))
    assert decode_record("a", StoredSession(data, 1)) == given
    for name in ("format", "version", "usage", "turns", "extra"):
        del data[name]
    assert decode_record("a", StoredSession(data, 1)) == SessionRecord(given.ledger)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"format": "other"}, "format"),
        ({"version": 2}, "version 2, this library reads 1; update"),
        ({"version": "s3cret"}, "version str"),
        ({"version": True}, "version True"),
        ({"ledger": 1}, "ledger"),
        ({"ledger": {"format": "other"}}, "ledger"),
        ({"usage": [1]}, "usage is a list"),
        ({"usage": {"fresh": "s3cret"}}, "usage.fresh is a str"),
        ({"usage": {"fresh": True}}, "usage.fresh is a bool"),
        ({"usage": {"dreams": 1}}, "usage that this library does not know"),
        ({"turns": -1}, "turns"),
        ({"turns": True}, "turns"),
        ({"turns": "s3cret"}, "turns"),
        ({"extra": ["s3cret"]}, "extra is a list"),
    ],
)
def test_a_damaged_record_is_our_error(damage: dict[str, object], says: str) -> None:
    data = encode_record(record())
    with pytest.raises(LedgerError, match=says) as caught:
        decode_record("a", StoredSession({**data, **damage}, 1))
    assert "nothing" in str(caught.value) and "s3cret" not in str(caught.value)


def test_what_is_no_record_at_all() -> None:
    with pytest.raises(LedgerError, match="no ledger"):
        decode_record("a", StoredSession({}, 1))
    with pytest.raises(LedgerError, match="is a list"):
        decode_record("a", StoredSession([], 1))  # pyright: ignore[reportArgumentType] (stores are the user's)


class DriverError(Exception):
    sqlstate = "28P01"


def test_no_formatted_traceback_shows_what_a_driver_said() -> None:
    words = "postgres://user:hunter2@db: password authentication failed"
    with pytest.raises(StoreError) as caught, foreign_errors("the store"):
        raise DriverError(words)
    for reason in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        shown = "".join(traceback.format_exception(reason))
        assert "hunter2" not in shown and shown.rstrip().endswith("DriverError (SQLSTATE 28P01)")
    with pytest.raises(SessionError) as turn:
        raise SessionError("the turn failed") from caught.value
    assert "hunter2" not in "".join(traceback.format_exception(turn.value))
    assert str(caught.value.__context__) == words  # for a debugger
