"""diff and fold: what is told is what is true, and no more than has to be told."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pkv_agents import (
    Change,
    Message,
    Snapshot,
    Tracked,
    TrackedState,
    Volatile,
    diff,
    fold,
    render_baseline,
    render_erratum,
    snapshot,
)
from pkv_agents._minimal import digest
from pkv_agents.diff import UNKNOWN
from pkv_agents.paths import is_below, prefixes
from tests.core.strategies import SECRET, TAG, Kind, believed, examples, fields_of, schemas


def steady(one: Snapshot) -> dict[str, str]:
    """The leaves that have no resolution."""
    return dict(one.without_volatile().leaves)


@examples(8)
@given(st.data(), schemas())
def test_folding_a_difference_gives_the_state(data: st.DataObject, schema: Kind) -> None:
    one, two = snapshot(data.draw(schema.values)), snapshot(data.draw(schema.values))
    changes = diff(one, two)
    assert steady(fold(one, changes)) == steady(two) or any(meta.volatile for meta in two.meta.values())
    assert diff(fold(one, changes), two) == ()
    assert diff(two, two) == ()
    assert fold(Snapshot(), diff(Snapshot(), two)) == two
    whole = diff(one, two, edits=False)
    assert not any(change.edits for change in whole) and diff(fold(one, whole), two, edits=False) == ()


@examples(4)
@given(st.data(), schemas())
def test_no_line_can_be_left_out(data: st.DataObject, schema: Kind) -> None:
    one, two = snapshot(data.draw(schema.values)), snapshot(data.draw(schema.values))
    changes = diff(one, two)
    for left_out in changes:
        rest = [change for change in changes if change is not left_out]
        assert diff(fold(one, rest), two) != ()
    assert len({change.path for change in changes}) == len(changes)


@examples(4)
@given(st.data(), schemas())
def test_no_set_of_lines_can_be_left_out(data: st.DataObject, schema: Kind) -> None:
    one, two = snapshot(data.draw(schema.values)), snapshot(data.draw(schema.values))
    changes = diff(one, two)
    kept = [change for change in changes if data.draw(st.booleans())]
    assert (diff(fold(one, kept), two) == ()) == (len(kept) == len(changes))
    for change in changes:
        assert not any(other.path.startswith((f"{change.path}.", f"{change.path}[")) for other in changes)


def test_the_order_in_which_a_dict_or_set_was_made_says_nothing() -> None:
    class Bag(TrackedState):
        notes: dict[str, list[Item]] = {}
        tags: set[str] = set()

    names = [f"name {nr}" for nr in range(20)]
    one = Bag(notes={name: [Item(id="a")] for name in names}, tags=set(names))
    two = Bag(notes={name: [Item(id="a")] for name in reversed(names)}, tags=set(names[10:]) | set(names[:10]))
    assert render_baseline(snapshot(one), tag=TAG) == render_baseline(snapshot(two), tag=TAG)
    assert diff(snapshot(one), snapshot(two)) == ()


@examples(4)
@given(st.data(), schemas())
def test_a_reader_of_the_text_believes_the_state(data: st.DataObject, schema: Kind) -> None:
    one, two = snapshot(data.draw(schema.values)), snapshot(data.draw(schema.values))
    text = render_baseline(one, tag=TAG)
    told = one.without_volatile()
    erratum = render_erratum(diff(told, two), tag=TAG)
    assert believed([Message("system", text), Message("user", erratum)]) == dict(two.leaves)
    assert SECRET not in text + erratum


@examples(2)
@given(st.data(), schemas())
def test_leaves_never_lie_inside_each_other(data: st.DataObject, schema: Kind) -> None:
    paths = list(snapshot(data.draw(schema.values)))
    for path in paths:
        assert not any(other.startswith((path + ".", path + "[")) for other in paths)


@examples(2)
@given(st.data(), schemas())
def test_a_snapshot_reads_the_same_twice_and_in_a_copy(data: st.DataObject, schema: Kind) -> None:
    state = data.draw(schema.values)
    again = type(state)(**dict(reversed(fields_of(state).items())))
    assert list(snapshot(state).items()) == list(snapshot(state.model_copy(deep=True)).items())
    assert list(snapshot(state).items()) == list(snapshot(again).items())


class Item(BaseModel):
    id: str
    status: str = "new"
    size: int | None = None


class Basket(TrackedState):
    items: Annotated[list[Item], Tracked(key="id")] = []
    mode: str = "plan"
    notes: dict[str, str] = {}
    gift: Item | None = None
    clock: Annotated[datetime | None, Volatile(resolution=timedelta(minutes=10))] = None
    steps: Annotated[float, Volatile(resolution=5)] = 0


def lines(one: Basket, two: Basket) -> list[str]:
    return [f"{change.path}: {change.text or 'removed'}" for change in diff(snapshot(one), snapshot(two))]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(Basket(), Basket(), [], id="nothing"),
        pytest.param(Basket(mode="auto"), Basket(), ['mode: "plan"'], id="value"),
        pytest.param(
            Basket(), Basket(items=[Item(id="a")]), ['items[a].status: "new"', "items[a].size: null"], id="first entry"
        ),
        pytest.param(Basket(items=[Item(id="a")]), Basket(), ["items: []"], id="last entry gone"),
        pytest.param(
            Basket(items=[Item(id="a"), Item(id="b")]),
            Basket(items=[Item(id="b")]),
            ["items[a]: removed"],
            id="entry gone is one line",
        ),
        pytest.param(
            Basket(items=[Item(id="a"), Item(id="b")]),
            Basket(items=[Item(id="b"), Item(id="a")]),
            [],
            id="the order of a keyed list is not part of the state",
        ),
        pytest.param(
            Basket(gift=Item(id="g")), Basket(), ["gift: null"], id="optional model gone"
        ),
        pytest.param(
            Basket(),
            Basket(gift=Item(id="g")),
            ['gift.id: "g"', 'gift.status: "new"', "gift.size: null"],
            id="optional model there",
        ),
        pytest.param(
            Basket(notes={"a": "1", "b": "2"}),
            Basket(notes={"b": "3"}),
            ['notes[b]: "3"', "notes[a]: removed"],
            id="dict",
        ),
    ],
)  # fmt: skip
def test_the_lines_of_a_change(before: Basket, after: Basket, expected: list[str]) -> None:
    assert lines(before, after) == expected


def test_a_volatile_value_is_told_by_its_resolution() -> None:
    noon = datetime(2026, 1, 1, 12)
    start = Basket(clock=noon, steps=0)
    assert lines(start, Basket(clock=noon + timedelta(minutes=9), steps=4.9)) == []
    assert lines(start, Basket(clock=noon + timedelta(minutes=10), steps=5)) == [
        'clock: "2026-01-01T12:10:00"',
        "steps: 5.0",
    ]
    assert lines(start, Basket(clock=None, steps=0)) == ["clock: null"]


def test_a_volatile_value_is_not_in_the_baseline() -> None:
    assert "clock" not in render_baseline(snapshot(Basket()), tag=TAG)


def test_fold_of_a_whole_container_replaces_what_was_inside() -> None:
    told = Snapshot({"a[0].x": "1", "a[1].x": "2", "b": "1"})
    whole = Change("a", "set", "[]", (("a", "[]"),))
    assert fold(told, [whole]) == Snapshot({"b": "1", "a": "[]"})


def _folded_one_by_one(told: Snapshot, changes: Sequence[Change]) -> dict[str, str]:
    """What `fold` says, line by line over everything."""
    leaves = dict(told.leaves)
    for change in changes:
        at = {change.path: leaves[change.path]} if change.path in leaves else None
        inside = {path: text for path, text in leaves.items() if is_below(path, change.path)}
        believed = inside if at is None else at
        if change.edits and change.edits != digest(believed.items()):
            leaves.update(dict.fromkeys([*believed, *dict(change.leaves)], UNKNOWN))
        elif change.path in leaves and [path for path, _ in change.leaves] == [change.path]:
            leaves.update(change.leaves)
        else:
            kept = {path: text for path, text in leaves.items() if path not in inside}
            leaves = {path: text for path, text in kept.items() if path not in prefixes(change.path)}
            leaves.update(change.leaves)
    return leaves


_PLACES = ("a", "a.b", "a.b.c", "a.bc", "a[x]", "a[x].b", 'a["x y"]', "ab", "ab[x]", "b")


@examples(10)
@given(st.sets(st.sampled_from(_PLACES)), st.lists(st.tuples(st.sampled_from(_PLACES), st.integers(0, 4)), max_size=8))
def test_folding_is_the_same_as_line_by_line(leaves: set[str], told: list[tuple[str, int]]) -> None:
    start = Snapshot(dict.fromkeys(sorted(leaves), "0"))
    changes: list[Change] = []
    for path, kind in told:
        below = ((f"{path}.b", "1"), (f"{path}[x]", "2"))
        changes.append(
            (
                Change(path, "remove"),
                Change(path, "set", "edit", below, edits="0" * 16),
                Change(path, "set", "edit", below, edits=digest([(path, "3")])),
                Change(path, "set", "3", ((path, "3"),)),
                Change(path, "set", "4", below),
            )[kind]
        )
    assert list(fold(start, changes).items()) == list(_folded_one_by_one(start, changes).items())
