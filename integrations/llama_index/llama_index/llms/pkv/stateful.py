"""`StatefulLLM`: a LlamaIndex model whose every call carries a tracked state.

The caller's messages stay the caller's. Each call is planned from the ledger of what the model was told, and recorded
only after it has succeeded: after the last chunk, when it streams. A stream that is given up leaves the erratum
pending.

The session is always explicit: an `AgentSession`, a function that returns the one of this call, or a `ContextSession`,
which keeps state and ledger in the workflow's context.

The methods carry no callback decorators: the inner model's do, so each event fires once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.generic_utils import (
    astream_chat_response_to_completion_response,
    chat_response_to_completion_response,
    stream_chat_response_to_completion_response,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
)
from llama_index.core.llms.llm import LLM
from pydantic import PrivateAttr

from llama_index.llms.pkv._calls import ModelCall, PlannedCall, StreamReader, aclosed, closed, usage_of
from llama_index.llms.pkv._completions import as_chat, as_prompt, as_question
from llama_index.llms.pkv._sessions import SessionSource, aopen_call, check_source, open_call
from llama_index.llms.pkv._skills import SkillSource, check_skills
from llama_index.llms.pkv._versions import check_versions
from llama_index.llms.pkv._wrapped import WrappedLLM
from pkv_agents import SessionError, Ttl, call_back, refuses_system

_TAKEN = tuple(LLM.model_fields)
"""What every model of LlamaIndex has (prompts around a question, a parser of answers): the inner one's."""


