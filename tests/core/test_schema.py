"""Bad input: one clear error of ours, naming field, type and mend, at the earliest moment, and never the value."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import logging
import math
import pickle
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Generic, Optional, TypeVar

import pytest
from pydantic import BaseModel, JsonValue, RootModel, SecretStr, computed_field, create_model, model_validator

from pkv_agents import (
    Hidden,
    KeyedList,
    Pinned,
    PkvError,
    SchemaError,
    StateError,
    Tracked,
    TrackedState,
    UnknownKeyError,
    Volatile,
    apply_patch,
    snapshot,
)

LEAK = "hush-8842"


class Engine:
    """Nothing that pydantic or a model knows."""


class Order(BaseModel):
    id: str
    status: str = "new"
    ref: SecretStr | None = None


class Person(BaseModel):
    name: str
    boss: Optional[Person] = None  # noqa: UP045 (a forward reference in a union needs the old form)


class Shop(TrackedState):
    orders: Annotated[list[Order], Tracked(key="id")] = []
    total: float = 0.0
    token: Annotated[str, Hidden()] = "hush-8842"
    password: SecretStr = SecretStr("hush-8842")
    owner: Order | None = None
    notes: dict[str, str] = {}


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
    ],
)
def test_a_field_that_cannot_be_tracked_is_refused_at_the_class(hint: Any, words: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        create_model("Bad", __base__=TrackedState, field_x=(hint, ...))
    assert all(word in str(caught.value) for word in words), caught.value


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


def _patch(path: str, value: object) -> Callable[[Shop], object]:
    return lambda shop: apply_patch(shop, {path: value})


def _patch_both(shop: Shop) -> object:
    return apply_patch(shop, {"owner": None, "owner.status": "x"})


def _make(values: dict[str, Any]) -> Callable[[Shop], object]:
    return lambda _: Shop(**values)


def _call(act: Callable[[Any], object], value: object) -> Callable[[Shop], object]:
    return lambda _: act(value)


def _assign(name: str, value: object) -> Callable[[Shop], object]:
    return lambda shop: setattr(shop, name, value)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (_assign("totl", 1), ["totl (int)", "Shop has no such field", "total"]),
        (_assign("total", "much"), ["total (str)", "valid number"]),
        (_assign("total", math.nan), ["total (float)", "not a finite number"]),
        (_assign("total", math.inf), ["total (float)", "not a finite number"]),
        (_assign("notes", {"a": "\ud800"}), ["notes[a] (str)", "lone surrogate"]),
        (_assign("notes", {"\ud800": "a"}), ["notes", "lone surrogate"]),
        (_assign("orders", [Order(id="a"), Order(id="a")]), ["orders", "id='a'", "unique"]),
        (_assign("owner", {"id": "x", "status": 1}), ["owner.status (int)", "valid string"]),
        (_patch("orders[a].status", "x"), ["orders has no entry 'a'", "orders[a]"]),
        (_patch("orders[K1].stats", "x"), ["orders[K1] (Order)", "'stats'", "status"]),
        (_patch("orders[K1].status", 3), ["orders[K1].status (int)", "valid string"]),
        (_patch("orders[K1]", {"id": "K2"}), ["orders[K1]", "must agree"]),
        (_patch("orders", {"$remove": True}), ["orders cannot be removed"]),
        (_patch("nope", 1), ["Shop", "no field 'nope'"]),
        (_patch("total.x", 1), ["total (float)", "no parts", "'x'"]),
        (_patch("[0]", 1), ["must begin with a field"]),
        (_patch("orders[", 1), ["cannot be read at character 6"]),
        (_patch("", 1), ["empty path"]),
        (_patch('notes["a]', 1), ["cannot be read"]),
        (_patch_both, ["patched twice"]),
        (_make({"total": "x"}), ["total (str)"]),
        (_make({"totl": 1}), ["totl (int)", "declare the field"]),
        (_call(Shop.model_validate, {"total": "x"}), ["total (str)"]),
        (_call(Shop.model_validate_json, '{"total": "x"}'), ["total (str)"]),
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


class TestHidden:
    """A secret is nowhere: not rendered, not in a repr, a log, a snapshot or an error."""

    def test_not_in_repr_or_snapshot(self) -> None:
        shop = Shop(orders=[Order(id="a", ref=SecretStr("hush-8842"))])
        assert "hush-8842" not in repr(shop) + str(shop) + str(dict(snapshot(shop)))
        assert "token" not in repr(shop)

    def test_not_in_the_repr_of_a_plain_model(self) -> None:
        class Card(BaseModel):
            number: Annotated[str, Hidden()]
            name: str = "x"

        class Wallet(TrackedState):
            card: Card

        wallet = Wallet(card=Card(number="hush-8842"))
        assert "hush-8842" not in repr(wallet) + repr(wallet.card)
        assert list(snapshot(wallet)) == ["card.name"]

    @pytest.mark.parametrize(
        "act",
        [
            _assign("token", [LEAK]),
            _assign("password", [LEAK]),
            _patch("token", {"a": LEAK}),
            _make({"token": [LEAK]}),
        ],
    )
    def test_not_in_an_error_or_its_traceback(
        self, act: Callable[[Shop], object], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        with pytest.raises(StateError, match="Hidden, so nothing more is shown") as caught:
            act(Shop())
        assert "hush-8842" not in "".join(traceback.format_exception(caught.value)) + caplog.text
        assert caught.value.__cause__ is None

    def test_a_hidden_field_may_be_anything(self) -> None:
        class WithEngine(TrackedState):
            engine: Annotated[Engine, Hidden()]
            x: int = 1

        assert list(snapshot(WithEngine(engine=Engine()))) == ["x"]


class TestReading:
    def test_each_attribute_is_read_once(self) -> None:
        class Counting(TrackedState):
            name: str = "a"
            reads: ClassVar[list[str]] = []

            @computed_field
            @property
            def shout(self) -> str:
                self.reads.append("shout")
                return self.name.upper()

        state = Counting()
        Counting.reads.clear()
        assert dict(snapshot(state)) == {"name": '"a"', "shout": '"A"'}
        assert Counting.reads == ["shout"]

    def test_in_place_mutation_is_seen(self) -> None:
        shop = Shop(owner=Order(id="x"))
        assert shop.owner is not None
        shop.owner.status = "old"
        shop.notes["a"] = "b"
        shop.orders.append(Order(id="n"))
        found = snapshot(shop)
        assert (found["owner.status"], found["notes[a]"], found["orders[n].status"]) == ('"old"', '"b"', '"new"')

    def test_json_values_and_root_models(self) -> None:
        class Tags(RootModel[list[str]]):
            pass

        class Loose(TrackedState):
            data: JsonValue = None
            anything: Any = None
            tags: Tags = Tags(["b", "a"])

        loose = Loose(data={"b": [1, {"x": None}], "a": 1.5}, anything=(1, "x"))
        assert dict(snapshot(loose)) == {
            "data[a]": "1.5",
            "data[b][0]": "1",
            "data[b][1][x]": "null",
            "anything": '[1, "x"]',
            "tags": '["b", "a"]',
        }
        with pytest.raises(StateError, match=r"anything holds a Engine.*Hidden"):
            loose.anything = Engine()
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(PkvError):
            loose.anything = circle

    def test_a_float_reads_the_same_as_its_int(self) -> None:
        class Cart(BaseModel):
            total: float = 1.0

        class State(TrackedState):
            cart: Cart = Cart()

        state = State()
        state.cart.total = 1
        assert snapshot(state)["cart.total"] == "1.0"

    def test_a_generic_state(self) -> None:
        T = TypeVar("T")

        class Box(TrackedState, Generic[T]):
            item: T

        assert dict(snapshot(Box[int](item=3))) == {"item": "3"}

    def test_a_later_definition_is_compiled_when_it_is_known(self) -> None:
        class Outer(TrackedState):
            inner: "Inner"  # noqa: UP037 (a forward reference is the point)

        class Inner(BaseModel):
            x: int = 1

        Outer.model_rebuild(_types_namespace={"Inner": Inner})
        assert dict(snapshot(Outer(inner=Inner()))) == {"inner.x": "1"}


class TestKeyedList:
    def test_reads_by_key_and_by_position(self) -> None:
        shop = Shop(orders=[Order(id="K417"), Order(id="M220")])
        orders = shop.orders
        assert isinstance(orders, KeyedList)
        assert orders["M220"] is orders[1] and orders.get("no") is None and "K417" in orders
        assert orders.keys() == ("K417", "M220") and orders[:1] == [orders[0]]
        with pytest.raises(KeyError):
            orders["no"]
        with pytest.raises(UnknownKeyError, match="id='no'"):
            orders["no"]

    def test_survives_copies_and_serialisation(self) -> None:
        shop = Shop(orders=[Order(id="K417")])
        for copied in (shop.model_copy(deep=True), pickle.loads(pickle.dumps(shop)), Shop.model_validate(shop)):
            orders = copied.orders
            assert isinstance(orders, KeyedList) and orders["K417"].status == "new"
        assert Shop.model_validate_json(shop.model_dump_json(exclude={"password"})).orders == shop.orders

    def test_typed_form(self) -> None:
        class State(TrackedState):
            orders: Annotated[KeyedList[Order], Tracked(key="id")]

        state = State.model_validate({"orders": [{"id": "a"}]})
        state.orders["a"].status = "old"
        assert dict(snapshot(state)) == {"orders[a].status": '"old"'}


def test_rules_over_two_fields_see_both_parts_of_a_patch() -> None:
    class Span(TrackedState):
        low: int = 0
        high: int = 1

        @model_validator(mode="after")
        def ordered(self) -> Span:
            if self.low > self.high:
                raise ValueError("low is above high")
            return self

    span = Span()
    assert apply_patch(span, {"low": 5, "high": 9}).low == 5
    with pytest.raises(StateError, match="low is above high"):
        apply_patch(span, {"low": 5})
