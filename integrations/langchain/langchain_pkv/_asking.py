"""The request that asks for a summary: the one that was about to be sent, but answered in words.

An agent with a `response_format` makes its model call a tool, or write in a form of the provider's own. Forced into
that form a summary would say nothing of the conversation whose place it takes.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Sequence
from typing import Any, cast

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.structured_output import ProviderStrategy, StructuredOutputValidationError, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

_FREE = (None, "auto", "none")


def asking(view: ModelRequest[Any], instruction: str) -> ModelRequest[Any]:
    """The same request, one instruction behind it. Its answer does not show in the graph's stream of messages.

    The tools stay as they are, also those that a structured answer is given by, since they stand before everything.

    Args:
        view: The request that was about to be sent.
        instruction: What the model is asked.
    """
    quiet = _answering_in_words(view.model)
    quiet.tags = [*(quiet.tags or []), "nostream"]
    asked = view.override(model=quiet, messages=[*view.messages, HumanMessage(instruction)])
    if not _has_own_form(view):
        return asked
    return asked.override(response_format=None, model_settings={**view.model_settings, **_beside_own_form(view)})


def words_in(error: Exception) -> ModelResponse[Any] | None:
    """The answer that LangChain refused since it has not the form of the agent's answers; None for other errors."""
    return ModelResponse(result=[error.ai_message]) if isinstance(error, StructuredOutputValidationError) else None


def _has_own_form(view: ModelRequest[Any]) -> bool:
    """Whether the provider would be told the form of the answer, which cannot be a summary then.

    Where LangChain decides that by more than the model's profile, `words_in` finds the answer.
    """
    form = cast("object", view.response_format)
    if form is None or isinstance(form, (ProviderStrategy, ToolStrategy)):
        return isinstance(form, ProviderStrategy)
    return bool((view.model.profile or {}).get("structured_output"))


def _beside_own_form(view: ModelRequest[Any]) -> dict[str, Any]:
    """What LangChain says of the tools beside such a form, to OpenAI's older API: they are to stay as they are."""
    is_openai = any(cls.__name__ == "BaseChatOpenAI" for cls in type(view.model).__mro__)
    older = is_openai and not getattr(view.model, "use_responses_api", False)
    return {"strict": True} if older and view.tools else {}


def _answering_in_words(model: BaseChatModel) -> BaseChatModel:
    """A copy of a model that can be given tools, and cannot be made to call one."""
    twin = copy.copy(model)
    object.__setattr__(twin, "__class__", _free(type(model)))
    return twin


@functools.cache
def _free(cls: type[BaseChatModel]) -> type[BaseChatModel]:
    """The class of the copies."""

    @functools.wraps(cls.bind_tools)
    def bind_tools(self: Any, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any) -> Any:
        options.pop("response_format", None)
        chosen = tool_choice if tool_choice in _FREE else None
        return cls.bind_tools(self, tools, tool_choice=chosen, **options)

    body = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "bind_tools": bind_tools}
    return cast(
        "type[BaseChatModel]", types.new_class(cls.__name__, (cls,), exec_body=lambda space: space.update(body))
    )
