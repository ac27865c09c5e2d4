"""A state as plain data, and back."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from pkv_agents import Hidden, StateError, Tracked, TrackedState, diff, dump_state, load_state, snapshot
from tests.core.strategies import schemas


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    id: str
    price: Decimal


class Odd(TrackedState):
    items: Annotated[list[Item], Tracked(key="id")] = Field(default_factory=list[Item])
    tags: set[str] = Field(default_factory=set)
    when: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    colour: Colour = Colour.RED
    token: Annotated[SecretStr, Hidden()] = SecretStr("s3cret")
    notes: dict[str, str] = Field(default_factory=dict)


def test_it_goes_through_json_and_back() -> None:
    state = Odd(items=[Item(id="a", price=Decimal("1.50"))], tags={"b", "a"}, notes={"a": "1"})
    data = json.loads(json.dumps(dump_state(state)))
    assert data["items"] == [{"id": "a", "price": "1.50"}]
    assert data["tags"] == ["a", "b"]
    assert load_state(Odd, data) == state
    assert load_state(Odd, data).token.get_secret_value() == "s3cret"


@given(st.data())
def test_what_is_read_back_says_the_same_or_it_is_refused(data: st.DataObject) -> None:
    state = data.draw(data.draw(schemas()).values)
    try:
        kept = json.dumps(dump_state(state))
    except StateError:  # a union that reads back as its other member
        return
    again = load_state(type(state), json.loads(kept))
    assert diff(snapshot(state), snapshot(again)) == ()


def test_a_subclass_would_lose_its_fields() -> None:
    class Special(Item):
        discount: int = 5

    state = Odd(items=[Item(id="a", price=Decimal(1))])
    state.items[0] = Special(id="a", price=Decimal(1))
    with pytest.raises(StateError, match=r"items.*would not be the same"):
        dump_state(state)


class Size(str, Enum):  # noqa: UP042 (its str() is another text than its value)
    SMALL = "small"


def test_keys_and_values_that_are_not_plain_text() -> None:
    class Stock(TrackedState):
        sizes: dict[Size, int]
        days: Annotated[dict[date, int], Hidden()]
        raw: Annotated[dict[bytes, timedelta], Hidden()]
        place: PurePosixPath

    place = PurePosixPath("/a/b")
    state = Stock(sizes={Size.SMALL: 1}, days={date(2026, 1, 1): 2}, raw={b"a": timedelta(1)}, place=place)
    data = json.loads(json.dumps(dump_state(state)))
    assert data == {"sizes": {"small": 1}, "days": {"2026-01-01": 2}, "raw": {"a": "P1D"}, "place": "/a/b"}
    assert load_state(Stock, data) == state


def test_a_hidden_value_that_would_be_lost_is_refused() -> None:
    class Special(Item):
        discount: int = 5

    class Vault(TrackedState):
        model_config = ConfigDict(val_json_bytes="base64")

        item: Annotated[Item | None, Hidden()] = None
        raw: Annotated[bytes, Hidden()] = b""
        rate: Annotated[float, Hidden()] = math.nan

    assert dump_state(Vault())["raw"] == ""
    for state in (Vault(item=Special(id="a", price=Decimal(1))), Vault(raw=b"aGVsbG8=")):
        with pytest.raises(StateError, match="would not be the same"):
            dump_state(state)


def test_data_that_does_not_fit() -> None:
    with pytest.raises(StateError):
        load_state(Odd, {"colour": "green"})
