"""Patches of models with aliases, extra fields, or strict types: what was read once is never read as something else."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import math
from collections import Counter, deque
from typing import Annotated

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, computed_field

from pkv_agents import (
    REMOVE,
    Hidden,
    StateError,
    Tracked,
    TrackedState,
    append,
    apply_patch,
    diff,
    dump_state,
    fold,
    load_state,
    snapshot,
)


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(alias="_id")
    order_id: str = Field(alias="id")
    count: int = 0


class Parcel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(validation_alias=AliasChoices("parcelId", "parcel_id"))
    state: str = "new"


class Outside(TrackedState):
    line: Line = Line.model_validate({"_id": "a", "id": "b"})
    parcels: Annotated[list[Parcel] | None, Tracked(key="id")] = []


def test_an_alias_that_is_another_fields_name_is_not_read_in_its_place() -> None:
    state = apply_patch(Outside(), {"line.count": 2})
    assert (state.line.id, state.line.order_id, state.line.count) == ("a", "b", 2)
    assert load_state(Outside, dump_state(state)) == state


def test_a_new_item_may_name_its_key_by_an_alias() -> None:
    state = apply_patch(Outside(), {"parcels[P1]": {"parcelId": "P1"}, "parcels[P2]": {"state": "lost"}})
    state = apply_patch(state, {"parcels[P2]": {"parcel_id": "P2", "state": "found"}})
    assert {path: text for path, text in snapshot(state).items() if path.startswith("parcels")} == {
        "parcels[P1].state": '"new"',
        "parcels[P2].state": '"found"',
    }
    with pytest.raises(StateError, match="must agree"):
        apply_patch(state, {"parcels[P1]": {"parcelId": "P2"}})


class Strict(TrackedState):
    model_config = ConfigDict(strict=True)

    colours: set[str] = {"red"}
    fixed: frozenset[str] = frozenset({"red"})
    pair: tuple[int, str] = (1, "a")
    last: deque[int] = deque([1, 2], maxlen=2)
    counts: Counter[str] = Counter()


def test_a_strict_state_is_given_what_it_has() -> None:
    more = {"colours": append("blue"), "fixed": append("blue"), "last": append(3), "pair[0]": 2, "counts[a]": 1}
    state = apply_patch(Strict(), more)
    assert (state.colours, state.fixed) == ({"red", "blue"}, frozenset({"red", "blue"}))
    assert (state.pair, state.last, state.counts) == ((2, "a"), deque([2, 3]), Counter(a=1))
    assert apply_patch(state, {"last[0]": 5}).last.maxlen == 2
    with pytest.raises(StateError, match=r"colours"):
        apply_patch(state, {"colours": append([1])})


class Loose(TrackedState):
    model_config = ConfigDict(extra="allow")

    x: int = Field(default=1, alias="X")
    token: Annotated[str, Hidden()] = Field(default="", alias="apiToken")

    @computed_field
    @property
    def double(self) -> int:
        return 2 * self.x


def test_an_extra_field_named_like_a_declared_one_is_not_taken_for_it() -> None:
    loose = Loose.model_validate({"X": 3, "x": 4, "token": "s3cret", "double": 9})
    assert (loose.x, loose.double, loose.model_extra) == (3, 6, {"x": 4, "token": "s3cret", "double": 9})
    assert dict(snapshot(loose)) == {"x": "3", "double": "6"}
    assert dict(snapshot(apply_patch(loose, {"more": 1}))) == {"x": "3", "double": "6", "more": "1"}
    assert dump_state(loose) == {"x": 3, "token": ""}
    with pytest.raises(StateError, match="computes 'double'"):
        apply_patch(loose, {"double": 1})


def test_extra_fields_of_the_state_may_have_any_name_and_no_order() -> None:
    loose, other = Loose.model_validate({"b c": 1, "a": [2]}), Loose.model_validate({"a": [2], "b c": 1})
    assert list(snapshot(loose).leaves.items()) == [("x", "1"), ("double", "2"), ("a", "[2]"), ('["b c"]', "1")]
    assert list(snapshot(loose)) == list(snapshot(other))
    changes = diff(snapshot(loose), snapshot(Loose()))
    assert [(change.path, change.kind) for change in changes] == [("a", "remove"), ('["b c"]', "remove")]
    assert fold(snapshot(loose), changes) == snapshot(Loose())
    assert dict(snapshot(apply_patch(loose, {'["b c"]': REMOVE, "a": append(3)})))["a"] == "[2, 3]"


def test_extra_fields_of_the_state_are_assigned_and_checked() -> None:
    loose = Loose()
    loose.more = 1  # pyright: ignore[reportAttributeAccessIssue] (an extra field)
    assert dict(snapshot(loose))["more"] == "1"
    for act in (
        lambda: setattr(loose, "more", math.nan),
        lambda: apply_patch(loose, {"more": math.nan}),
        lambda: Loose.model_validate({"more": math.nan}),
    ):
        with pytest.raises(StateError, match=r"more \(float\) is not a finite number"):
            act()
    assert loose.model_extra == {"more": 1}
