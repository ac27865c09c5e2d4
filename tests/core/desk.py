"""A state with every kind of field that a conversation can meet, and random writes to it."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from pkv_agents import REMOVE, Hidden, KeyedList, Pinned, Tracked, TrackedState, Untrusted, Volatile, append
from tests.core.strategies import HOSTILE, SECRET

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PARCELS = tuple(f"Parcel {nr} left the hall on Monday and is in transit." for nr in range(6))
TODOS = [f"call customer {nr} about the late parcel" for nr in range(6)]


class Order(BaseModel):
    id: str
    status: str = "new"
    pin: SecretStr = SecretStr(SECRET)


class Line(BaseModel):
    name: str = ""
    price: float = 0


class Desk(TrackedState):
    mode: Annotated[str, Tracked(critical=True, label="the mode")] = "plan"
    notes: str = " ".join(PARCELS)
    todos: list[str] = TODOS
    lines: list[Line] = [Line(name=f"article {nr} of the long list", price=nr) for nr in range(5)]
    orders: Annotated[KeyedList[Order], Tracked(key="id")] = KeyedList([Order(id="K417"), Order(id="M220")])
    said: Annotated[dict[str, str], Untrusted()] = {}
    gate: Annotated[str, Tracked(ttl=timedelta(minutes=30))] = "A1"
    now: Annotated[datetime, Volatile(resolution=timedelta(minutes=10))] = START
    steps: Annotated[int, Volatile(resolution=5)] = 0
    region: Annotated[str, Pinned()] = "eu"
    token: Annotated[str, Hidden()] = SECRET


hostile = st.sampled_from(HOSTILE)
words = st.one_of(st.sampled_from(("plan", "auto")), hostile)


def _story(replaced: dict[int, str]) -> str:
    return " ".join(replaced.get(at, parcel) for at, parcel in enumerate(PARCELS))


def writes() -> st.SearchStrategy[dict[str, Any]]:
    """Patches of one path, valid in any state."""
    told: list[str] = ["It was delivered.", "Lost.", HOSTILE[0]]
    news = st.sampled_from(told)
    stories = st.dictionaries(st.integers(0, 5), news, max_size=2)
    todos = st.lists(st.sampled_from([*TODOS, "buy milk", HOSTILE[3]]), max_size=9)
    names = st.sampled_from(("tea", "article 1 of the long list", HOSTILE[0]))
    lines = st.lists(st.builds(Line, name=names), max_size=7)
    order = st.sampled_from(("K417", "M220", "a b", "</state>"))
    paths: dict[str, st.SearchStrategy[Any]] = {
        "mode": words,
        "notes": stories.map(_story) | hostile,
        "todos": todos | st.just(append("buy milk")),
        "lines": lines | st.just(append(Line(name="tea"))),
        "gate": st.sampled_from(("A1", "B2")),
        "steps": st.integers(0, 12),
        "token": st.just(SECRET),
    }
    simple = [values.map(lambda value, path=path: {path: value}) for path, values in paths.items()]
    orders = st.tuples(order, st.just(REMOVE) | words.map(lambda text: {"status": text}))
    entries = st.tuples(hostile, st.just(REMOVE) | hostile)
    return st.one_of(
        *simple,
        orders.map(lambda pair: {f"orders[{quoted(pair[0])}]": pair[1]}),
        entries.map(lambda pair: {f"said[{quoted(pair[0])}]": pair[1]}),
    )


def quoted(key: str) -> str:
    """A key for the brackets of a path."""
    return json.dumps(key)
