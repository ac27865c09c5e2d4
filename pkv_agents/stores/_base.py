"""What every store shares: keys and records as text, and foreign errors mapped to ours, in one place."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import cast

from .._stored import StoredSession, shown
from ..errors import ConflictError, LedgerError, PkvError, StoreError


def key_text(key: str) -> str:
    r"""A key as every backend can keep it: ASCII without control characters.

    `user-42` stays `user-42`; what is left of ASCII is written as in JSON (`\u0000`, `\"`).

    Raises:
        StoreError: The key is no text.
    """
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise StoreError(f"a session's key is a string, not a {type(key).__name__}")
    if any("\ud800" <= char <= "\udfff" for char in key):  # two halves would be read back as one character
        raise StoreError("a session's key holds half of a surrogate pair; decode it as UTF-8 first")
    return json.dumps(key)[1:-1]


def key_of(text: str) -> str:
    """The key that `key_text` wrote.

    Raises:
        LedgerError: It wrote no such text.
    """
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        raise LedgerError(
            "the store holds a key that was not written by pkv-agents; give it a place of its own"
        ) from None


def plain(value: object) -> str:
    """Text that a driver gave back, perhaps as bytes; what was not written by us need not be legible."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def record_text(key: str, data: Mapping[str, object]) -> str:
    r"""A record as one line of ASCII JSON, in the order of its keys.

    Raises:
        StoreError: The data is not plain JSON data.
    """
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"the record of session {shown(key)} is not plain JSON data ({type(error).__name__})"
        ) from None


def record_of(key: str, text: object, version: object) -> StoredSession:
    """The record that `record_text` wrote, with its version.

    Raises:
        LedgerError: The record is damaged.
    """
    try:
        if not isinstance(text, str) or not isinstance(version, int):
            raise TypeError
        data: object = json.loads(text)
        if not isinstance(data, dict):
            raise TypeError
    except (TypeError, ValueError, RecursionError):
        raise LedgerError(
            f"the record of session {shown(key)} is damaged; nothing was changed; delete_session forgets it"
        ) from None
    return StoredSession(cast("dict[str, object]", data), version)


def conflict(key: str, expected: int, found: object) -> ConflictError:
    """What `save` raises when somebody else saved first."""
    return ConflictError(
        f"session {shown(key)} was saved elsewhere (version {found}, expected {expected}); load it again and plan anew"
    )


@contextmanager
def foreign_errors(store: str, *, words: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Raise whatever a driver raises as a StoreError.

    A driver's message may quote a connection string or a value, so only its type (and its SQLSTATE) is named. The
    driver's error is the StoreError's `__context__`, for a debugger: a traceback does not show it, nor is it pickled.

    Args:
        store: What failed, as the message names it.
        words: Errors whose own words hold neither values nor credentials, and are shown.
    """
    try:
        yield
    except PkvError:
        raise
    except Exception as error:  # noqa: BLE001 (a driver may raise anything; what it says is not shown)
        what = str(error) if isinstance(error, words) else _kind(error)
        raise StoreError(f"{store} failed: {what}") from None


def _kind(error: Exception) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    code = sql_state(error)
    return f"{kind} (SQLSTATE {code})" if code else kind


def sql_state(error: BaseException | None) -> str:
    """The five characters that a SQL database gives for an error's kind; empty when there are none."""
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else ""
