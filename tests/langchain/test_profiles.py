"""The profile of a LangChain model: by its provider, its name, its address, and what its class can send."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from langchain_pkv._profiles import model_profile


def openai(model: str = "gpt-5.2", **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model=model, api_key="x", **settings)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("address", "model", "name"),
    [
        (None, "gpt-5.2", "openai"),
        ("https://api.openai.com/v1", "gpt-5.2", "openai"),
        ("https://eu.api.openai.com/v1", "gpt-5.6", "openai-5.6"),
        ("https://openrouter.ai/api/v1", "anthropic/claude-opus-4.8", "openrouter-anthropic"),
        ("https://api.deepseek.com", "deepseek-chat", "deepseek"),
        ("https://notopenai.com/v1", "gpt-5.2", "generic"),
        ("http://127.0.0.1:8000/v1", "gpt-5.2", "generic"),
    ],
)
def test_who_answers_decides(address: str | None, model: str, name: str) -> None:
    assert model_profile(openai(model, base_url=address))[0].name == name


def test_the_responses_api_and_who_holds_the_history() -> None:
    chat, _ = model_profile(openai())
    responses, _ = model_profile(openai(use_responses_api=True))
    held, notices = model_profile(openai(use_previous_response_id=True))
    assert [one.tool_changes for one in (chat, responses, held)] == [None, "additional_tools", "additional_tools"]
    assert [one.holds_history for one in (chat, responses, held)] == [False, False, True]
    assert notices == ()


def test_azure_goes_by_the_models_name() -> None:
    settings: dict[str, Any] = {"api_key": "x", "api_version": "1", "azure_endpoint": "https://me.openai.azure.com"}
    profile, notices = model_profile(AzureChatOpenAI(azure_deployment="mine", model="gpt-4o", **settings))
    assert (profile.name, profile.cold_after_seconds, notices) == ("openai", 3600, ())


@pytest.mark.parametrize(
    ("model", "carrier", "tool_changes"),
    [
        ("claude-opus-4-8", "system", "tool_addition"),
        ("claude-sonnet-5", "user_suffix", None),
        ("claude-haiku-4-5", "user_suffix", None),
    ],
)
def test_claude_as_its_class_allows(model: str, carrier: str, tool_changes: str | None) -> None:
    claude = ChatAnthropic(model=model, api_key="x")  # pyright: ignore[reportCallIssue, reportArgumentType]
    profile, notices = model_profile(claude)
    assert (profile.carrier, profile.tool_changes, notices) == (carrier, tool_changes, ())
    claude.profile = {}
    profile, _ = model_profile(claude)
    assert (profile.carrier, profile.tool_changes) == ("user_suffix", None)
