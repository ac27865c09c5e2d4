"""Minimal edits: a long text or a list is told by what changed, in words that leave one reading."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from pkv_agents import (
    GENERIC,
    OPENAI,
    Ledger,
    Message,
    Tracked,
    TrackedState,
    Untrusted,
    Volatile,
    commit,
    diff,
    fold,
    plan,
    snapshot,
    wire,
)
from pkv_agents.diff import UNKNOWN
from tests.core.reader import is_edit
from tests.core.strategies import TAG, believed

PARCELS = [f"Parcel {nr} left the hall on Monday and is in transit." for nr in range(8)]
STORY = " ".join(PARCELS)
RULES = "\n".join(
    f'- On a {what} request, if its way is "{way}", call `hold`.'
    for what in ("parcel", "letter", "crate", "pallet")
    for way in ("late", "lost")
)


class Line(BaseModel):
    name: str = ""
    price: float = 0
    tags: dict[str, str] = {}
    parts: list[Line2] = []


class Line2(BaseModel):
    size: int


class Watched(BaseModel):
    name: str
    seen: Annotated[int, Volatile(resolution=5)] = 0


class Desk(TrackedState):
    notes: str = ""
    todos: list[str] = []
    lines: list[Line] = []
    watched: list[Watched] = []
    loud: Annotated[str, Tracked(critical=True)] = ""
    table: list[list[int]] = []
    loose: list[Any] = []
    said: Annotated[str, Untrusted()] = ""


def told(before: Desk, after: Desk) -> list[str]:
    return [f"{change.path}: {change.text or 'removed'}" for change in diff(snapshot(before), snapshot(after))]


def numbered(*names: str) -> list[Line]:
    return [Line(name=name, price=len(name), tags={"colour": "red", "maker": "Lindt & Sons"}) for name in names]


TODOS = [f"call customer {nr} about the late parcel" for nr in range(8)]
NAMES = [f"article {nr}" for nr in range(8)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            {"notes": STORY},
            {"notes": STORY.replace("4 left the hall on Monday and is in transit", "4 was delivered")},
            ['notes: replace "4 left the hall on Monday and is in transit." with "4 was delivered."'],
            id="one part",
        ),
        pytest.param(
            {"notes": STORY},
            {"notes": STORY.replace("Parcel 1", "Box 1").replace("Parcel 6", "Box 6")},
            [
                'notes: replace "transit. Parcel 1" with "transit. Box 1"; '
                'replace "transit. Parcel 6" with "transit. Box 6"'
            ],
            id="two parts, each with enough around it to occur once",
        ),
        pytest.param({"notes": STORY}, {"notes": f"{STORY} It rains."}, ['notes: append " It rains."'], id="longer"),
        pytest.param(
            {"notes": "\n".join(PARCELS)},
            {"notes": "\n".join(PARCELS[:3] + PARCELS[4:])},
            [
                r'notes: replace "Parcel 3 left the hall on Monday and is in transit.\n'
                r'Parcel 4 left the hall on Monday and is in transit." '
                r'with "Parcel 4 left the hall on Monday and is in transit."',
            ],
            id="a line is gone",
        ),
        pytest.param(
            {"notes": RULES},
            {"notes": RULES.replace('"late", call `hold`', '"late", call `refund`', 1)},
            [
                r'notes: replace "- On a parcel request, if its way is \"late\", call `hold`." '
                r'with "- On a parcel request, if its way is \"late\", call `refund`."'
            ],
            id="a short line stands whole: half of it says not what it is about",
        ),
        pytest.param(
            {"notes": RULES},
            {"notes": RULES.replace("a letter request, if its way", "a card request, if its state")},
            [
                r'notes: replace "- On a letter request, if its way is \"late\", call `hold`.'
                r'\n- On a letter request, if its way is \"lost\", call `hold`." '
                r'with "- On a card request, if its state is \"late\", call `hold`.'
                r'\n- On a card request, if its state is \"lost\", call `hold`."'
            ],
            id="two places in each of two lines are one",
        ),
        pytest.param(
            {"notes": f"{STORY}\n{RULES}"},
            {"notes": f"{STORY}\n{RULES}".replace("Parcel 6", "Box 6")},
            ['notes: replace "transit. Parcel 6" with "transit. Box 6"'],
            id="of a long line, the words",
        ),
        pytest.param(
            {"notes": STORY},
            {"notes": STORY.upper()},
            [f'notes: "{STORY.upper()}"'],
            id="all is new, so it is told whole",
        ),
        pytest.param(
            {"notes": "It is in transit."}, {"notes": "It is delivered."}, ['notes: "It is delivered."'], id="short"
        ),
        pytest.param(
            {"todos": TODOS}, {"todos": ["buy milk", *TODOS]}, ['todos: insert at 0 "buy milk"'], id="at the front"
        ),
        pytest.param({"todos": TODOS}, {"todos": [*TODOS, "a", "b"]}, ['todos: append "a", "b"'], id="at the end"),
        pytest.param(
            {"todos": TODOS},
            {"todos": ["buy milk", *TODOS[:3], *TODOS[4:7], "last"]},
            ['todos: set at 7 "last"; remove at 3 ("call customer 3 about the late parcel"); insert at 0 "buy milk"'],
            id="from the back to the front",
        ),
        pytest.param({"todos": TODOS}, {"todos": []}, ["todos: []"], id="emptied"),
        pytest.param(
            {},
            {"lines": numbered(*NAMES)},
            [
                line
                for at, name in enumerate(NAMES)
                for line in (
                    f'lines[{at}].name: "{name}"',
                    f"lines[{at}].price: 9.0",
                    f'lines[{at}].tags[colour]: "red"',
                    f'lines[{at}].tags[maker]: "Lindt \\u0026 Sons"',
                    f"lines[{at}].parts: []",
                )
            ],
            id="models: the first ones",
        ),
        pytest.param(
            {"lines": numbered(*NAMES)},
            {"lines": numbered("new", *NAMES)},
            [
                'lines: insert at 0 {name: "new", price: 3.0, tags[colour]: "red", tags[maker]: "Lindt \\u0026 Sons", '
                "parts: []}; now lines[0] to lines[8]"
            ],
            id="models: the front",
        ),
        pytest.param(
            {"lines": numbered(*NAMES)},
            {"lines": numbered(*NAMES[1:], "new")},
            [
                'lines: append {name: "new", price: 3.0, tags[colour]: "red", tags[maker]: "Lindt \\u0026 Sons", '
                "parts: []}; remove at 0; now lines[0] to lines[7]"
            ],
            id="models: a sliding window",
        ),
        pytest.param(
            {"lines": numbered(*NAMES)},
            {"lines": [*numbered(*NAMES[:3]), Line(name="x", price=2), *numbered(*NAMES[4:])]},
            [
                'lines[3].name: "x"',
                "lines[3].price: 2.0",
                "lines[3].tags: {}",
            ],
            id="models: nothing moved, so the lines stay plain",
        ),
        pytest.param(
            {"lines": [Line(parts=[Line2(size=10**30 + nr) for nr in range(9)])]},
            {"lines": [Line(parts=[Line2(size=10**30 + nr) for nr in range(-1, 9)])]},
            [f"lines[0].parts: insert at 0 {{size: {10**30 - 1}}}; now lines[0].parts[0] to lines[0].parts[9]"],
            id="a list inside a list",
        ),
        pytest.param(
            {"loose": [{"a": nr, "b": "x" * 30 + str(nr)} for nr in range(9)]},
            {"loose": ["first", *({"a": nr, "b": "x" * 30 + str(nr)} for nr in range(9))]},
            ['loose: insert at 0 "first"; now loose[0] to loose[9]'],
            id="a plain value among models",
        ),
    ],
)
def test_the_words_of_an_edit(before: dict[str, Any], after: dict[str, Any], expected: list[str]) -> None:
    assert told(Desk(**before), Desk(**after)) == expected


def test_what_the_markers_watch_keeps_its_own_lines() -> None:
    before = [Watched(name="x" * 40 + str(nr)) for nr in range(9)]
    lines = told(Desk(watched=before), Desk(watched=[Watched(name="new"), *before]))
    assert len(lines) == 11
    assert not any(is_edit(line.partition(": ")[2]) for line in lines)


def test_an_edit_of_what_was_never_told_says_nothing() -> None:
    """A model that cannot be sent an earlier erratum must not be left with an edit of it."""
    steps = [STORY, STORY.replace("Parcel 1", "Box 1"), STORY.replace("Parcel 1", "Box 1").replace("Parcel 6", "Box 6")]
    snapshots = [snapshot(Desk(notes=text)) for text in steps]
    first, second = diff(snapshots[0], snapshots[1]), diff(snapshots[1], snapshots[2])
    assert is_edit(first[0].text) and is_edit(second[0].text)
    without_first = fold(snapshots[0], second)
    assert without_first["notes"] == UNKNOWN
    assert diff(without_first, snapshots[2])[0].text == snapshots[2]["notes"]


def test_an_edit_whose_entry_is_gone_since_is_told_as_removed() -> None:
    steps = [snapshot(Line(tags={"a": text})) for text in (STORY, STORY.replace("Parcel 1", "Box 1"), STORY.upper())]
    lost = fold(steps[2], diff(steps[0], steps[1]))
    assert [(change.path, change.kind) for change in diff(lost, snapshot(Line()))] == [("tags", "set")]
    assert [(change.path, change.kind) for change in diff(lost, snapshot(Line(tags={"b": ""})))] == [
        ("tags[b]", "set"),
        ("tags[a]", "remove"),
    ]


def test_a_provider_that_does_not_take_the_first_of_two_edits_where_it_was_told() -> None:
    desk, ledger, messages = Desk(notes=STORY), None, [Message("user", "hello")]
    for nr, message in enumerate((Message("assistant", "well"), Message("user", "so?"), Message("assistant", "so."))):
        ledger = commit(ledger, plan(ledger, desk, messages, profile=OPENAI, tag=TAG))
        messages = [*messages, message]
        desk.notes = desk.notes.replace(f"Parcel {nr}", f"Box {nr}")
    messages = [*messages, Message("user", "go on")]
    assert ledger is not None and len(ledger.epochs[-1].errata) == 2
    turn = plan(ledger, desk, messages, profile=GENERIC, tag=TAG)
    assert turn.told == snapshot(desk)
    assert turn.erratum is not None
    assert turn.erratum.text == f'<state-update id="{TAG}">\nnotes: {snapshot(desk)["notes"]}\n</state-update>'


@pytest.mark.parametrize("profile", [OPENAI, GENERIC])
def test_edits_are_replayed_and_folded_over_a_conversation(profile: Any) -> None:
    desk, ledger, messages = Desk(notes=STORY, lines=numbered(*NAMES)), None, [Message("user", "hello")]
    for turn_number in range(5):
        turn = plan(ledger, desk, messages, profile=profile, tag=TAG)
        sent = wire(turn, messages)
        assert believed(sent) == dict(snapshot(desk)) == dict(turn.told.leaves)
        assert turn.rebased is None
        ledger = commit(ledger, turn)
        assert Ledger.from_dict(json.loads(json.dumps(ledger.to_dict()))) == ledger
        messages = [*messages, Message("assistant", "ok"), Message("user", f"more {turn_number}")]
        desk.notes = desk.notes.replace(f"Parcel {turn_number}", f"Box {turn_number}")
        desk.said = str(turn_number)
        desk.lines.insert(turn_number % 2, numbered(f"new {turn_number}")[0])
    assert ledger is not None
    edits = [change for erratum in ledger.epochs[-1].errata for change in erratum.changes]
    assert [bool(change.edits) for change in edits] == [is_edit(change.text) for change in edits]
    assert sum(is_edit(change.text) for change in edits) == 8
    assert all(change.untrusted == (change.path == "said") for change in edits)


def test_a_long_value_takes_no_quadratic_time() -> None:
    """Half a megabyte of the worst texts; a step that compared all parts with each other would take minutes."""
    for text in ("a " * 250_000, " ".join(map(str, range(80_000))), "x" * 500_000, '"' * 400_000, "abc " * 125_000):
        middle = len(text) // 2
        for other in (f"{text[:middle]} new {text[middle:]}", " ".join(reversed(text.split(" ")))):
            before, after = snapshot(Desk(notes=text)), snapshot(Desk(notes=other))
            assert fold(before, diff(before, after)) == after
