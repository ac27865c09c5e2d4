"""The stored form of a ledger: what was damaged on the way is our error, and is not planned from."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from hypothesis import given

from pkv_agents import AgentSession, Ledger, LedgerError, Message, Tracked, TrackedState
from pkv_agents.paths import canonical_path, is_path, join_key, parse_path
from tests.core.strategies import TAG, examples, texts


class Notes(TrackedState):
    a: str = "x"
    notes: dict[str, str] = {}  # noqa: RUF012 (pydantic copies the defaults of a model)
    eta: Annotated[str, Tracked(ttl=timedelta(hours=1))] = "soon"


def stored() -> dict[str, Any]:
    """A ledger with an erratum, as plain data."""
    session = AgentSession(
        Notes(notes={"é [1]": "q"}), key="k", tag=TAG, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )
    talk = [Message("user", "1")]
    session.commit(session.plan(talk))
    session.update({"a": "y", 'notes["a\\nb"]': "z"})
    session.commit(session.plan([*talk, Message("assistant", "2"), Message("user", "3")]))
    assert session.ledger is not None
    return json.loads(json.dumps(session.ledger.to_dict()))


def test_what_was_written_is_read() -> None:
    assert Ledger.from_dict(stored()).to_dict() == stored()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tag",), "A<>"),
        (("tag",), "k7f3\n"),
        (("baseline", 0, 0), "a b"),
        (("baseline", 0, 0), ""),
        (("baseline", 0, 0), "a</state>"),
        (("observed", 0, 0), "eta["),
        (("observed", 0, 1), "2026-01-01T00:00:00"),
        (("errata", 0, "changes", 0, "path"), ".a"),
        (("errata", 0, "changes", 0, "path"), 'a["\\x"]'),
        (("errata", 0, "changes", 0, "leaves", 0, 0), "a\nb"),
    ],
)
def test_damage_is_named(place: tuple[Any, ...], value: str) -> None:
    data = stored()
    inner = data["epochs"][0]
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(LedgerError, match=r"the ledger is damaged.*epochs\[0\].*nothing was changed"):
        Ledger.from_dict(data)


def test_a_request_at_no_known_hour_is_damage() -> None:
    data = stored()
    data["sent"][0]["at"] = "2026-01-01T00:00:00"
    with pytest.raises(LedgerError, match=r"sent\[0\] has a time without a zone"):
        Ledger.from_dict(data)


@examples(4)
@given(texts, texts)
def test_each_path_of_ours_is_a_path_in_one_spelling(one: str, two: str) -> None:
    path = join_key(join_key("notes", one), two) + ".x"
    quoted = f"notes[{json.dumps(one)}][{json.dumps(two, ensure_ascii=False)}].x"
    assert is_path(path) and canonical_path(path) == path == canonical_path(quoted)
    assert parse_path(path) == parse_path(quoted)
