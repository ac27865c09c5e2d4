"""A small shop and a session over it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel

from pkv_agents import (
    AgentSession,
    Hidden,
    KeyedList,
    Message,
    SessionStore,
    Tracked,
    TrackedState,
)
from tests.core.strategies import LATE, TAG


class Order(BaseModel):
    id: str
    status: str = "in transit"


class Shop(TrackedState):
    orders: Annotated[KeyedList[Order], Tracked(key="id")] = KeyedList([Order(id="4471")])
    mode: str = "plan"
    token: Annotated[str, Hidden()] = "hush-8842"


def make(state: Shop | None = None, *, store: SessionStore | None = None, key: str = "user-42") -> AgentSession[Shop]:
    state = state if state is not None else Shop(orders=KeyedList([Order(id="4471")]))
    return AgentSession(state, key=key, instructions="Be kind.", store=store, profile=LATE, tag=TAG)


HELLO = [Message("user", "hello")]
LATER = [*HELLO, Message("assistant", "hi"), Message("user", "and now?")]
