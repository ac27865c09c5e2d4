"""The patch between two states makes the one into the other, and goes as deep as paths do."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, RootModel

from pkv_agents import (
    REMOVE,
    Hidden,
    Tracked,
    TrackedState,
    append,
    apply_patch,
    dump_state,
    merge_patches,
    patch_between,
)
from tests.core.strategies import Kind, examples, schemas


class Order(BaseModel):
    id: str
    status: str = "new"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = "n"


class Tags(RootModel[list[str]]):
    pass


class Desk(TrackedState):
    orders: Annotated[list[Order], Tracked(key="id")] = []  # noqa: RUF012
    notes: dict[str, Any] = {}  # noqa: RUF012
    free: Open = Open()
    tags: Tags = Tags(["a"])
    number: int | float = 1
    colours: set[str] = set()  # noqa: RUF012
    token: Annotated[str, Hidden()] = "t"


@examples(2)
@given(st.data(), schemas())
def test_it_makes_one_state_into_the_other(data: st.DataObject, schema: Kind) -> None:
    before, now = data.draw(schema.values), data.draw(schema.values)
    assert dump_state(apply_patch(before, patch_between(before, now))) == dump_state(now)
    assert patch_between(now, now) == {}


ONE, TWO, SENT = Order(id="1"), Order(id="2"), Order(id="1", status="sent")
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "an item": ({"orders": [ONE, TWO]}, {"orders": [SENT, TWO]}, {"orders[1].status": "sent"}),
    "an item more": ({"orders": [ONE]}, {"orders": [ONE, TWO]}, {"orders[2]": TWO}),
    "an item less": ({"orders": [ONE, TWO]}, {"orders": [TWO]}, {"orders[1]": REMOVE}),
    "another order": ({"orders": [ONE, TWO]}, {"orders": [TWO, ONE]}, {"orders": [TWO, ONE]}),
    "an entry": (
        {"notes": {"a": 1, "b": 2}},
        {"notes": {"a b": [1], "b": 2}},
        {"notes[a]": REMOVE, 'notes["a b"]': [1]},
    ),
    "a field beside": ({}, {"free": Open.model_validate({"x": 1})}, {"free.x": 1}),
    "a root": ({}, {"tags": Tags(["b"])}, {"tags": Tags(["b"])}),
    "another type": ({}, {"number": 1.0}, {"number": 1.0}),
    "a set": ({}, {"colours": {"red"}}, {"colours": {"red"}}),
    "what is hidden": ({}, {"token": "u"}, {"token": "u"}),
    "a value that reads like a removal": (
        {"notes": {"a": 1}},
        {"notes": {"a": {"$remove": True}}},
        {"notes": {"a": {"$remove": True}}},
    ),
    "a value that reads like an addition": (
        {"notes": {"a": []}},
        {"notes": {"a": append(1)}},
        {"notes": {"a": append(1)}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_as_deep_as_paths_go(case: str) -> None:
    old, new, patch = CASES[case]
    before, now = Desk(**old), Desk(**new)
    assert patch_between(before, now) == patch
    assert dump_state(apply_patch(before, patch)) == dump_state(now)


def test_two_states_that_were_made_side_by_side_are_merged() -> None:
    before = Desk(orders=[ONE, TWO])
    one, two = Desk(orders=[SENT, TWO]), Desk(orders=[ONE, TWO], notes={"a": 1})
    merged = merge_patches([(0, patch_between(before, one)), (1, patch_between(before, two))])
    assert merged.conflicts == () and merged.apply_to(before) == Desk(orders=[SENT, TWO], notes={"a": 1})
