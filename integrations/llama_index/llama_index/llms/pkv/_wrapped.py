"""What a stateful model is around: the inner model, whose answers about tools are its own, and the session.

LlamaIndex pickles a model without what cannot be pickled, and says so in its log alone. A model that came back without
its session would tell nothing, so its first call is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM, ToolSelection
from pydantic import PrivateAttr

from llama_index.llms.pkv._sessions import SessionSource, note_order
from llama_index.llms.pkv._skills import SkillSource
from pkv_agents import SessionError

if TYPE_CHECKING:
    from llama_index.core.tools.types import BaseTool

ValueT = TypeVar("ValueT")
Lost = Literal["lost"]


class WrappedLLM(FunctionCallingLLM):
    """A model around another one."""

    _inner: LLM | Lost = PrivateAttr()
    _source: SessionSource | Lost = PrivateAttr()
    _skills: SkillSource | Lost | None = PrivateAttr(default=None)

    @property
    def inner(self) -> LLM:
        """The model that is called."""
        return _kept(self._inner, "model")

    @property
    def session(self) -> SessionSource:
        """The session, or where the one of a call is found."""
        return _kept(self._source, "session")

    @property
    def skills(self) -> SkillSource | None:
        """The skills, as they were given."""
        return _kept(self._skills, "skills")

    @property
    def metadata(self) -> LLMMetadata:
        """The inner model's."""
        return self.inner.metadata

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; what a call itself heeds is the inner model's too, since the call is its."""
        super().__setattr__(name, value)
        if name in ("callback_manager", "rate_limiter") and isinstance(inner := getattr(self, "_inner", None), LLM):
            setattr(inner, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled; what cannot be is marked as lost."""
        state = super().__getstate__()
        kept = state["__pydantic_private__"]
        for name in ("_inner", "_source", "_skills"):
            kept.setdefault(name, "lost")
        kept.setdefault("_on_call", None)
        return state

    # What LlamaIndex asks a model about tools is the inner model's answer.

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        # Providers' classes append to the history that they are given.
        return self._calling()._prepare_chat_with_tools_compat(
            tools,
            user_msg=user_msg,
            chat_history=list(chat_history or ()),
            verbose=verbose,
            allow_parallel_tool_calls=allow_parallel_tool_calls,
            tool_required=tool_required,
            **kwargs,
        )

    def _validate_chat_with_tools_response(
        self, response: ChatResponse, tools: Sequence[BaseTool], allow_parallel_tool_calls: bool = False, **kwargs: Any
    ) -> ChatResponse:
        return self._calling()._validate_chat_with_tools_response(
            response, tools, allow_parallel_tool_calls=allow_parallel_tool_calls, **kwargs
        )

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Read the tool calls of an answer, as the inner model does."""
        calls = self._calling().get_tool_calls_from_response(
            response, error_on_no_tool_call=error_on_no_tool_call, **kwargs
        )
        note_order(self.session, calls)
        return calls

    def _calling(self) -> FunctionCallingLLM:
        if not isinstance(self.inner, FunctionCallingLLM):
            raise SessionError(
                f"{type(self.inner).__name__} does not call functions, so it cannot be given tools: use a "
                "FunctionCallingLLM, or an agent that asks for tools in words (ReActAgent)"
            )
        return self.inner

    def convert_chat_messages(self, messages: Sequence[ChatMessage]) -> list[Any]:
        """Convert messages as the inner model does."""
        return self.inner.convert_chat_messages([message.model_copy() for message in messages])


def _kept(value: ValueT | str, what: str) -> ValueT:
    if isinstance(value, str):
        raise SessionError(
            f"this StatefulLLM was pickled, and its {what} cannot be: make a StatefulLLM in this process, with a "
            "session of this process"
        )
    return value
