"""The chat model that `with_state` makes: tracked state for a model that is used without an agent.

The caller owns the history and passes all of it with each call, as ever. The session knows the state and what the model
was told; it plans each request, and it is committed only after the call has succeeded: after the last chunk, when the
call streams. A stream that is given up leaves the erratum pending.

The session is always explicit: an `AgentSession`, or a resolver by the run's config; none is shared by accident.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from pydantic import Field

from langchain_pkv._bindings import rebound
from langchain_pkv._caching import CacheWishes
from langchain_pkv._calls import (
    PlannedCall,
    answer_of,
    joined_answer,
    session_for,
    usage_of_chunks,
    usage_of_result,
)
from langchain_pkv._profiles import refuses_late_system
from pkv_agents import AgentSession, Ttl


class StatefulChatModel(BaseChatModel):
    """A chat model that tells another one about the state of a session. Made by `with_state`.

    LangChain's LLM cache is off for it: the same messages under another state are another request.

    Args:
        inner: The model that is called.
        session: An `AgentSession`, or a callable from the run's config to one.
        streaming: Stream even when invoked; taken over from the inner model.
        markers: See `with_state`; `marker_ttl`, `cache_key` and `tools` too.
    """

    inner: BaseChatModel
    session: Any = Field(exclude=True, repr=False)
    streaming: bool = False
    markers: bool = True
    marker_ttl: Ttl = "5m"
    cache_key: str | None = None
    tools: str | None = None

    # The run's config is visible here and not in `_generate`: a resolver is asked now, and a copy holds its answer.

    def _for_run(self, config: RunnableConfig | None) -> Self:
        if isinstance(self.session, AgentSession):
            return self
        return self.model_copy(update={"session": session_for(self.session, ensure_config(config))})

    def invoke(
        self,
        input: LanguageModelInput,  # noqa: A002  # LangChain's name
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Call the model with the state of the run's session."""
        return BaseChatModel.invoke(self._for_run(config), input, config, stop=stop, **kwargs)

    async def ainvoke(
        self,
        input: LanguageModelInput,  # noqa: A002  # LangChain's name
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Call the model with the state of the run's session."""
        return await BaseChatModel.ainvoke(self._for_run(config), input, config, stop=stop, **kwargs)

    def stream(
        self,
        input: LanguageModelInput,  # noqa: A002  # LangChain's name
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """Stream the answer; the state counts as told when the stream is exhausted."""
        return BaseChatModel.stream(self._for_run(config), input, config, stop=stop, **kwargs)

    def astream(
        self,
        input: LanguageModelInput,  # noqa: A002  # LangChain's name
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """Stream the answer; the state counts as told when the stream is exhausted."""
        return BaseChatModel.astream(self._for_run(config), input, config, stop=stop, **kwargs)

    if not TYPE_CHECKING:  # their many overloads are the base class's

        def stream_events(self, input, config=None, **kwargs):  # noqa: A002  # LangChain's name
            """Stream typed events; the state counts as told when the stream is exhausted."""
            return BaseChatModel.stream_events(self._for_run(config), input, config, **kwargs)

        def astream_events(self, input, config=None, **kwargs):  # noqa: A002  # LangChain's name
            """Stream typed events; the state counts as told when the stream is exhausted."""
            return BaseChatModel.astream_events(self._for_run(config), input, config, **kwargs)

    # The call itself.

    def _plan(self, messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> PlannedCall:
        wishes = CacheWishes(self.markers, self.marker_ttl, self.cache_key)
        session = session_for(self.session, ensure_config(None))
        return PlannedCall.made(session, self.inner, messages, options, wishes, tools=self.tools)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = self._plan(messages, kwargs)
        try:
            result = self.inner._generate(call.sent, stop=stop, run_manager=run_manager, **call.options)
        except Exception as error:
            if not refuses_late_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            result = self.inner._generate(call.sent, stop=stop, run_manager=run_manager, **call.options)
        call.succeeded(usage_of_result(result), answer_of(result))
        return result

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = self._plan(messages, kwargs)
        try:
            result = await self.inner._agenerate(call.sent, stop=stop, run_manager=run_manager, **call.options)
        except Exception as error:
            if not refuses_late_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            result = await self.inner._agenerate(call.sent, stop=stop, run_manager=run_manager, **call.options)
        call.succeeded(usage_of_result(result), answer_of(result))
        return result

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call, chunks = self._plan(messages, kwargs), list[ChatGenerationChunk]()
        stream = self.inner._stream(call.sent, stop=stop, run_manager=run_manager, **call.options)
        try:
            chunk = next(stream, None)
        except Exception as error:
            if not refuses_late_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            stream = self.inner._stream(call.sent, stop=stop, run_manager=run_manager, **call.options)
            chunk = next(stream, None)
        while chunk is not None:
            chunks.append(chunk)
            yield chunk
            chunk = next(stream, None)
        call.succeeded(usage_of_chunks(chunks), joined_answer(chunks))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        call, chunks = self._plan(messages, kwargs), list[ChatGenerationChunk]()
        stream = self.inner._astream(call.sent, stop=stop, run_manager=run_manager, **call.options)
        try:
            chunk = await anext(stream, None)
        except Exception as error:
            if not refuses_late_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            stream = self.inner._astream(call.sent, stop=stop, run_manager=run_manager, **call.options)
            chunk = await anext(stream, None)
        while chunk is not None:
            chunks.append(chunk)
            yield chunk
            chunk = await anext(stream, None)
        call.succeeded(usage_of_chunks(chunks), joined_answer(chunks))

    # What LangChain asks a model about itself is the inner model's answer.

    def _streaming_disabled(self, **kwargs: Any) -> bool:
        inner = type(self.inner)
        can_stream = inner._stream is not BaseChatModel._stream or inner._astream is not BaseChatModel._astream
        return not can_stream or super()._streaming_disabled(**kwargs)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop=stop, **kwargs)

    def _get_invocation_params(self, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        return self.inner._get_invocation_params(stop=stop, **kwargs)

    @property
    def _llm_type(self) -> str:
        return f"stateful-{self.inner._llm_type}"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"stateful": True, **self.inner._identifying_params}

    def get_token_ids(self, text: str) -> list[int]:
        """Tokenise with the inner model's tokenizer."""
        return self.inner.get_token_ids(text)

    # Bindings are the inner model's own, bound to this model instead.

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools as the inner model does."""
        return rebound(self.inner.bind_tools(tools, **kwargs), self._wrapped)

    def with_structured_output(self, schema: dict[str, Any] | type, **kwargs: Any) -> Runnable[LanguageModelInput, Any]:
        """Bind a schema as the inner model does."""
        return rebound(self.inner.with_structured_output(schema, **kwargs), self._wrapped)

    def _wrapped(self, model: BaseChatModel) -> BaseChatModel:
        return self if model is self.inner else self.model_copy(update={"inner": model})
