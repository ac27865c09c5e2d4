"""Scalars: the values that are one leaf, and the one JSON text that each of them has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import AnyUrl, SecretBytes, SecretStr
from pydantic.types import Secret

from .errors import StateError
from .escape import json_string

SECRETS: tuple[type, ...] = (SecretStr, SecretBytes, Secret)
_ADDRESSES = (IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)
# AnyUrl is a sibling, not the base, of some of pydantic's URL types; their common base is not public.
_URL_BASE: type = AnyUrl.__mro__[1]
_TEXTUAL = (UUID, PurePath, _URL_BASE, *_ADDRESSES)

_PLAIN = (str, bool, int, float, Decimal, datetime, date, time, timedelta)
SCALARS: tuple[type, ...] = (*_PLAIN, type(None), Enum, *_TEXTUAL)


def _float(value: float) -> str:
    if not isfinite(value):
        raise StateError("is not a finite number; use None, or a text field, for a value that is not known")
    text = repr(float(value) + 0.0)  # -0.0 becomes 0.0: they are equal, so they must read the same
    mantissa, mark, exponent = text.partition("e")
    return text if "." in mantissa else f"{mantissa}.0{mark}{exponent}"


def _int(value: int) -> str:
    try:
        return int.__repr__(value)
    except ValueError:
        raise StateError("is an integer with thousands of digits; use a text field") from None


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise StateError("is not a finite number; use None, or a text field, for a value that is not known")
    return json_string(str(value))


def _timedelta(value: timedelta) -> str:
    """ISO 8601, in days and seconds."""
    sign, span = ("-", -value) if value < timedelta(0) else ("", value)
    fraction = f".{span.microseconds:06d}".rstrip("0") if span.microseconds else ""
    return json_string(f"{sign}P{span.days}DT{span.seconds}{fraction}S")


_RENDER: dict[type, Callable[[Any], str]] = {
    str: json_string,
    bool: lambda value: "true" if value else "false",
    int: _int,
    float: _float,
    type(None): lambda _: "null",
    Decimal: _decimal,
    datetime: lambda value: json_string(value.isoformat()),
    date: lambda value: json_string(value.isoformat()),
    time: lambda value: json_string(value.isoformat()),
    timedelta: _timedelta,
}


def scalar_text(value: Any) -> str | None:
    """The JSON text of a scalar.

    Args:
        value: Anything.

    Returns:
        The text, or None when the value is no scalar.

    Raises:
        StateError: A scalar that has no JSON text (NaN, infinity, a lone surrogate).
    """
    render = _RENDER.get(type(value))  # pyright: ignore[reportUnknownArgumentType] (value is Any on purpose)
    if render is not None:
        return render(value)
    if isinstance(value, Enum):
        return scalar_text(value.value)
    if isinstance(value, _TEXTUAL):
        return json_string(str(value))
    if isinstance(value, str):
        return json_string(str.__str__(value))
    return next((_RENDER[base](value) for base in _PLAIN if isinstance(value, base)), None)


def sort_key(text: str) -> tuple[int, float, str]:
    """How members of a set are ordered: numbers by size, then everything else by its text."""
    try:
        return (0, float(text), text)
    except (ValueError, OverflowError):
        return (1, 0.0, text)
