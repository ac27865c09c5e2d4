"""`LocalLLM`: a Hugging Face model in this process as a LlamaIndex model.

It runs on `pkv_agents.local.LocalModel`, whose token-exact prefix cache survives turns and is shared by all sessions of
the model. What was cached is in the answer's `raw["usage"]`, the time to the first token in `raw["ttft_s"]`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar, cast

from llama_index.core.base.llms.generic_utils import (
    achat_to_completion_decorator,
    astream_chat_to_completion_decorator,
    chat_to_completion_decorator,
    stream_chat_to_completion_decorator,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms import callbacks
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import Field, field_validator

from llama_index.llms.pkv._messages import arguments, to_core
from pkv_agents import ModelError
from pkv_agents.local import Delta, LocalModel, Reply, StreamEvent

if TYPE_CHECKING:
    from llama_index.core.tools.types import BaseTool

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def _chat_events(method: MethodT) -> MethodT:
    """LlamaIndex's decorator for methods that answer, with the type that it has."""
    return cast("Any", callbacks).llm_chat_callback()(method)


def _completion_events(method: MethodT) -> MethodT:
    """LlamaIndex's decorator for methods that complete, with the type that it has."""
    return cast("Any", callbacks).llm_completion_callback()(method)


_OWN = ("max_tokens", "temperature", "seed", "stop", "salt", "preface", "session", "edit_mode", "skills")
_PER_CALL = ("tools", "tool_choice", "response_schema", "choices", *_OWN)


