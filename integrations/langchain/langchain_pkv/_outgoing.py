"""The last step before a model: a copy of it that sees what is really sent.

Other middleware may stand behind ours and change a request once more. The model is the one thing that they pass on, so
what depends on the request as it leaves is done there: by a copy whose ways to be called go through a function first.
Its class derives from the model's own, so `isinstance` stays true for whoever looks at it, and it can be copied again.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

_WAYS = ("_generate", "_agenerate", "_stream", "_astream")
_STEP = "_pkv_last_step"

Step = Callable[[list[BaseMessage], dict[str, Any]], tuple[list[BaseMessage], dict[str, Any]]]


def with_last_step(model: BaseChatModel, step: Step) -> BaseChatModel:
    """A copy of a model that passes each of its calls through a function.

    Args:
        model: The model. It is not changed.
        step: Takes the messages and the keyword arguments of a call and returns those to send. It is asked once for a
            call, also where one of the model's methods calls another.
    """
    twin = copy.copy(model)
    vars(twin)[_STEP] = _Once(step)  # no field, so nothing shows or serialises it
    object.__setattr__(twin, "__class__", _with_step(type(model)))
    return twin


def has_last_step(model: BaseChatModel) -> bool:
    """Whether a model is such a copy."""
    return _STEP in vars(model)


class _Once:
    """A step that is not taken again for what it returned."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._sent: list[BaseMessage] | None = None

    def __call__(
        self, messages: list[BaseMessage], options: dict[str, Any]
    ) -> tuple[list[BaseMessage], dict[str, Any]]:
        if messages is self._sent:
            return messages, options
        self._sent, options = self._step(messages, options)
        return self._sent, options


@functools.cache
def _with_step(cls: type[BaseChatModel]) -> type[BaseChatModel]:
    """The class of the copies: the model's, with the ways to call it that it defines itself led through the step."""
    own = {name: _through(cls, name) for name in _WAYS if getattr(cls, name) is not getattr(BaseChatModel, name)}
    body = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, **own}
    return cast(
        "type[BaseChatModel]", types.new_class(cls.__name__, (cls,), exec_body=lambda space: space.update(body))
    )


def _through(cls: type[BaseChatModel], name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(cls, name))  # LangChain reads the signature
    def called(self: Any, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        step = cast(_Once, vars(self)[_STEP])
        sent, options = step(messages, kwargs)
        # Looked up for each call: tests and tracers put other functions there, and take them away again.
        return getattr(cls, name)(self, sent, stop=stop, run_manager=run_manager, **options)

    return called
