"""The chosen model as LlamaIndex's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pkv_agents.local import LocalModel

_USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}
"""LlamaIndex's OpenAI classes ask for no usage in a stream of their own accord."""


class LlamaIndexModels:
    """Makes `FunctionCallingLLM`s."""

    def local(self, local: LocalModel, *, salt: str, max_tokens: int, preface: int) -> Any:
        """Of a model in this process."""
        from llama_index.llms.pkv import LocalLLM

        return LocalLLM(local=local, salt=salt, max_tokens=max_tokens, preface=preface)

    def hosted(self, spec: str, *, max_tokens: int) -> tuple[Any, Literal["stream"]]:
        """Of OpenAI's or Anthropic's; for others there is no class that goes by a name."""
        provider, _, name = spec.partition(":")
        llm: Any
        if provider == "openai":
            from llama_index.llms.openai import OpenAI

            llm = OpenAI(model=name, max_tokens=max_tokens, additional_kwargs=_USAGE)
        elif provider == "anthropic":
            from llama_index.llms.anthropic import Anthropic

            llm = Anthropic(model=name, max_tokens=max_tokens)
        else:
            raise ValueError("with --framework llama_index there are openai:NAME and anthropic:NAME")
        _ = llm.metadata  # these classes know models by name, and refuse others here; an agent would ask in its run
        return llm, "stream"

    def server(self, url: str, name: str, key: str, *, max_tokens: int) -> Any:
        """Of a server of one's own."""
        from llama_index.llms.openai_like import OpenAILike  # pyright: ignore[reportMissingTypeStubs]

        return OpenAILike(
            model=name,
            api_base=url,
            api_key=key,
            max_tokens=max_tokens,
            is_chat_model=True,
            is_function_calling_model=True,
            context_window=128_000,
            additional_kwargs=_USAGE,
        )


__all__ = ["LlamaIndexModels"]