class LocalLLM(FunctionCallingLLM):
    """A local Hugging Face model.

    Every option can also be given to one call: `llm.chat(messages, max_tokens=20)`. A call also takes `tools` (OpenAI's
    records), `tool_choice`, `response_schema`, and `choices`, texts of which the answer is one.

    Args:
        local: The loaded model with its cache.
        max_tokens: The most tokens that an answer may have.
        temperature: 0 decodes greedily.
        seed: Makes sampling repeatable.
        stop: Texts that end an answer.
        preface: Before a call that must come, the model first writes one line of at most so many characters (the
            message's text): small models decide better after naming what they decide by.
        salt: Whose cache this is: a prompt under another salt is never matched.
        session: The conversation, which keeps its cached tokens from turn to turn.
        edit_mode: What happens when the head is another than in the session's last request; all but `erratum` and
            `full` rest on approximations (`pkv_agents.local.GenerationOptions`), and `raw["kv"]` says so.
        skills: Texts that stand in the system text, put in place from their compiled keys and values.
    """

    local: Any = Field(exclude=True, repr=False)
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    preface: int = 0
    salt: str = ""
    session: str | None = None
    edit_mode: str = "erratum"
    skills: tuple[str, ...] = ()

    @field_validator("local")
    @classmethod
    def _is_local_model(cls, value: object) -> object:
        if not isinstance(value, LocalModel):
            raise ModelError(f"local: a pkv_agents.local.LocalModel is needed, not a {type(value).__name__}")
        return value

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialised forms."""
        return "LocalLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """The model's limits; its name is its fingerprint."""
        local = cast("LocalModel", self.local)
        return LLMMetadata(
            context_window=local.context_limit,
            num_output=self.max_tokens,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name=local.fingerprint,
        )

    # Chat.

    @_chat_events
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation."""
        return self._answer(messages, kwargs)

    @_chat_events
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation, in a thread."""
        return await asyncio.to_thread(self._answer, messages, kwargs)

    @_chat_events
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer a conversation piece by piece; tool calls come whole, with the last chunk."""
        return self._pieces(messages, kwargs)

    @_chat_events
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Answer a conversation piece by piece, in a thread."""
        pieces = self._pieces(messages, kwargs)

        async def stream() -> ChatResponseAsyncGen:
            with closing(pieces):
                while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                    yield piece

        return stream()

    def _answer(self, messages: Sequence[ChatMessage], kwargs: Mapping[str, Any]) -> ChatResponse:
        reply = cast("LocalModel", self.local).generate(to_core(messages), **self._options(kwargs))
        return _response(reply)

    def _pieces(self, messages: Sequence[ChatMessage], kwargs: Mapping[str, Any]) -> Generator[ChatResponse]:
        events = cast("LocalModel", self.local).stream(to_core(messages), **self._options(kwargs))
        # Closed at once when the caller gives up, so that the cache's lease ends now and not at garbage collection.
        with closing(events):
            yield from _chunks(events)

    def _options(self, kwargs: Mapping[str, Any]) -> Any:
        """The call's options over the model's own, as `LocalModel` names them."""
        options = {name: getattr(self, name) for name in _OWN}
        options.update({name: kwargs[name] for name in _PER_CALL if kwargs.get(name) is not None})
        return options

    # Completion.

    @_completion_events
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a prompt as a user's message."""

        def answer(messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
            return self._answer(messages, options)

        return chat_to_completion_decorator(answer)(prompt, **kwargs)

    @_completion_events
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a prompt as a user's message."""

        async def answer(messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
            return await asyncio.to_thread(self._answer, messages, options)

        return await achat_to_completion_decorator(answer)(prompt, **kwargs)

    @_completion_events
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Answer a prompt piece by piece."""

        def stream(messages: Sequence[ChatMessage], **options: Any) -> ChatResponseGen:
            return self._pieces(messages, options)

        return stream_chat_to_completion_decorator(stream)(prompt, **kwargs)

    @_completion_events
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """Answer a prompt piece by piece."""

        async def stream(messages: Sequence[ChatMessage], **options: Any) -> ChatResponseAsyncGen:
            async def pieces() -> ChatResponseAsyncGen:
                with closing(self._pieces(messages, options)) as found:
                    while (piece := await asyncio.to_thread(next, found, None)) is not None:
                        yield piece

            return pieces()

        return await astream_chat_to_completion_decorator(stream)(prompt, **kwargs)

    # Tools.

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Name and arguments of a call are always valid: they are decoded under a grammar."""
        asked = ChatMessage(role=MessageRole.USER, content=user_msg) if isinstance(user_msg, str) else user_msg
        messages = [*(chat_history or ()), *([asked] if asked is not None else ())]
        records = [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]
        choice = _CHOICES.get(tool_choice or "", tool_choice) or ("any" if tool_required else "auto")
        return {"messages": messages, "tools": records, "tool_choice": choice if records else "auto", **kwargs}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Read the tool calls of an answer.

        Raises:
            ValueError: There is none, and that is an error.
        """
        calls = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        if not calls and error_on_no_tool_call:
            raise ValueError("Expected at least one tool call, but got 0 tool calls.")  # LlamaIndex's own words
        return [
            ToolSelection(
                tool_id=call.tool_call_id or "",
                tool_name=call.tool_name,
                tool_kwargs=dict(arguments(call.tool_kwargs)),
            )
            for call in calls
        ]


_CHOICES = {"required": "any"}
"""OpenAI's word, in the engine's."""


def _chunks(events: Generator[StreamEvent, None, None]) -> Generator[ChatResponse]:
    text = ""
    for event in events:
        if isinstance(event, Delta):
            text += event.text
            message = ChatMessage(role=MessageRole.ASSISTANT, content=text)
            yield ChatResponse(message=message, delta=event.text)
        else:
            yield _response(event.reply).model_copy(update={"delta": ""})


def _response(reply: Reply) -> ChatResponse:
    blocks: list[Any] = [TextBlock(text=reply.text)] if reply.text or not reply.tool_calls else []
    blocks += [
        ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=dict(call.arguments))
        for call in reply.tool_calls
    ]
    usage = {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.prompt_tokens + reply.output_tokens,
    }
    raw: dict[str, Any] = {
        "usage": {**usage, "prompt_tokens_details": {"cached_tokens": reply.cached_tokens}},
        "finish_reason": reply.finish_reason,
        "ttft_s": reply.ttft_s,
        "total_s": reply.total_s,
        "decision_margin": reply.decision_margin,
        "kv": reply.grade,
        "edited": list(reply.edited),
    }
    return ChatResponse(
        message=ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks), raw=raw, additional_kwargs=usage
    )
