"""Fields that were shown and are Hidden by now: a schema changes between two releases, and heads live on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pydantic import BaseModel

from ._hints import models_below, models_in
from ._schema import model_spec
from .errors import StateError
from .ledger import Epoch
from .paths import parse_path


def first_hidden(schema: type[BaseModel] | None, paths: Iterable[str]) -> str | None:
    """The first path that a schema hides.

    Args:
        schema: The state's class; None where only a snapshot is known, which then hides nothing by its schema.
        paths: Paths that were told.

    Returns:
        The path, or None.
    """
    if schema is None or not _hides_something(schema):
        return None
    return next((path for path in paths if _hides(schema, path)), None)


def told_paths(epoch: Epoch) -> Iterable[str]:
    """Every path that an epoch's head or errata showed."""
    yield from epoch.baseline
    for erratum in epoch.errata:
        for change in erratum.changes:
            yield change.path
            yield from (path for path, _ in change.leaves)


@lru_cache(maxsize=1 << 10)
def _hides_something(schema: type[BaseModel]) -> bool:
    """Whether a model that may stand in a state has a hidden field: most have none, and no path needs to be read."""
    return any(model_spec(model).hidden for model in models_below(schema))


@lru_cache(maxsize=1 << 16)
def _hides(schema: type[BaseModel], path: str) -> bool:
    """Whether every model that may stand on the way and knows the field hides it."""
    models: set[type[BaseModel]] = {schema}
    try:
        segments = parse_path(path)
    except StateError:
        return False
    for segment in segments:
        if segment.is_key:
            continue  # an entry: the models of its container
        knowing = [model for model in models if segment.text in model.model_fields or segment.text in _computed(model)]
        if knowing and all(segment.text in model_spec(model).hidden for model in knowing):
            return True
        hints = [model.model_fields[segment.text].annotation for model in knowing if segment.text in model.model_fields]
        models = {model for hint in hints for model in models_in(hint)} or models
    return False


def _computed(model: type[BaseModel]) -> Iterable[str]:
    return model.model_computed_fields.keys()
