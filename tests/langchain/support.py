"""What the tests of the LangChain adapter share: a shop, a scripted model, and ways to read a request."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from tests.retail import TAG as TAG
from tests.retail import UPDATE as UPDATE
from tests.retail import ClockShop as ClockShop
from tests.retail import Customer as Customer
from tests.retail import Order as Order
from tests.retail import Shop as Shop
from tests.retail import a_shop as a_shop


def call(name: str, call_id: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool call as LangChain writes it."""
    return {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}


Step = AIMessage | Exception | Callable[[list[BaseMessage]], AIMessage]


class Scripted(BaseChatModel):
    """A model that answers from a script and keeps what it was sent.

    A step is an answer, an error to raise, or a function of the request. An empty script answers "ok".
    """

    script: list[Any] = Field(default_factory=list)
    requests: list[Any] = Field(default_factory=list)
    settings: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        """It passes for an OpenAI model: errata are system messages in place."""
        return {"ls_provider": "openai", "ls_model_name": "gpt-4.1", "ls_model_type": "chat"}

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[getattr(tool, "name", tool) for tool in tools], **kwargs)

    def _answer(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        self.requests.append(copy.deepcopy(messages))
        self.settings.append(kwargs)
        step = self.script.pop(0) if self.script else AIMessage("ok")
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, AIMessage) else cast("AIMessage", step(messages))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages, kwargs))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._answer(messages, kwargs)
        calls = [
            {"name": one["name"], "args": json.dumps(one["args"]), "id": one["id"], "index": index}
            for index, one in enumerate(answer.tool_calls)
        ]
        words = answer.text.split(" ")
        for index, word in enumerate(words):
            text = word if index == 0 else f" {word}"
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="", tool_call_chunks=cast("Any", calls), usage_metadata=answer.usage_metadata
            )
        )


def wire_of(messages: Iterable[BaseMessage]) -> list[tuple[str, str]]:
    """What a request shows: role and content of each message."""
    return [(message.type, json.dumps(message.content, sort_keys=True)) for message in messages]  # pyright: ignore[reportUnknownMemberType]


def texts(messages: Iterable[BaseMessage]) -> str:
    return "\n".join(content for _, content in wire_of(messages))


def errata_in(messages: Iterable[BaseMessage]) -> list[str]:
    """Every erratum with our tag in a request, in order."""
    found: list[str] = []
    for message in messages:
        text = message.text
        while f"{UPDATE}\n" in text:  # the declaration in the head names the tag and opens no block
            block, _, text = text.partition(f"{UPDATE}\n")[2].partition("\n</state-update>")
            found.append(block)
    return found
