"""Minimal edits, whatever the values: a reader who takes the words as they stand ends with the state."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import Message, Snapshot, diff, fold, render_baseline, render_erratum, snapshot
from tests.core.strategies import HOSTILE, TAG, believed, examples, texts
from tests.core.test_edits import Desk, Line

words = st.sampled_from(("Parcel", "left", "the", "hall", "4471", "on", "Monday.", "\n", "東京", *HOSTILE))
long_texts = st.lists(words, min_size=20, max_size=60).map(" ".join)


@st.composite
def edited(draw: st.DrawFn, whole: str) -> str:
    """A long text in which a few words became others."""
    parts = whole.split(" ")
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(parts)))
        parts[at : at + draw(st.integers(0, 3))] = draw(st.lists(words, max_size=3))
    return " ".join(parts)


@st.composite
def desks(draw: st.DrawFn, near: Desk | None = None) -> Desk:
    """A desk with long values; one near another differs from it in a few places."""
    lines = st.builds(Line, name=texts, tags=st.dictionaries(texts, texts, max_size=2))
    if near is None:
        return Desk(
            notes=draw(long_texts),
            todos=draw(st.lists(texts, min_size=8, max_size=20)),
            lines=draw(st.lists(lines, max_size=9)),
            table=draw(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=9)),
            loud=draw(long_texts),
        )
    made = near.model_copy(deep=True)
    made.notes, made.loud = draw(edited(near.notes)), draw(edited(near.loud))
    for items, kind in ((made.todos, texts), (made.lines, lines), (made.table, st.just([1, 2]))):
        values: list[Any] = items  # pyright: ignore[reportAssignmentType, reportUnknownVariableType]
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(values)))
            values[at : at + draw(st.integers(0, 1))] = draw(st.lists(kind, max_size=2))
    return made


@examples(4)
@given(st.data())
def test_a_reader_of_edits_believes_the_state(data: st.DataObject) -> None:
    one = data.draw(desks())
    two = data.draw(desks(near=one))
    before, after = snapshot(one), snapshot(two)
    changes = diff(before, after)
    assert fold(before, changes) == after
    assert changes == diff(before, after)
    block = render_erratum(changes, tag=TAG)
    assert believed([Message("system", render_baseline(before, tag=TAG)), Message("user", block)]) == dict(after)
    # No longer than the plain lines, and nothing in it can close the block.
    plain = diff(Snapshot(), after)
    assert len(block) <= sum(len(change.path) + len(change.text) + 3 for change in plain) + 60 + 12 * len(changes)
    assert block.count("<") == 2


@examples(4)
@given(st.data())
def test_no_part_of_an_edit_can_be_left_out(data: st.DataObject) -> None:
    one = data.draw(desks())
    before, after = snapshot(one), snapshot(data.draw(desks(near=one)))
    changes = diff(before, after)
    kept = [change for change in changes if data.draw(st.booleans())]
    assert (diff(fold(before, kept), after) == ()) == (len(kept) == len(changes))
    for change in changes:
        inside = (change.path + ".", change.path + "[")
        assert not any(other.path.startswith(inside) for other in changes)
