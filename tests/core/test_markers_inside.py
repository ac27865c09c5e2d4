"""Markers of fields that stand deep inside: behind a RootModel, in a TypedDict, in an item that goes away."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, RootModel
from typing_extensions import TypedDict

from pkv_agents import (
    REMOVE,
    AgentSession,
    Hidden,
    MemoryStore,
    Message,
    Pinned,
    SchemaError,
    Tracked,
    TrackedState,
    TurnPlan,
    Volatile,
)
from tests.core.strategies import SECRET, TAG


class Talk:
    """A conversation with one store, in which each request succeeds."""

    def __init__(self) -> None:
        self.store, self.messages = MemoryStore(), list[Message]()

    def open(self, state: TrackedState) -> AgentSession[Any]:
        return AgentSession(state, key="k", store=self.store, tag=TAG)

    def ask(self, session: AgentSession[Any]) -> TurnPlan:
        self.messages.append(Message("user", "and now?"))
        made = session.plan(self.messages)
        session.commit(made)
        self.messages.append(Message("assistant", "well"))
        return made


class Shown(BaseModel):
    token: str = SECRET


class NotShown(BaseModel):
    token: Annotated[str, Hidden()] = SECRET


class ShownRoot(RootModel[list[Shown]]):
    pass


class NotShownRoot(RootModel[list[NotShown]]):
    pass


class ShownEntry(TypedDict, total=False):
    one: Shown


class NotShownEntry(TypedDict, total=False):
    one: NotShown


@pytest.mark.parametrize(
    ("before", "after", "value", "nothing"),
    [
        (ShownRoot, NotShownRoot, [{}], []),
        (ShownEntry, NotShownEntry, {"one": {}}, {}),
        (dict[str, list[Shown]], dict[str, list[NotShown]], {"a": [{}]}, {}),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_field_that_a_new_release_hides_goes_from_the_head(
    before: Any, after: Any, value: Any, nothing: Any, is_there: bool
) -> None:
    class Old(TrackedState):
        __annotations__ = {"it": before}

    class New(TrackedState):
        __annotations__ = {"it": after}

    talk = Talk()
    assert SECRET in talk.ask(talk.open(Old.model_validate({"it": value}))).system
    made = talk.ask(talk.open(New.model_validate({"it": value if is_there else nothing})))
    assert made.rebased == "field_hidden" and SECRET not in made.system


class Again(TypedDict):
    inner: list[Again]


def test_a_hidden_field_may_have_a_type_that_contains_itself() -> None:
    class Deep(TrackedState):
        tree: Annotated[Again, Hidden()] = {"inner": []}
        x: int = 1

    talk = Talk()
    session = talk.open(Deep())
    talk.ask(session)
    session.update({"x": 2})
    assert [change.path for change in talk.ask(session).changes] == ["x"]


def test_a_typed_dict_of_a_function_may_be_hidden_but_not_shown() -> None:
    class Inner(BaseModel):
        x: int = 1

    class Local(TypedDict):
        inner: Inner

    class Deep(TrackedState):
        local: Annotated[Local, Hidden()] = {"inner": Inner()}

    assert dict(Talk().open(Deep()).plan([Message("user", "hi")]).told) == {}
    with pytest.raises(SchemaError, match="Local names 'Inner'"):

        class Open(TrackedState):  # pyright: ignore[reportUnusedClass]
            local: Local


class Config(BaseModel):
    id: str = "a"
    region: Annotated[str, Pinned()] = "EU"
    used: Annotated[int, Volatile()] = 0


class Shop(TrackedState):
    config: Annotated[Config | None, Pinned()] = Config()
    keyed: Annotated[list[Config], Tracked(key="id")] = [Config()]
    plain: list[Config] = [Config()]


@pytest.mark.parametrize("patch", [{"config": None}, {"keyed[a]": REMOVE}, {"keyed": []}, {"plain": []}])
def test_what_is_pinned_does_not_go_away_in_silence(patch: dict[str, object]) -> None:
    talk = Talk()
    session = talk.open(Shop())
    talk.ask(session)
    session.update(patch)
    made = talk.ask(session)
    assert (made.rebased, made.notices[0].code) == ("pinned_changed", "pinned_changed")
    assert talk.ask(session).rebased is None


def test_what_is_volatile_inside_what_is_pinned_only_moves() -> None:
    talk = Talk()
    session = talk.open(Shop())
    assert [change.path for change in talk.ask(session).changes] == ["config.used", "keyed[a].used", "plain[0].used"]
    session.update({"config.used": 7})
    made = talk.ask(session)
    assert (made.rebased, [change.path for change in made.changes]) == (None, ["config.used"])
