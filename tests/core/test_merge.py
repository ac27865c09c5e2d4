"""R12: what parallel calls write is merged in the order of the calls, whatever finished first."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import random
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pkv_agents import (
    REMOVE,
    MergedPatches,
    PatchConflict,
    StateError,
    Tracked,
    TrackedState,
    append,
    apply_patch,
    diff,
    merge_patches,
    render_erratum,
    snapshot,
)
from tests.core.strategies import TAG, examples


class Line(BaseModel):
    id: str
    count: int = 1


class Cart(BaseModel):
    total: int = 0
    items: list[str] = ["milk"]
    lines: Annotated[list[Line], Tracked(key="id")] = [Line(id="a"), Line(id="b")]


class Shop(TrackedState):
    cart: Cart = Cart()
    notes: dict[str, str] = {}
    mode: str = "plan"


def test_the_finish_order_plays_no_part() -> None:
    calls: list[tuple[int, dict[str, object]]] = [
        (0, {"cart.total": 10, "notes[a]": "first"}),
        (1, {"cart.total": 12}),
        (2, {"cart.items[0]": "tea", "notes": {"b": "second"}}),
        (3, {"notes[c]": "third", "cart.items": append("rice")}),
        (4, {"cart.items": append("salt")}),
    ]
    shop, finished = Shop(), random.Random(7)
    texts: set[str] = set()
    merged = merge_patches(calls)
    for _ in range(50):
        finished.shuffle(calls)
        assert merge_patches(calls) == merged
        after = merged.apply_to(shop)
        texts.add(render_erratum(diff(snapshot(shop), snapshot(after)), tag=TAG))
    assert texts == {
        f'<state-update id="{TAG}">\ncart.total: 12\ncart.items: ["tea", "rice", "salt"]\nnotes[b]: "second"\n'
        'notes[c]: "third"\n</state-update>'
    }
    assert merged.conflicts == (
        PatchConflict("cart.total", "cart.total", 0, 1, "replaced"),
        PatchConflict("notes[a]", "notes", 0, 2, "replaced"),
        PatchConflict("notes", "notes[c]", 2, 3, "refined"),
    )


@pytest.mark.parametrize(
    ("first", "second", "patches", "outcomes"),
    [
        pytest.param({"mode": "a"}, {"cart.total": 1}, [{"mode": "a", "cart.total": 1}], [], id="apart"),
        pytest.param({"mode": "a"}, {"mode": "a"}, [{"mode": "a"}], [], id="the same value"),
        pytest.param(
            {"notes[a]": "x"}, {'notes["a"]': "x"}, [{'notes["a"]': "x"}], [], id="the same, written otherwise"
        ),
        pytest.param({"mode": "a"}, {"mode": "b"}, [{"mode": "b"}], ["replaced"], id="two values"),
        pytest.param({"mode": 1}, {"mode": True}, [{"mode": True}], ["replaced"], id="equal, but of another type"),
        pytest.param(
            {"notes": {}}, {"notes[a]": "x"}, [{"notes": {}}, {"notes[a]": "x"}], ["refined"], id="whole, part"
        ),
        pytest.param(
            {"notes[a]": "x", "mode": "a"}, {"notes": {}}, [{"mode": "a", "notes": {}}], ["replaced"], id="part, whole"
        ),
        pytest.param(
            {"cart.lines[a]": REMOVE},
            {"cart.lines[a].count": 2},
            [{"cart.lines[a].count": 2}],
            ["replaced"],
            id="removed, changed",
        ),
        pytest.param(
            {"cart.lines[a].count": 2},
            {"cart.lines[a]": REMOVE},
            [{"cart.lines[a]": REMOVE}],
            ["replaced"],
            id="changed, removed",
        ),
        pytest.param(
            {"cart.items": append("a")},
            {"cart.items": append("b")},
            [{"cart.items": append("a", "b")}],
            [],
            id="both append",
        ),
        pytest.param(
            {"cart.items": []},
            {"cart.items": append("b")},
            [{"cart.items": []}, {"cart.items": append("b")}],
            ["refined"],
            id="whole, append",
        ),
        pytest.param(
            {"cart.items": append("b")}, {"cart.items": []}, [{"cart.items": []}], ["replaced"], id="append, whole"
        ),
        pytest.param(
            {"cart.items": append("b")},
            {"cart.items[0]": "x"},
            [{"cart.items": append("b"), "cart.items[0]": "x"}],
            [],
            id="append, part",
        ),
        pytest.param(
            {"cart.items[0]": "x"},
            {"cart.items": append("b")},
            [{"cart.items[0]": "x", "cart.items": append("b")}],
            [],
            id="part, append",
        ),
    ],
)
def test_the_later_call_wins(
    first: dict[str, object], second: dict[str, object], patches: list[Any], outcomes: list[str]
) -> None:
    merged = merge_patches([("b", second), ("a", first)])
    assert list(merged.patches) == patches
    assert [conflict.outcome for conflict in merged.conflicts] == outcomes


def test_the_earlier_call_wins_if_asked_to() -> None:
    calls: list[tuple[int, dict[str, object]]] = [(0, {"mode": "a"}), (1, {"mode": "b", "cart.total": 3})]
    merged = merge_patches(calls, policy="first_call_wins")
    assert merged.patches == ({"mode": "a", "cart.total": 3},)
    assert merged.conflicts == (PatchConflict("mode", "mode", 0, 1, "dropped"),)


def test_a_conflict_can_be_an_error_that_names_both_paths() -> None:
    with pytest.raises(StateError) as caught:
        merge_patches([("c2", {"cart.total": 1}), ("c1", {"cart": {"total": 8842}})], policy="error")
    assert str(caught.value) == (
        "cart and cart.total are set by two calls of one step ('c1' and 'c2'); "
        "let one call make both changes, or give them different paths"
    )


def test_a_policy_can_be_chosen_for_each_path() -> None:
    def policy(conflict: PatchConflict) -> Any:
        return "first_call_wins" if conflict.later == "mode" else "last_call_wins"

    calls: list[tuple[int, dict[str, object]]] = [
        (0, {"mode": "a", "cart.total": 1}),
        (1, {"mode": "b", "cart.total": 2}),
    ]
    assert merge_patches(calls, policy=policy).patches == ({"mode": "a", "cart.total": 2},)
    with pytest.raises(StateError, match="a policy is one of last_call_wins, first_call_wins, error"):
        merge_patches(calls, policy=lambda _: "loudest")  # pyright: ignore[reportArgumentType, reportReturnType]


def test_calls_need_keys_that_order_them() -> None:
    with pytest.raises(StateError, match="two patches have the order key 1"):
        merge_patches([(1, {"mode": "a"}), (1, {"mode": "b"})])
    with pytest.raises(StateError, match="cannot be compared"):
        merge_patches([(1, {"mode": "a"}), ("x", {"mode": "b"})])
    assert merge_patches([]) == MergedPatches()


def test_a_record_of_a_conflict_holds_no_value() -> None:
    merged = merge_patches([(0, {"mode": "hush-8842"}), (1, {"mode": "b"})])
    assert "hush-8842" not in repr(merged.conflicts)


_patches = st.dictionaries(
    st.sampled_from(("mode", "cart.total", "notes", "notes[a]", "notes[b]", "cart.items")),
    st.integers(0, 2),
    max_size=4,
)


@examples(8)
@given(st.lists(_patches, max_size=5), st.randoms(use_true_random=False))
def test_merged_is_one_call_after_the_other(numbers: list[dict[str, int]], order: random.Random) -> None:
    values: dict[str, tuple[object, object, object]] = {
        "mode": ("0", "1", "2"),
        "cart.total": (0, 1, 2),
        "notes": ({}, {"a": "1"}, {"a": "2"}),
        "notes[a]": (REMOVE, "1", "2"),
        "notes[b]": ("0", "1", "2"),
        "cart.items": ([], append("1"), append("2")),
    }
    patches = [
        {path: values[path][nr] for path, nr in patch.items() if not ("notes" in patch and path.startswith("notes["))}
        for patch in numbers
    ]
    calls = list(enumerate(patches))
    after = Shop()
    for _, patch in calls:
        after = apply_patch(after, patch)
    order.shuffle(calls)
    merged = merge_patches(calls)
    assert snapshot(merged.apply_to(Shop())) == snapshot(after)


def test_many_calls_that_do_not_meet_are_all_written() -> None:
    # As many writes as would take minutes if each were compared with all others.
    patches = [(call, {f"lines[k{call}-{at}].count": at for at in range(500)}) for call in range(12)]
    merged = merge_patches(patches)
    assert merged.conflicts == () and len(merged.patches) == 1
    assert list(merged.patches[0].items()) == [pair for _, patch in patches for pair in patch.items()]


def test_conflicts_come_in_the_order_of_what_was_written_before() -> None:
    merged = merge_patches([(0, {"cart.lines[b]": 1}), (1, {"cart.lines[a].count": 2}), (2, {"cart.lines": []})])
    assert [conflict.earlier for conflict in merged.conflicts] == ["cart.lines[b]", "cart.lines[a].count"]
    around = merge_patches([(0, {"cart.lines[a].count": 2}), (1, {"cart": {}}), (2, {"cart.lines[a]": 1})])
    assert [(c.earlier, c.later, c.outcome) for c in around.conflicts] == [
        ("cart.lines[a].count", "cart", "replaced"),
        ("cart", "cart.lines[a]", "refined"),
    ]
    assert around.patches == ({"cart": {}}, {"cart.lines[a]": 1})
