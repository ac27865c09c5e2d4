"""`LocalChatModel`: a Hugging Face model in this process as a LangChain chat model.

It runs on `pkv_agents.local.LocalModel`, whose token-exact prefix cache survives turns and is shared by all sessions of
the model. What was cached is in the answer's usage (`input_token_details.cache_read`), the time to the first token in
its `response_metadata`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from operator import itemgetter
from typing import Any, Literal, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCallChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, Field, field_validator

from langchain_pkv._messages import to_core
from pkv_agents import Message, ModelError
from pkv_agents.local import Delta, LocalModel, Reply

ToolLike = dict[str, Any] | type | Callable[..., Any] | BaseTool
_OWN = ("max_tokens", "temperature", "seed", "salt", "preface", "edit_mode", "skills")
_PER_CALL = ("tools", "response_schema", "choices", *_OWN)


class LocalChatModel(BaseChatModel):
    """A local Hugging Face model.

    Every option can also be bound or given to one call: `llm.bind(max_tokens=20)`. A call also takes `choices`, texts
    of which the answer is one.

    Args:
        local: The loaded model with its cache.
        max_tokens: The most tokens that an answer may have.
        temperature: 0 decodes greedily.
        seed: Makes sampling repeatable.
        stop: Texts that end an answer.
        preface: Before a call that must come, the model first writes one line of at most so many characters (the
            message's text): small models decide better after naming what they decide by.
        salt: Whose cache this is: a prompt under another salt is never matched.
        session: The conversation, which keeps its cached tokens from turn to turn. Inside a graph or chain that runs
            with a `thread_id`, that is the session when none is given.
        edit_mode: What happens when the head is another than in the session's last request; all but `erratum` and
            `full` rest on approximations (`pkv_agents.local.GenerationOptions`), and `response_metadata["kv"]` says so.
        skills: Texts that stand in the system text, put in place from their compiled keys and values.
    """

    local: Any = Field(exclude=True, repr=False)
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int | None = None
    stop: list[str] | None = None
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

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = cast("LocalModel", self.local).generate(_spoken(messages), **self._options(stop, kwargs))
        message = AIMessage(
            content=reply.text,
            tool_calls=[
                {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
                for call in reply.tool_calls
            ],
            usage_metadata=_usage(reply),
            response_metadata=self._metadata(reply),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        events = cast("LocalModel", self.local).stream(_spoken(messages), **self._options(stop, kwargs))
        # Closed at once when the caller gives up, so that the cache's lease ends now and not at garbage collection.
        with closing(events):
            for event in events:
                if isinstance(event, Delta):
                    yield ChatGenerationChunk(message=AIMessageChunk(content=event.text))
                else:
                    yield _last_chunk(event.reply, self._metadata(event.reply))

    def _options(self, stop: Sequence[str] | None, kwargs: Mapping[str, Any]) -> Any:
        """The call's options over the model's own, as `LocalModel` names them."""
        options: dict[str, Any] = {name: getattr(self, name) for name in _OWN}
        options.update({name: kwargs[name] for name in _PER_CALL if kwargs.get(name) is not None})
        if response_format := kwargs.get("response_format"):
            options["response_schema"] = response_format["json_schema"]["schema"]
        options["tool_choice"] = _tool_choice(kwargs.get("tool_choice"))
        options["stop"] = tuple(stop or self.stop or ())
        options["session"] = kwargs.get("session") or self.session or _thread()
        return options

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools; their calls are decoded under a grammar, so name and arguments are always valid.

        Args:
            tools: Tools, functions, pydantic classes or OpenAI tool records.
            tool_choice: `"auto"` (text or a call), `"any"`, `"required"` or True (a call), `"none"`, or a tool's name.
            **kwargs: More options of the call.
        """
        records = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=records, tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "function_calling"] = "json_schema",
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Make the model answer in a schema; the answer is decoded under its grammar.

        Args:
            schema: A pydantic class, a TypedDict or a JSON schema.
            include_raw: Return a dict of `raw`, `parsed` and `parsing_error`.
            method: `json_schema` constrains the answer's text; `function_calling` asks for a tool call.
            **kwargs: `strict` is accepted for other models' sake: decoding is always strict here.
        """
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        record = convert_to_json_schema(schema)
        told = {"kwargs": {"method": method}, "schema": record}
        llm = self.bind(response_schema=record, ls_structured_output_format=told)
        parser: BaseOutputParser[Any] = JsonOutputParser()
        if isinstance(schema, type) and is_basemodel_subclass(schema):  # of pydantic's first version too
            parser = PydanticOutputParser[BaseModel](pydantic_object=schema)
        if not include_raw:
            return llm | parser
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=llm) | parsed.with_fallbacks([failed], exception_key="parsing_error")

    @property
    def _llm_type(self) -> str:
        return "pkv-local"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        own = {name: getattr(self, name) for name in (*_OWN, "stop")}
        return {"fingerprint": cast("LocalModel", self.local).fingerprint, **own}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        params = super()._get_ls_params(stop=stop, **kwargs)
        name = kwargs.get("model") or cast("LocalModel", self.local).fingerprint
        return {**params, "ls_provider": "local", "ls_model_name": name}

    def _metadata(self, reply: Reply) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "model_name": cast("LocalModel", self.local).fingerprint,
            "finish_reason": reply.finish_reason,
            "ttft_s": reply.ttft_s,
            "total_s": reply.total_s,
            "kv": reply.grade,
        }
        if reply.edited:
            metadata["edited"] = list(reply.edited)
        if reply.decision_margin is not None:
            metadata["decision_margin"] = reply.decision_margin
        return metadata

    def _resolve_model_profile(self) -> ModelProfile | None:
        limit = cast("LocalModel", self.local).context_limit
        return ModelProfile(
            max_input_tokens=limit, tool_calling=True, structured_output=True, text_inputs=True, text_outputs=True
        )


def _spoken(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """The messages, without the blocks in which other providers' answers write their tool calls a second time."""
    made: list[Message] = []
    for message in to_core(messages):
        if message.tool_calls and not isinstance(message.content, str):
            parts = tuple(part for part in message.content if part.get("type") != "tool_use")
            message = replace(message, content=parts)
        made.append(message)
    return tuple(made)


def _thread() -> str | None:
    """The thread of the graph run around this call."""
    thread = ensure_config().get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)


def _tool_choice(choice: Any) -> str:
    """LangChain's ways to say it, in the engine's words."""
    if choice is None:
        return "auto"
    if choice is True or choice == "required":
        return "any"
    if choice is False:
        return "none"
    if isinstance(choice, Mapping):
        named = cast("Mapping[str, Any]", choice)
        return str(named.get("function", named)["name"])
    return str(choice)


def _usage(reply: Reply) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=reply.prompt_tokens,
        output_tokens=reply.output_tokens,
        total_tokens=reply.prompt_tokens + reply.output_tokens,
        input_token_details=InputTokenDetails(cache_read=reply.cached_tokens),
    )


def _last_chunk(reply: Reply, metadata: dict[str, Any]) -> ChatGenerationChunk:
    """What is only known at the end: the calls, whole, and what the answer cost."""
    calls = [
        ToolCallChunk(
            name=call.name, args=json.dumps(dict(call.arguments)), id=call.id, index=index, type="tool_call_chunk"
        )
        for index, call in enumerate(reply.tool_calls)
    ]
    message = AIMessageChunk(
        content="",
        tool_call_chunks=calls,
        usage_metadata=_usage(reply),
        response_metadata=metadata,
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message, generation_info={"finish_reason": reply.finish_reason})
