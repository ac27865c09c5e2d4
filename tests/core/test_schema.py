"""Bad schemas and bad values: one clear error at the earliest moment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, NotRequired, Required

import pytest
from pydantic import BaseModel, RootModel, computed_field, create_model
from typing_extensions import TypedDict

from pkv_agents import (
    Pinned,
    SchemaError,
    StateError,
    Tracked,
    TrackedState,
    Volatile,
    dump_state,
    load_state,
    snapshot,
)
from tests.core.people import Engine, Order, Person, Shop, assigning, calling, making, patch_both, patching


class Tree(TypedDict):
    size: int
    inner: "list[Tree]"  # noqa: UP037 (defined by itself)


class Prices(RootModel[list[int]]):
    @computed_field
    @property
    def total(self) -> int:
        return sum(self.root)


class Contact(TypedDict):
    mail: Required[str]
    phone: NotRequired[str]


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        pytest.param(Engine, ["'field_x'", "Engine", "Hidden()"], id="any class"),
        pytest.param(list[Engine], ["'field_x'", "Engine", "Hidden()"], id="inside a list"),
        pytest.param(bytes, ["'field_x'", "bytes"], id="bytes"),
        pytest.param(complex, ["'field_x'", "complex"], id="complex"),
        pytest.param(Callable[[], int], ["'field_x'", "Callable"], id="function"),
        pytest.param(dict[int, str], ["'field_x'", "int keys", "str keys"], id="non-str keys"),
        pytest.param(set[Order], ["'field_x'", "set of Order", "list with key="], id="set of models"),
        pytest.param(Person, ["Person contains itself", "Person -> Person", "by id"], id="recursive"),
        pytest.param(Annotated[list[str], Tracked(key="id")], ["key='id'", "no models"], id="key on scalars"),
        pytest.param(Annotated[str, Tracked(key="id")], ["key='id'", "no list"], id="key on no list"),
        pytest.param(Annotated[list[Order], Tracked(key="nr")], ["'nr'", "Order"], id="unknown key"),
        pytest.param(Annotated[list[Order], Tracked(key="ref")], ["'ref'", "visible"], id="secret key"),
        pytest.param(Annotated[int, Volatile(), Pinned()], ["Volatile and Pinned"], id="contradiction"),
        pytest.param(Tree, ["Bad has a TypedDict", "contains itself", "JsonValue"], id="recursive TypedDict"),
    ],
)
def test_a_field_that_cannot_be_tracked_is_refused_at_the_class(hint: Any, words: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        create_model("Bad", __base__=TrackedState, field_x=(hint, ...))
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("hint", "value", "leaves"),
    [
        (set[int | str], {"b", 10, 9}, {"field_x": '[9, 10, "b"]'}),
        (set[Any], {"b", None}, {"field_x": '["b", null]'}),
        (Counter[str], {"b": 2, "a": 1}, {"field_x[a]": "1", "field_x[b]": "2"}),
        (Prices, [1, 2], {"field_x": "[1, 2]"}),
        (Contact, {"mail": "a@b.c"}, {"field_x[mail]": '"a@b.c"'}),
    ],
)
def test_types_that_are_as_good_as_others(hint: Any, value: Any, leaves: dict[str, str]) -> None:
    made = create_model("Good", __base__=TrackedState, field_x=(hint, ...))
    state = made.model_validate({"field_x": value})
    assert dict(snapshot(state)) == leaves
    assert load_state(made, dump_state(state)) == state


@pytest.mark.parametrize("name", ["pkv_state", "model_fields", "copy", "json"])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(SchemaError, match=name):
        type("Bad", (TrackedState,), {"__annotations__": {name: int}, "__module__": __name__})


@pytest.mark.parametrize("resolution", [0, -1.5, timedelta(0)])
def test_a_resolution_must_be_positive(resolution: Any) -> None:
    with pytest.raises(SchemaError, match="must be positive"):
        Volatile(resolution=resolution)


def test_a_state_must_be_tracked() -> None:
    from pkv_agents import GENERIC, AgentSession, plan

    class Plain(BaseModel):
        x: int = 1

    with pytest.raises(SchemaError, match=r"Plain.*TrackedState"):
        plan(None, Plain(), [], profile=GENERIC)  # pyright: ignore[reportArgumentType]
    for bad in (Plain(), Plain, Shop, {"x": 1}):
        with pytest.raises(SchemaError, match="TrackedState"):
            AgentSession(bad, key="k")  # pyright: ignore[reportArgumentType, reportUnknownVariableType]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (assigning("totl", 1), ["totl (int)", "Shop has no such field", "total"]),
        (assigning("total", "much"), ["total (str)", "valid number"]),
        (assigning("total", math.nan), ["total (float)", "not a finite number"]),
        (assigning("total", math.inf), ["total (float)", "not a finite number"]),
        (assigning("notes", {"a": "\ud800"}), ["notes[a] (str)", "lone surrogate"]),
        (assigning("notes", {"\ud800": "a"}), ["notes", "lone surrogate"]),
        (assigning("orders", [Order(id="a"), Order(id="a")]), ["orders", "id='a'", "unique"]),
        (assigning("owner", {"id": "x", "status": 1}), ["owner.status (int)", "valid string"]),
        (patching("orders[a].status", "x"), ["orders (KeyedList) has no entry 'a'", "orders[a]"]),
        (patching("orders[K1].stats", "x"), ["orders[K1] (Order)", "'stats'", "status"]),
        (patching("orders[K1].status", 3), ["orders[K1].status (int)", "valid string"]),
        (patching("orders[K1]", {"id": "K2"}), ["orders[K1]", "must agree"]),
        (patching("orders", {"$remove": True}), ["orders (KeyedList) cannot be removed"]),
        (patching("nope", 1), ["Shop", "no field 'nope'"]),
        (patching("total.x", 1), ["total (float)", "no parts", "'x'"]),
        (patching("[0]", 1), ["Shop has no field '0'"]),
        (patching("orders[", 1), ["cannot be read at character 6"]),
        (patching("", 1), ["empty path"]),
        (patching('notes["a]', 1), ["cannot be read"]),
        (patch_both, ["patched twice"]),
        (making({"total": "x"}), ["total (str)"]),
        (making({"totl": 1}), ["totl (int)", "declare the field"]),
        (calling(Shop.model_validate, {"total": "x"}), ["total (str)"]),
        (calling(Shop.model_validate_json, '{"total": "x"}'), ["total (str)"]),
    ],
)
def test_a_value_that_does_not_fit_names_path_type_and_mend(act: Callable[[Shop], object], words: list[str]) -> None:
    shop = Shop(orders=[Order(id="K1")])
    before = snapshot(shop)
    with pytest.raises(StateError) as caught:
        act(shop)
    assert all(word in str(caught.value) for word in words), caught.value
    assert snapshot(shop) == before
    assert "\n" not in str(caught.value)


def test_mutation_of_a_plain_model_is_found_at_the_next_snapshot() -> None:
    shop = Shop(orders=[Order(id="a"), Order(id="b")])
    shop.orders[1].id = "a"
    with pytest.raises(StateError, match="orders has two items with id='a'"):
        snapshot(shop)
