"""What is remembered of the contexts that ran lately, so that a server's memory does not grow with its users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")

MAX_CONTEXTS = 1000
"""How many are remembered."""


class Lately(Generic[ValueT]):
    """A value for each of the contexts that ran lately.

    Args:
        make: Makes the value of a context that has none (any more).
    """

    def __init__(self, make: Callable[[], ValueT]) -> None:
        self._make = make
        self._values: dict[str, ValueT] = {}

    def of(self, name: str) -> ValueT:
        """The value of a context, which is now the latest one."""
        found = self._values.pop(name, None)
        value = found if found is not None else self._make()
        self._values[name] = value
        while len(self._values) > MAX_CONTEXTS:
            self._values.pop(next(iter(self._values)), None)
        return value


__all__ = ["MAX_CONTEXTS", "Lately"]