class StatefulLLM(WrappedLLM):
    """A model that tells another one about the state of a session.

    Args:
        llm: The model that is called, from any package of LlamaIndex. It is not changed, but for a callback manager or
            a rate limiter that this one is given later (by `Settings`, for instance).
        session: An `AgentSession`; a `ContextSession`; or a function that returns the session of the present call,
            for example `lambda: sessions[user.get()]`. A `KeyError` of it becomes a `MissingSessionKeyError`.
        skills: The skills that the conversation has (its state has a `Skills` field): a `SkillRegistry`, or a function
            that returns the one of now. Before each call the state is brought up to it, and the model is told what
            changed. `skill_tools` and `StateTools` give the tools by which a model loads them.
        on_call: Called after every call that succeeded, with what was planned and reported.
        markers: Set cache points, for the packages that take them (Anthropic's, Bedrock's); none beside yours.
        marker_ttl: How long a marked prefix should live.

    Raises:
        SessionError: `llm` or `session` is something else, or the model's package and its client library do not work
            together.
        SkillError: `skills` is something else.
    """

    _on_call: Callable[[ModelCall], None] | None = PrivateAttr(default=None)
    _ttl: Ttl | None = PrivateAttr(default="5m")

    def __init__(
        self,
        llm: LLM,
        session: SessionSource,
        *,
        skills: SkillSource | None = None,
        on_call: Callable[[ModelCall], None] | None = None,
        markers: bool = True,
        marker_ttl: Ttl = "5m",
    ) -> None:
        if not isinstance(llm, LLM):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise SessionError(f"llm: a LlamaIndex LLM is needed, not a {type(llm).__name__}")
        if isinstance(llm, StatefulLLM):
            raise SessionError("llm: this one is a StatefulLLM already; wrap the model inside it instead")
        check_source(session)
        check_skills(skills)
        check_versions(llm)
        super().__init__(**{name: getattr(llm, name) for name in _TAKEN})
        self._inner = llm
        self._source = session
        self._skills = skills
        self._on_call = on_call
        self._ttl = marker_ttl if markers else None

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialised forms."""
        return "StatefulLLM"

    def _open(self, messages: Sequence[ChatMessage], options: Mapping[str, Any]) -> PlannedCall:
        return open_call(self.inner, self.session, messages, self._ttl, options.get("tools"), self.skills)

    async def _aopen(self, messages: Sequence[ChatMessage], options: Mapping[str, Any]) -> PlannedCall:
        return await aopen_call(self.inner, self.session, messages, self._ttl, options.get("tools"), self.skills)

    def _tell(self, call: ModelCall | None) -> None:
        if call is not None:
            call_back(self._on_call, call, "on_call")

    # Chat.

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Call the model with the state of the session."""
        call = self._open(messages, kwargs)
        try:
            answer = self.inner.chat(call.sent, **kwargs)
        except Exception as error:
            if not refuses_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            answer = self.inner.chat(call.sent, **kwargs)
        self._tell(call.succeeded(answer, usage_of(answer)))
        return answer

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Call the model with the state of the session."""
        call = await self._aopen(messages, kwargs)
        try:
            answer = await self.inner.achat(call.sent, **kwargs)
        except Exception as error:
            if not refuses_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            answer = await self.inner.achat(call.sent, **kwargs)
        self._tell(await call.asucceeded(answer, usage_of(answer)))
        return answer

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Stream the answer; the state counts as told when the stream is exhausted."""
        return self._streamed(self._open(messages, kwargs), kwargs)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Stream the answer; the state counts as told when the stream is exhausted."""
        return self._astreamed(await self._aopen(messages, kwargs), kwargs)

    def _streamed(self, call: PlannedCall, kwargs: dict[str, Any]) -> Generator[ChatResponse, None, None]:
        reader = StreamReader()
        try:
            stream = self.inner.stream_chat(call.sent, **kwargs)
            chunk = next(stream, None)
        except Exception as error:
            if not refuses_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            stream = self.inner.stream_chat(call.sent, **kwargs)
            chunk = next(stream, None)
        with closed(stream):
            while chunk is not None:
                reader.read(chunk)
                yield chunk
                chunk = next(stream, None)
        self._tell(call.succeeded(reader.last, reader.usage))

    async def _astreamed(self, call: PlannedCall, kwargs: dict[str, Any]) -> AsyncGenerator[ChatResponse, None]:
        reader = StreamReader()
        try:
            stream = await self.inner.astream_chat(call.sent, **kwargs)
            chunk = await anext(stream, None)
        except Exception as error:
            if not refuses_system(error, call.plan):
                raise
            call = call.in_the_other_form()
            stream = await self.inner.astream_chat(call.sent, **kwargs)
            chunk = await anext(stream, None)
        async with aclosed(stream):
            while chunk is not None:
                reader.read(chunk)
                yield chunk
                chunk = await anext(stream, None)
        self._tell(await call.asucceeded(reader.last, reader.usage))

    # Completion: a conversation of one user message. A model that takes no messages gets their texts as its prompt.

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Complete a prompt with the state of the session."""
        if self.metadata.is_chat_model:
            return chat_response_to_completion_response(self.chat(as_question(prompt), **kwargs))
        call = self._open(as_question(prompt), kwargs)
        answer = self.inner.complete(as_prompt(call.sent), formatted=formatted, **kwargs)
        chat = as_chat(answer)
        self._tell(call.succeeded(chat, usage_of(chat)))
        return answer

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Complete a prompt with the state of the session."""
        if self.metadata.is_chat_model:
            return chat_response_to_completion_response(await self.achat(as_question(prompt), **kwargs))
        call = await self._aopen(as_question(prompt), kwargs)
        answer = await self.inner.acomplete(as_prompt(call.sent), formatted=formatted, **kwargs)
        chat = as_chat(answer)
        self._tell(await call.asucceeded(chat, usage_of(chat)))
        return answer

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Stream a completion with the state of the session."""
        if self.metadata.is_chat_model:
            return stream_chat_response_to_completion_response(self.stream_chat(as_question(prompt), **kwargs))
        call = self._open(as_question(prompt), kwargs)
        return self._completed(call, self.inner.stream_complete(as_prompt(call.sent), formatted=formatted, **kwargs))

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """Stream a completion with the state of the session."""
        if self.metadata.is_chat_model:
            return astream_chat_response_to_completion_response(await self.astream_chat(as_question(prompt), **kwargs))
        call = await self._aopen(as_question(prompt), kwargs)
        stream = await self.inner.astream_complete(as_prompt(call.sent), formatted=formatted, **kwargs)
        return self._acompleted(call, stream)

    def _completed(self, call: PlannedCall, stream: CompletionResponseGen) -> CompletionResponseGen:
        reader = StreamReader()
        with closed(stream):
            for chunk in stream:
                reader.read(as_chat(chunk))
                yield chunk
        self._tell(call.succeeded(reader.last, reader.usage))

    async def _acompleted(
        self, call: PlannedCall, stream: CompletionResponseAsyncGen
    ) -> AsyncGenerator[CompletionResponse, None]:
        reader = StreamReader()
        async with aclosed(stream):
            async for chunk in stream:
                reader.read(as_chat(chunk))
                yield chunk
        self._tell(await call.asucceeded(reader.last, reader.usage))
