"""A state with nested models and hidden fields, and ways to change it."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Optional

from pydantic import BaseModel, SecretStr

from pkv_agents import (
    Hidden,
    Tracked,
    TrackedState,
    apply_patch,
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


def patching(path: str, value: object) -> Callable[[Shop], object]:
    return lambda shop: apply_patch(shop, {path: value})


def patch_both(shop: Shop) -> object:
    return apply_patch(shop, {"owner": None, "owner.status": "x"})


def making(values: dict[str, Any]) -> Callable[[Shop], object]:
    return lambda _: Shop(**values)


def calling(act: Callable[[Any], object], value: object) -> Callable[[Shop], object]:
    return lambda _: act(value)


def assigning(name: str, value: object) -> Callable[[Shop], object]:
    return lambda shop: setattr(shop, name, value)
