"""The resolution of a Volatile field must be able to measure its values."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import AwareDatetime, BaseModel, create_model

from pkv_agents import SchemaError, TrackedState, Volatile, diff, snapshot

MINUTE = timedelta(minutes=1)


class Clock(BaseModel):
    name: str = ""
    at: datetime


class Name(BaseModel):
    name: str


class Level(Enum):
    LOW = 1


def define(hint: Any, resolution: Any) -> type[TrackedState]:
    marked: Any = Annotated[hint, Volatile(resolution=resolution)]
    return create_model("Shop", __base__=TrackedState, field_x=(marked, ...))


@pytest.mark.parametrize(
    ("hint", "resolution", "message"),
    [
        (int, MINUTE, "has the type int, which a timedelta cannot measure; give a number as its resolution"),
        (Optional[int], MINUTE, "has the type int | NoneType, which a timedelta cannot measure; give a number as its resolution"),  # noqa: E501, UP045
        (datetime, 5, "has the type datetime, which a number cannot measure; give a timedelta as its resolution"),
        (date | None, 1, "has the type date | NoneType, which a number cannot measure; give a timedelta as its resolution"),  # noqa: E501
        (AwareDatetime, 1, "has the type datetime, which a number cannot measure; give a timedelta as its resolution"),
        (dict[str, float], MINUTE, "has the type dict, which a timedelta cannot measure; give a number as its resolution"),  # noqa: E501
        (str, 5, "has the type str, which no resolution can measure; leave the resolution out"),
        (bool, 1, "has the type bool, which no resolution can measure; leave the resolution out"),
        (Level, 1, "has the type Level, which no resolution can measure; leave the resolution out"),
        (Name, 1, "has the type Name, which no resolution can measure; leave the resolution out"),
        (list[datetime], MINUTE, "has the type list, which no resolution can measure; leave the resolution out"),
        (set[int], 1, "has the type set, which no resolution can measure; leave the resolution out"),
    ],
)  # fmt: skip
def test_a_resolution_that_measures_nothing_is_refused_at_the_class(hint: Any, resolution: Any, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        define(hint, resolution)
    assert str(caught.value) == f"field 'field_x' of Shop {message}"


@pytest.mark.parametrize(
    ("hint", "resolution"),
    [
        (datetime | str, MINUTE),
        (datetime | int, 1),
        (time, MINUTE),
        (timedelta, MINUTE),
        (AwareDatetime, MINUTE),
        (Decimal, 0.5),
        (Literal[1, 2], 1),
        (dict[str, int], 1),
        (list[dict[str, int]], 1),
        (Clock, MINUTE),
        (list[Clock], MINUTE),
        (Any, 1),
        (list, 1),
        (None, 1),
    ],
)
def test_a_resolution_that_measures_something_is_taken(hint: Any, resolution: Any) -> None:
    assert define(hint, resolution)


def test_a_span_of_time_is_told_by_its_resolution() -> None:
    class Work(TrackedState):
        spent: Annotated[timedelta | str, Volatile(resolution=timedelta(minutes=5))]
        at: Annotated[AwareDatetime, Volatile(resolution=MINUTE)] = datetime(2026, 1, 1, tzinfo=UTC)

    def lines(before: Any, after: Any) -> list[str]:
        changes = diff(snapshot(Work(spent=before)), snapshot(Work(spent=after)))
        return [f"{change.path}: {change.text}" for change in changes]

    assert lines(timedelta(0), timedelta(minutes=4, microseconds=5)) == []
    assert lines(timedelta(minutes=-2), timedelta(minutes=3)) == ['spent: "P0DT180S"']
    assert lines(timedelta(days=1), timedelta(minutes=1436)) == []
    assert lines(timedelta(0), "Pause") == ['spent: "Pause"']
    assert lines("Pause", "Play") == ['spent: "Play"']
