"""Calling what an application gave us to be told something: its errors must not become the turn's.

An answer was paid for and the ledger knows what was told; a monitor that fails on its own account must cost neither.
So the failure is a `RuntimeWarning` (which tests may turn into an error), and the turn goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def call_back(callback: Callable[[T], object] | None, value: T, name: str) -> None:
    """Call an application's function with something that it wants to know, and go on where it raises.

    Args:
        callback: The function; None is not called.
        value: What it is told.
        name: The option by which it was given, for the warning. The exception's own text is left out: it may hold a
            value of the state.
    """
    if callback is None:
        return
    try:
        callback(value)
    except Exception as error:  # noqa: BLE001 - the application's, and not the turn's
        warnings.warn(f"{name} raised {_where(error)}; the turn went on without it", RuntimeWarning, stacklevel=2)


def _where(error: Exception) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f" in {last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last is not None else ""
    return f"{type(error).__name__}{place}"
