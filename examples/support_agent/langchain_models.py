"""The chosen model as LangChain's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from pkv_agents.local import LocalModel

_STREAMING = frozenset({"openai", "anthropic"})


class LangChainModels:
    """Makes `BaseChatModel`s."""

    def local(self, local: LocalModel, *, salt: str, max_tokens: int, preface: int) -> Any:
        """Of a model in this process."""
        from langchain_pkv import LocalChatModel

        return LocalChatModel(local=local, salt=salt, max_tokens=max_tokens, preface=preface)

    def hosted(self, spec: str, *, max_tokens: int) -> tuple[Any, Literal["stream", "call"]]:
        """What `init_chat_model` takes."""
        from langchain.chat_models import init_chat_model

        options: dict[str, Any] = {"max_tokens": max_tokens}
        streams = spec.partition(":")[0] in _STREAMING
        if streams:
            options |= {"streaming": True, "stream_usage": True}
        return cast("Any", init_chat_model)(spec, **options), "stream" if streams else "call"

    def server(self, url: str, name: str, key: str, *, max_tokens: int) -> Any:
        """Of a server of one's own."""
        from langchain_openai import ChatOpenAI
        from pydantic import SecretStr

        return ChatOpenAI(
            model=name,
            base_url=url,
            api_key=SecretStr(key),
            streaming=True,
            stream_usage=True,
            use_responses_api=False,
            max_completion_tokens=max_tokens,
        )


__all__ = ["LangChainModels"]
