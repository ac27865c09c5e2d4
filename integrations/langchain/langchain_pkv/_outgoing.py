"""The last step before a model: a copy of it that sees what is really sent.

Other middleware may stand behind ours and change a request once more. The model is the one thing that they pass on, so
what depends on the request as it leaves is done there: by a copy whose four ways to be called go through a function
first. Its class is the model's own, so `isinstance` stays true for whoever looks at it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

_WAYS = ("_generate", "_agenerate", "_stream", "_astream")

Step = Callable[[list[BaseMessage], dict[str, Any]], tuple[list[BaseMessage], dict[str, Any]]]


def with_last_step(model: BaseChatModel, step: Step) -> BaseChatModel:
    """A copy of a model that passes each of its calls through a function.

    Args:
        model: The model. It is not changed, and its own methods call each other without the function.
        step: Takes the messages and the keyword arguments of a call and returns those to send.
    """
    twin = copy.copy(model)
    for name in _WAYS:
        # On the instance, where it is found before the class's method. Not a field, so nothing serialises it.
        vars(twin)[name] = _through(getattr(model, name), step)
    return twin


def _through(call: Callable[..., Any], step: Step) -> Callable[..., Any]:
    @functools.wraps(call)  # LangChain reads the signature
    def called(messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        sent, options = step(messages, kwargs)
        return call(sent, stop=stop, run_manager=run_manager, **options)

    return called
