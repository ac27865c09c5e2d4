"""The local engine without weights: it reads the request's own text, and so shows what each prompt says."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from pkv_agents import Message, ToolCall
from pkv_agents.local import Done, LocalModel, Reply, StreamEvent
from tests.example.readers import read_and_decide
from tests.local.tiny import tiny_llama

Decide = Callable[[str, Sequence[str]], tuple[str, str, dict[str, Any]]]
"""Question and texts to the line before the call, the tool and its arguments."""


class ReadingModel(LocalModel):
    """The local engine with a reader in place of the weights; keeps the prompts' ids."""

    def __init__(self, tokenizer: Any, decide: Decide = read_and_decide) -> None:
        super().__init__(tiny_llama(vocab_size=max(448, len(tokenizer))), tokenizer)
        self.prompts: list[tuple[int, ...]] = []
        self._decide = decide

    def generate(self, messages: Sequence[Message], **options: Any) -> Reply:
        self.prompts.append(tuple(self.render_ids(messages, options["tools"])))
        question = next(message.text for message in reversed(messages) if message.role == "user")
        texts = [message.text for message in messages if message.role != "assistant"]
        reason, tool, arguments = self._decide(question, texts)
        call = ToolCall(tool, arguments, id=str(len(self.prompts)))
        return Reply(reason, (call,), "tool_calls", len(self.prompts[-1]), 0, 9, 0.0, 0.0, ())

    def stream(self, messages: Sequence[Message], **options: Any) -> Generator[StreamEvent]:
        yield Done(self.generate(messages, **options))
