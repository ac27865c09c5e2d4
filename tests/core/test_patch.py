"""Patches: every place of a state can be changed by its path, or the error says what to do instead."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, computed_field

from pkv_agents import (
    REMOVE,
    Hidden,
    KeyedList,
    StateError,
    Tracked,
    TrackedState,
    append,
    apply_patch,
    snapshot,
)
from pkv_agents.paths import parse_path
from tests.core.strategies import Kind, examples, schemas


class Size(BaseModel):
    width: int = 1


class Card(BaseModel):
    number: str = ""


class Tags(RootModel[list[str]]):
    pass


class Sizes(RootModel[dict[str, Size]]):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = "n"


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)

    size: Size = Size()


class Order(BaseModel):
    id: str
    status: str = "new"


class Desk(TrackedState):
    tags: Tags = Tags(["a", "b"])
    sizes: Sizes = Sizes({"s": Size()})
    free: Open = Open.model_validate({"colour": "red", "a b": {"x": 1}})
    frozen: Frozen = Frozen()
    colours: set[str] = {"red"}
    pair: tuple[int, str] = (1, "a")
    row: tuple[int, ...] = (1, 2)
    either: Size | Card = Card()
    maybe: Size | None = None
    outside: int = Field(default=1, alias="outSide")
    choice: int = Field(default=1, validation_alias=AliasChoices("one", "two"))
    items: list[Size] = [Size(), Size()]
    orders: Annotated[list[Order], Tracked(key="id")] = [Order(id="K1")]
    secret: Annotated[str, Hidden()] = "hush-8842"

    @computed_field
    @property
    def area(self) -> int:
        return self.items[0].width


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        ({"tags[0]": "x"}, "tags", '["x", "b"]'),
        ({"tags": ["x"]}, "tags", '["x"]'),
        ({"tags": append("c")}, "tags", '["a", "b", "c"]'),
        ({"sizes[s].width": 5}, "sizes[s].width", "5"),
        ({"sizes[m]": {"width": 6}}, "sizes[m].width", "6"),
        ({"sizes[s]": REMOVE}, "sizes", "{}"),
        ({"free.colour": "blue"}, "free.colour", '"blue"'),
        ({"free.weight": 3}, "free.weight", "3"),
        ({"free.colour": REMOVE}, "free.colour", None),
        ({'free["a b"][x]': 2}, 'free["a b"][x]', "2"),
        ({'free["c d"]': 2}, 'free["c d"]', "2"),
        ({"free.name": "x"}, "free.colour", '"red"'),
        ({"frozen.size.width": 7}, "frozen.size.width", "7"),
        ({"colours": append("blue", "red")}, "colours", '["blue", "red"]'),
        ({"colours": {"green"}}, "colours", '["green"]'),
        ({"pair[1]": "z"}, "pair", '[1, "z"]'),
        ({"row": append(3)}, "row", "[1, 2, 3]"),
        ({"either.number": "9"}, "either.number", '"9"'),
        ({"either": Size(width=2)}, "either.width", "2"),
        ({"either": {"width": 3}}, "either.width", "3"),
        ({"maybe": {"width": 2}}, "maybe.width", "2"),
        ({"outside": 2}, "outside", "2"),
        ({"choice": 2}, "choice", "2"),
        ({"items": append({"width": 3})}, "items[2].width", "3"),
        ({"items": append(Size(width=4)), "items[0].width": 9}, "items[0].width", "9"),
        ({"items[0].width": 9, "items": append(Size(width=4))}, "items[2].width", "4"),
        ({"items[0].width": 9}, "area", "9"),
        ({"orders": append({"id": "K2"})}, "orders[K2].status", '"new"'),
        (json.loads('{"orders": {"$append": [{"id": "K2"}]}}'), "orders[K2].status", '"new"'),
    ],
)
def test_a_path_can_be_patched(patch: dict[str, object], path: str, expected: str | None) -> None:
    desk = Desk()
    before = dict(snapshot(desk))
    assert snapshot(apply_patch(desk, patch)).get(path) == expected
    assert dict(snapshot(desk)) == before
    assert apply_patch(desk, patch).secret == "hush-8842"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"maybe.width": 2}, "maybe (NoneType) has no 'width' to change; set maybe whole"),
        ({"maybe": append(1)}, "maybe (NoneType) is no list or set to append to; set maybe whole"),
        ({"colours[red]": 1}, "colours (set) has no parts; set colours whole, or add with append(...)"),
        ({"outSide": 2}, "Desk has no field 'outSide'; that is the alias of 'outside', and a path names fields"),
        ({"two": 2}, "Desk has no field 'two'; that is the alias of 'choice', and a path names fields"),
        ({"area": 2}, "Desk computes 'area'; patch the fields that it is computed from"),
        (
            {"either.width": 1},
            "either (Card) has no field 'width'; declare it in the schema, or check the spelling (it has number)",
        ),
        ({"frozen.size.width": "x"}, "frozen.size.width (str): Input should be a valid integer, unable to parse string "
         "as an integer; pass a value of the declared type"),
        (
            {"items[2]": {}},
            "items (list) has no item '2' (2 items); add with append(...), or set it whole to insert",
        ),
        (
            {"items[0]": REMOVE},
            "items[0] (Size) cannot be removed, since later items would take other numbers; set items whole",
        ),
        ({"pair": append(1)}, "pair (tuple): Tuple should have at most 2 items after validation, not 3; "
         "pass a value of the declared type"),
        ({"tags": REMOVE}, "tags (Tags) cannot be removed; only entries of a keyed list, a dict or a model with extra "
         "fields can, set it instead"),
        ({"tags[7]": "x"}, "tags (list) has no item '7' (2 items); add with append(...), or set it whole to insert"),
        ({"sizes[x].width": 1}, "sizes (dict) has no entry 'x'; set sizes[x] whole to add it"),
        ({"free.weight.kilos": 1}, "free (Open) has no field 'weight'; declare it in the schema, or check the spelling "
         "(it has name)"),
        ({"orders": append({"id": "K1"})}, "orders: two items have the key id='K1'; keys must be unique in one list"),
        ({"items": [], "items[0].width": 1}, "items[0].width is patched twice: as a whole and in part; patch it once"),
        ({"items[0].width": 1, "items": []}, "items is patched twice; patch it once"),
        ({"items": append(1), 'items["0"]': 1, "items[0]": 2}, "items[0] is patched twice; patch it once"),
    ],
)  # fmt: skip
def test_what_cannot_be_patched_says_what_to_do(patch: dict[str, object], message: str) -> None:
    with pytest.raises(StateError) as caught:
        apply_patch(Desk(), patch)
    assert str(caught.value) == message


def test_extra_fields_of_the_state_itself() -> None:
    class Loose(TrackedState):
        model_config = ConfigDict(extra="allow")

        x: int = 1

    loose = apply_patch(Loose(), {"more": {"a": 1}})
    assert dict(snapshot(loose)) == {"x": "1", "more[a]": "1"}
    assert dict(snapshot(apply_patch(loose, {"more[a]": 2, "x": 3}))) == {"x": "3", "more[a]": "2"}
    assert dict(snapshot(apply_patch(loose, {"more": REMOVE}))) == {"x": "1"}


def test_a_frozen_state_is_patched_into_a_new_one() -> None:
    class Fixed(TrackedState):
        model_config = ConfigDict(frozen=True)

        x: int = 1

    fixed = Fixed()
    assert (apply_patch(fixed, {"x": 2}).x, fixed.x) == (2, 1)
    with pytest.raises(StateError) as caught:
        fixed.x = 2
    assert str(caught.value) == "x (int): Instance is frozen; the model is frozen; patch it with session.update({...})"


def value_at(state: object, path: str) -> Any:
    """The value at a path, found step by step."""
    found: Any = state
    for step in parse_path(path):
        if not step.is_key:
            found = getattr(found, step.text)
        elif isinstance(found, (list, tuple)) and not isinstance(found, KeyedList):
            found = found[int(step.text)]
        else:
            found = found[step.text]
    return found


@examples(4)
@given(st.data(), schemas())
def test_every_leaf_of_any_state_can_be_patched_by_its_path(data: st.DataObject, schema: Kind) -> None:
    state = data.draw(schema.values)
    found = snapshot(state)
    for path in found:
        assert snapshot(apply_patch(state, {path: value_at(state, path)})) == found
    assert snapshot(apply_patch(state, {path: value_at(state, path) for path in found})) == found
