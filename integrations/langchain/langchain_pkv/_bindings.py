"""Bindings of an inner model, made the wrapper's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence


def rebound(runnable: Runnable[Any, Any], wrapped: Callable[[BaseChatModel], BaseChatModel]) -> Runnable[Any, Any]:
    """What a model's `bind_tools` or `with_structured_output` returned, with the wrapper in the model's place.

    Args:
        runnable: The model itself, a binding of it, or a chain with one in it.
        wrapped: Wraps a model.
    """
    if isinstance(runnable, BaseChatModel):
        return wrapped(runnable)
    if isinstance(runnable, RunnableBinding):
        return runnable.model_copy(update={"bound": rebound(runnable.bound, wrapped)})
    if isinstance(runnable, RunnableSequence):
        return RunnableSequence(*(rebound(step, wrapped) for step in runnable.steps), name=runnable.name)
    if isinstance(runnable, RunnableParallel):
        return RunnableParallel({key: rebound(step, wrapped) for key, step in runnable.steps__.items()})
    return runnable
