"""Type hints: looking through wrappers, unions and aliases."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NewType,
    NotRequired,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import (
    AliasChoices,
    AliasPath,
    AwareDatetime,
    BaseModel,
    EmailStr,
    FutureDate,
    FutureDatetime,
    IPvAnyAddress,
    IPvAnyInterface,
    IPvAnyNetwork,
    JsonValue,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    RootModel,
)
from pydantic.fields import FieldInfo
from typing_extensions import ReadOnly, TypeAliasType, get_type_hints, is_typeddict

from ._scalars import SECRETS
from .errors import SchemaError
from .keyed import KeyedList

SEQUENCES = (list, tuple, deque)
"""What a list can be at run time."""

LISTS: tuple[type, ...] = (*SEQUENCES, KeyedList, Sequence)
SETS: tuple[type, ...] = (set, frozenset, AbstractSet)
DICTS: tuple[type, ...] = (dict, Mapping)

# Classes that pydantic has for a type checker's sake: their values are of the plain type.
_STANDS_FOR: dict[object, type] = {
    AwareDatetime: datetime,
    NaiveDatetime: datetime,
    PastDatetime: datetime,
    FutureDatetime: datetime,
    PastDate: date,
    FutureDate: date,
    EmailStr: str,
    IPvAnyAddress: IPv4Address,
    IPvAnyInterface: IPv4Interface,
    IPvAnyNetwork: IPv4Network,
}
_QUALIFIERS = (Final, ClassVar, Required, NotRequired, ReadOnly)


def _plain_type(hint: object) -> Any:
    return _STANDS_FOR.get(hint) if isinstance(hint, type) else None


def unwrap(hint: Any) -> tuple[Any, list[object]]:
    """Strip Annotated, type aliases, NewType and the qualifiers of a class's entries; collect the metadata."""
    metadata: list[object] = []
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            inner, *more = get_args(hint)
            hint, metadata = inner, metadata + more
        elif hint is JsonValue:
            return Any, metadata
        elif (plain := _plain_type(hint)) is not None:
            return plain, metadata
        elif isinstance(hint, (TypeAliasType, getattr(types, "TypeAliasType", TypeAliasType))):
            hint = hint.__value__
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif origin in _QUALIFIERS:
            hint = get_args(hint)[0]
        elif isinstance(hint, TypeVar):
            hint = hint.__bound__ or Any
        else:
            return hint, metadata


def has_secret(hint: Any) -> bool:
    """Whether a secret type occurs anywhere in a hint."""
    hint, _ = unwrap(hint)
    target = get_origin(hint) or hint
    if isinstance(target, type) and issubclass(target, SECRETS):
        return True
    return any(has_secret(part) for part in get_args(hint) if not isinstance(part, (str, int, bytes)))


def alternatives(hint: Any) -> list[Any]:
    """The members of a union, or the hint itself."""
    hint, _ = unwrap(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return [kind for arg in get_args(hint) for kind in alternatives(arg)]
    return [hint]


def list_items(hint: Any) -> list[Any]:
    """The item types of all lists among the alternatives."""
    origins = [(part, get_origin(part)) for part in alternatives(hint)]
    lists = [part for part, origin in origins if isinstance(origin, type) and issubclass(origin, LISTS)]
    return [arg for part in lists for arg in get_args(part) if arg is not ...]


def aliases_of(info: FieldInfo) -> frozenset[str]:
    """The names by which a field is read from data, but for its own; of a path in the data, its first step."""
    alias = info.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [info.alias, alias]
    names = (choice.path[0] if isinstance(choice, AliasPath) else choice for choice in choices)
    return frozenset(name for name in names if isinstance(name, str))


def typed_entries(typed_dict: type[object]) -> Mapping[str, Any]:
    """The hints of a TypedDict's entries.

    Raises:
        SchemaError: A name in them is known only inside a function.
    """
    try:
        return get_type_hints(typed_dict, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"the TypedDict {typed_dict.__name__} names {error.name!r}, which its module does not have; "
            "define both at the top of a module"
        ) from None


def models_in(hint: Any, around: tuple[Any, ...] = ()) -> list[type[BaseModel]]:
    """The models that are named anywhere in a hint, also in a RootModel or a TypedDict.

    Args:
        hint: The hint.
        around: What it stands in: a hidden field may have a type that contains itself.
    """
    hint, _ = unwrap(hint)
    target: Any = get_origin(hint) or hint
    if hint in around:
        return []
    found: list[type[BaseModel]] = []
    parts: Iterable[Any] = get_args(hint)
    if isinstance(target, type) and issubclass(target, BaseModel):
        found = [target]
        parts = [target.model_fields["root"].annotation] if issubclass(target, RootModel) else []
    elif is_typeddict(cast("object", target)):
        try:
            parts = typed_entries(cast("type[object]", target)).values()
        except SchemaError:  # of a hidden field; any other would have been refused
            parts = ()
    inner = (models_in(part, (*around, hint)) for part in parts if not isinstance(part, (str, int, bytes)))
    return [*found, *(model for models in inner for model in models)]


def models_below(model: type[BaseModel]) -> list[type[BaseModel]]:
    """A model, and all that may stand inside it."""
    found = [model]
    for outer in found:
        inner = [one for info in outer.model_fields.values() for one in models_in(info.annotation)]
        found += [one for one in dict.fromkeys(inner) if one not in found]
    return found
