"""Whatever is wrong is said once, where it is first seen, in exact words that name the place and the mend."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr, create_model
from typing_extensions import TypedDict

from pkv_agents import Hidden, PkvError, SchemaError, StateError, Tracked, TrackedState, apply_patch, snapshot
from tests.core.people import LEAK, Engine, Person


class Order(BaseModel):
    id: str
    status: str = "new"


class Fixed(BaseModel):
    model_config = ConfigDict(frozen=True)

    names: list[Any] = ["a"]


class Desk(TrackedState):
    loose: Any = None
    ratio: float = 0
    note: str = ""
    notes: dict[str, str] = {}
    names: list[str] = []
    orders: Annotated[list[Order], Tracked(key="id")] = []
    fixed: Fixed = Fixed()
    token: Annotated[str, Hidden()] = ""


@dataclass
class Plain:
    x: int = 1


class Pair(NamedTuple):
    x: int


class Marked(TypedDict):
    token: Annotated[str, Hidden()]


class Secretive(TypedDict):
    token: SecretStr


NO_TEXT = (
    "which has no text that a model could read; use a pydantic model, a plain value, a list, dict or set of them, or "
    "mark the field Hidden()"
)


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (Engine, f"field 'x' of Bad has the type Engine, {NO_TEXT}"),
        (Plain, f"field 'x' of Bad has the type Plain, {NO_TEXT}"),
        (Pair, f"field 'x' of Bad has the type Pair, {NO_TEXT}"),
        (bytes, f"field 'x' of Bad has the type bytes, {NO_TEXT}"),
        (complex, f"field 'x' of Bad has the type complex, {NO_TEXT}"),
        (range, f"field 'x' of Bad has the type range, {NO_TEXT}"),
        (Callable[[], int], f"field 'x' of Bad has the type Callable, {NO_TEXT}"),
        (Iterator[int], f"field 'x' of Bad has the type Iterator, {NO_TEXT}"),
        (Generator[int, None, None], f"field 'x' of Bad has the type Generator, {NO_TEXT}"),
        (dict[str, list[Engine]], f"field 'x' of Bad has the type Engine, {NO_TEXT}"),
        (
            dict[int, str],
            "field 'x' of Bad is a dict with int keys; use str keys, since a path and JSON have only those",
        ),
        (set[Order], "field 'x' of Bad is a set of Order; use a list with key=... for items with fields"),
        (Marked, "field 'x' of Bad is a TypedDict that says more of 'token' than its type; use a pydantic model"),
        (Secretive, "field 'x' of Bad is a TypedDict that says more of 'token' than its type; use a pydantic model"),
        (Person, "Person contains itself (Person -> Person); hold nested items by id in a dict or keyed list"),
        (
            Annotated[list[Order], Tracked(key="nr")],
            "field 'x' of Bad has key='nr', but Order has no visible field 'nr'; name one",
        ),
    ],
)
def test_a_field_that_cannot_be_tracked(hint: Any, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        create_model("Bad", __base__=TrackedState, x=(hint, ...))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pkv_tag", "field 'pkv_tag' of Bad begins with the reserved prefix 'pkv_'; rename it"),
        ("model_fields", "field 'model_fields' of Bad hides a name of pydantic's models; rename it"),
        ("copy", "field 'copy' of Bad hides a name of pydantic's models; rename it"),
        (
            "a.b",
            "field 'a.b' of Bad has a name that is no identifier; rename it and use an alias for the outside name",
        ),
    ],
)
def test_a_name_that_cannot_be_used(name: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        type("Bad", (TrackedState,), {"__annotations__": {name: int}, "__module__": __name__})
    assert str(caught.value) == message


def nested(depth: int, kind: type) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


HOLDS = "which has no text that a model could read; use plain values and models, or mark the field Hidden()"
LONG = "characters, and 1,000,000 is the most; keep it elsewhere, and track a reference or a summary"
DEEP = "contains itself or is nested more than 64 deep; hold nested items by id in a dict or keyed list"
NUMBER = "is not a finite number; use None, or a text field, for a value that is not known"
SURROGATE = "text has a lone surrogate at character 1; decode it with errors='replace' first"


@pytest.mark.parametrize(
    ("field", "make", "message"),
    [
        ("ratio", lambda: math.nan, f"ratio (float) {NUMBER}"),
        ("ratio", lambda: -math.inf, f"ratio (float) {NUMBER}"),
        ("loose", lambda: [{"a": Decimal("NaN")}], f"loose[0][a] (Decimal) {NUMBER}"),
        ("loose", lambda: 10**5000, "loose (int) is an integer with thousands of digits; use a text field"),
        ("note", lambda: "a\ud800", f"note (str) {SURROGATE}"),
        ("notes", lambda: {"k": "a\udfff"}, f"notes[k] (str) {SURROGATE}"),
        ("notes", lambda: {"a\ud800": "x"}, f"notes has a key whose {SURROGATE}"),
        ("names", lambda: ["a", "b\ud800"], f"names[1] (str) {SURROGATE}"),
        ("note", lambda: "x" * 10_000_000, f"note (str) text has 10,000,000 {LONG}"),
        ("notes", lambda: {"x" * 1_000_001: ""}, f"notes has a key whose text has 1,000,001 {LONG}"),
        ("names", lambda: ["x" * 600_000] * 2, f"names text has 1,200,008 {LONG}"),
        ("loose", lambda: {1: 2}, "loose has a key of type int; use str keys"),
        ("loose", circle, f"loose{'[0]' * 18}[... {DEEP}"),
        ("loose", lambda: nested(65, list), f"loose{'[0]' * 18}[... {DEEP}"),
        ("loose", lambda: nested(10_000, dict), f"loose{'[a]' * 18}[... {DEEP}"),
        ("loose", lambda: (nr for nr in range(3)), f"loose holds a generator, {HOLDS}"),
        ("loose", lambda: b"x", f"loose holds a bytes, {HOLDS}"),
        ("loose", lambda: 1j, f"loose holds a complex, {HOLDS}"),
        ("loose", lambda: print, f"loose holds a builtin_function_or_method, {HOLDS}"),
        ("loose", lambda: [Engine()], f"loose[0] holds a Engine, {HOLDS}"),
        ("loose", lambda: {(1, 2)}, "loose is a set with a tuple; sets hold plain values"),
        (
            "orders",
            lambda: [Order(id="a"), Order(id="a")],
            "orders: two items have the key id='a'; keys must be unique in one list",
        ),
        ("orders", lambda: [Order.model_construct(id=None)], "orders: an item (Order) has no usable 'id'; set it"),
        (
            "token",
            lambda: [LEAK],
            "token (list): the value does not fit the declared type (Hidden, so nothing more is shown)",
        ),
    ],
)
def test_a_value_without_a_text(field: str, make: Callable[[], Any], message: str) -> None:
    """The same words when a state is made, a field is assigned and a path is patched; and nothing is changed."""
    desk = Desk()
    before = snapshot(desk)
    with pytest.raises(StateError) as made:
        Desk(**{field: make()})
    with pytest.raises(StateError) as assigned:
        setattr(desk, field, make())
    with pytest.raises(StateError) as patched:
        snapshot(apply_patch(desk, {field: make()}))
    assert [str(made.value), str(assigned.value)] == [message] * 2
    assert str(patched.value) == message
    assert snapshot(desk) == before


def test_the_limit_of_nesting_does_not_hang_on_the_stack_of_the_caller() -> None:
    fits, deep = Desk(loose=nested(64, list)), nested(65, list)

    def below(frames: int) -> None:
        if frames:
            below(frames - 1)
            return
        assert len(snapshot(fits)) == 7
        with pytest.raises(StateError, match="more than 64 deep"):
            Desk(loose=deep)

    below(0)
    below(sys.getrecursionlimit() // 3)


def test_a_frozen_model_that_was_changed_inside_is_seen_at_the_next_snapshot() -> None:
    desk = Desk()
    desk.fixed.names.append("b")
    assert snapshot(desk)["fixed.names"] == '["a", "b"]'
    desk.fixed.names.append(Engine())
    with pytest.raises(StateError) as caught:
        snapshot(desk)
    assert str(caught.value) == f"fixed.names[2] holds a Engine, {HOLDS}"


def test_defaults_that_can_be_changed_are_not_shared() -> None:
    one, two = Desk(), Desk()
    one.notes["a"] = "x"
    one.names.append("x")
    one.orders.append(Order(id="a"))
    assert (two.notes, two.names, list(two.orders)) == ({}, [], [])


def test_a_generator_for_a_declared_list_becomes_a_list() -> None:
    values: Any = (Order(id=str(nr)) for nr in range(2))
    assert list(snapshot(Desk(orders=values)))[-3:-1] == ["orders[0].status", "orders[1].status"]


def test_a_deque_is_a_list() -> None:
    class Recent(TrackedState):
        events: deque[str] = deque(["a"], maxlen=2)

    recent = Recent()
    recent.events.extend("bc")
    assert dict(snapshot(recent)) == {"events": '["b", "c"]'}
    assert snapshot(apply_patch(recent, {"events[0]": "x"}))["events"] == '["x", "c"]'


def test_every_error_is_of_our_tree() -> None:
    for error in (SchemaError, StateError):
        assert issubclass(error, PkvError)
