"""LangChain's own suite for chat models, held to our two classes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.unit_tests import ChatModelUnitTests
from pydantic import SecretStr

from langchain_pkv import LocalChatModel, StatefulChatModel
from pkv_agents import AgentSession
from tests.langchain.support import a_shop
from tests.langchain.tiny import tiny_model


def with_its_options(make: Callable[..., BaseChatModel], options: dict[str, Any]) -> dict[str, Any]:
    """What `with_state` gives the wrapper, for the options that the suite passes to a model's class."""
    inner = make(**{key: value for key, value in options.items() if key not in {"inner", "session"}})
    return {"inner": inner, "session": AgentSession(a_shop(), key="k"), "profile": inner.profile}


class Standard(ChatModelUnitTests):
    """The suite builds models of one class from options: those of the inner model make it."""

    inner_class: type[BaseChatModel]
    inner_params: dict[str, Any]

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        inner_class = self.inner_class

        class Wrapped(StatefulChatModel):
            def __init__(self, **options: Any) -> None:
                if "inner" not in options:
                    streaming = {"streaming": True} if options.get("streaming") else {}
                    options = {**with_its_options(inner_class, options), **streaming}
                super().__init__(**options)

        return Wrapped

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return self.inner_params


class TestOverOpenAI(Standard):
    inner_class = ChatOpenAI
    inner_params = {"model": "gpt-4.1", "api_key": SecretStr("k")}  # noqa: RUF012


@pytest.mark.filterwarnings("ignore:Unrecognized structured output method 'json_mode'")  # the suite tries all three
class TestOverAnthropic(Standard):
    inner_class = ChatAnthropic
    inner_params = {"model": "claude-sonnet-5", "api_key": SecretStr("k")}  # noqa: RUF012


class TestLocal(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[LocalChatModel]:
        return LocalChatModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"local": tiny_model()}
