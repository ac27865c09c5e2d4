"""Pydantic's errors become ours, in this one place.

Ours name the path, the type of what was given and the mend. They never show the value, and they do not chain to
pydantic's error, whose text does: a traceback in a log must not hold a secret.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core.core_schema import ErrorType

from ._hints import aliases_of, models_below, models_in
from ._schema import model_spec
from .errors import StateError
from .paths import join_field, join_key

_FIXED = frozenset(get_args(ErrorType))
_MENDS = {
    "extra_forbidden": "declare the field in the schema, or check the spelling",
    "missing": "give it a value, or give the field a default",
    "frozen_field": "the field is frozen; make a new state",
    "frozen_instance": "the model is frozen; patch it with session.update({...})",
    "no_such_attribute": "declare the field in the schema, or check the spelling",
}


def state_error(error: ValidationError, cls: type[BaseModel], path: str = "") -> StateError:
    """Translate pydantic's error.

    Args:
        error: What pydantic raised for an instance of `cls`.
        cls: The model that was validated.
        path: Where in the state that model stands.

    Returns:
        One error that names every problem.
    """
    problems = [_problem(details, cls, path) for details in error.errors(include_url=False)]
    return StateError("; ".join(dict.fromkeys(problems)))


@lru_cache(maxsize=1 << 10)
def reads_aliases(cls: type[BaseModel], *, inside: bool = False) -> bool | None:
    """What to say to pydantic (`by_alias`) about data that goes by the names of the fields.

    Args:
        cls: The model to be validated.
        inside: The data of the models inside it goes by names, too.

    Returns:
        False where one field's alias is another field's name: the other's value would be read twice. None, the model's
        own setting, elsewhere: what a user put into the data may go by aliases.
    """
    fields = [model.model_fields for model in (models_below(cls) if inside else [cls])]
    met = (named.keys() & (aliases_of(info) - {name}) for named in fields for name, info in named.items())
    return False if any(met) else None


def _problem(details: Any, cls: type[BaseModel], path: str) -> str:
    where, hidden = _locate(details["loc"], cls, path)
    kind = type(details["input"]).__name__
    if details["type"] == "missing":
        return f"{where} is missing; {_MENDS['missing']}"
    if hidden:
        return f"{where} ({kind}): the value does not fit the declared type (Hidden, so nothing more is shown)"
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, StateError):
        return f"{where}: {cause}"
    mend = _MENDS.get(details["type"], "pass a value of the declared type")
    if _may_show_values(details["type"]) and _hides_something(cls):
        return f"{where} ({kind}): the value does not fit (the schema has Hidden fields, so nothing more is shown)"
    return f"{where} ({kind}): {details['msg']}; {mend}"


def _may_show_values(kind: str) -> bool:
    """Whether an error of this kind may quote a value: validators write their own messages, tags are values."""
    return kind in ("value_error", "assertion_error", "union_tag_invalid") or kind not in _FIXED


def _hides_something(cls: type[BaseModel], seen: frozenset[type] = frozenset()) -> bool:
    """Whether a model has a hidden field at any depth: a location in it cannot always be followed to its field."""
    if model_spec(cls).hidden:
        return True
    inner = {model for info in cls.model_fields.values() for model in models_in(info.annotation)}
    return any(_hides_something(model, seen | {cls}) for model in inner - seen - {cls})


def _locate(loc: tuple[Any, ...], cls: type[BaseModel], path: str) -> tuple[str, bool]:
    """The path of a pydantic location; it ends early at a hidden field, whose keys are hidden too."""
    current: type[BaseModel] | None = cls
    for step in loc:
        if isinstance(step, int):
            path = f"{path}[{step}]" if path else str(step)
            continue
        name = _field_name(current, step)
        if current is not None and name is not None:
            path = join_field(path, name)
            if name in model_spec(current).hidden:
                return path, True
            current = _first_model(current.model_fields[name].annotation)
        elif step.isidentifier() and current is cls:
            path = join_field(path, step)
        elif not step.startswith("["):
            try:
                path = join_key(path, step) if path and current is None else path
            except StateError:
                path = f"{path}[?]"
    return path or cls.__name__, False


def _field_name(cls: type[BaseModel] | None, step: str) -> str | None:
    """The field that a location step means: pydantic names it by its alias where it has one."""
    if cls is None:
        return None
    if step in cls.model_fields:
        return step
    return next((name for name, info in cls.model_fields.items() if step in aliases_of(info)), None)


def _first_model(hint: object) -> type[BaseModel] | None:
    """The one model inside an annotation, where there is exactly one."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint
    found = {
        model
        for part in cast("tuple[object, ...]", getattr(cast("object", hint), "__args__", ()))
        if (model := _first_model(part)) is not None
    }
    return found.pop() if len(found) == 1 else None
