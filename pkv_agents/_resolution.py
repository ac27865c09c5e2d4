"""Whether the resolution of a Volatile field can measure how far its values moved."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel

from ._hints import DICTS, LISTS, SETS, alternatives
from ._scalars import SCALARS
from .errors import SchemaError
from .markers import Volatile

_TIMES = (date, time, timedelta)
_NUMBERS = (int, float, Decimal)

Kind = Literal["time", "number", "other", "unknown"]


def check_resolution(hint: Any, mark: Volatile, where: str) -> None:
    """Refuse a resolution that can measure no value of a field.

    Args:
        hint: The field's annotation.
        mark: Its marker.
        where: The field's name, for the error.

    Raises:
        SchemaError: With the mend.
    """
    if mark.resolution is None:
        return
    kinds = _kinds(hint)
    is_time = isinstance(mark.resolution, timedelta)
    if not kinds or kinds & {"time" if is_time else "number", "unknown"}:
        return
    names = " | ".join(getattr(part, "__name__", str(part)) for part in alternatives(hint))
    given, other = ("a timedelta", "a number") if is_time else ("a number", "a timedelta")
    if ("number" if is_time else "time") in kinds:
        raise SchemaError(f"{where} has the type {names}, which {given} cannot measure; give {other} as its resolution")
    raise SchemaError(f"{where} has the type {names}, which no resolution can measure; leave the resolution out")


def _kinds(hint: Any) -> set[Kind]:
    """What the leaves below a hint can be."""
    found: set[Kind] = set()
    for part in alternatives(hint):
        target, args = cast("object", get_origin(part) or part), get_args(part)
        if target is Literal:
            found |= {_kind(cast("type[object]", type(word))) for word in args}
        elif target is Any or not isinstance(target, type):
            found |= set() if part is None else {"unknown"}
        elif target is not type(None):
            found |= _kinds_of(cast("type[object]", target), args)
    return found


def _kinds_of(target: type[object], args: tuple[Any, ...]) -> set[Kind]:
    """What the leaves of a class can be. A list of plain values is one line, of which nothing can be measured."""
    if issubclass(target, BaseModel):
        return {kind for info in target.model_fields.values() for kind in _kinds(info.annotation)} or {"unknown"}
    if issubclass(target, SCALARS) or not issubclass(target, (*DICTS, *LISTS, *SETS)):
        return {_kind(target)}
    if not args:
        return {"unknown"}
    if issubclass(target, DICTS):
        return _kinds(args[-1])
    found: set[Kind] = set()
    for part in (part for arg in args if arg not in ((), ...) for part in alternatives(arg)):
        found |= {"other"} if _is_scalar(part) else _kinds(part)
    return found


def _is_scalar(hint: Any) -> bool:
    return get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, SCALARS))


def _kind(target: type[object]) -> Kind:
    if issubclass(target, _TIMES):
        return "time"
    return "number" if issubclass(target, _NUMBERS) and target is not bool else "other"
