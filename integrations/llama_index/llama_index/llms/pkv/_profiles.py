"""Which profile a LlamaIndex model has: by the package that its class is from, its model's name and its address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from llama_index.core.llms.llm import LLM

from pkv_agents import Notice, Profile, profile_for

_PACKAGE = "llama_index.llms."
# Who answers at an address that a model of LlamaIndex's OpenAI classes was given.
_HOSTS = {
    "openai.com": "openai",
    "azure.com": "azure",
    "openrouter.ai": "openrouter",
    "deepseek.com": "deepseek",
    "googleapis.com": "gemini",
}
_NAMES = {"azure_openai": "azure", "google_genai": "gemini", "bedrock_converse": "bedrock", "gemini": "gemini"}
_ANYONES = frozenset({"openai_like", "llama_api", "localai"})
"""Packages for servers that speak OpenAI's protocol, whoever runs them."""
_JOINS_SYSTEM = frozenset({"anthropic", "bedrock"})
"""Whose packages put every system message of a request into its one `system` field, wherever it stands."""


def model_profile(llm: LLM) -> tuple[Profile, tuple[Notice, ...]]:
    """The profile for planning, and what there is to say about it.

    A `LocalLLM` brings its own, found by probing its chat template. The Anthropic and Bedrock packages would move a
    late system message into the head: there the erratum goes into the user's or the tool's message.

    Args:
        llm: Any LlamaIndex model.
    """
    local = getattr(llm, "local", None)
    own = getattr(local, "profile", None)
    if isinstance(own, Profile):
        return own, tuple(cast("tuple[Notice, ...]", getattr(local, "notices", ())))
    provider, name = provider_of(llm), llm.metadata.model_name
    overrides: dict[str, object] = {}
    if provider in ("openai_responses", "azure_responses") and getattr(llm, "track_previous_responses", False) is True:
        overrides["holds_history"] = True
    profile, notices = profile_for(provider, name, overrides=overrides)
    if provider in _JOINS_SYSTEM:
        profile = replace(profile, carrier="user_suffix", system_slot="anywhere", tool_changes=None)
    return profile, notices


def model_name(llm: LLM) -> str:
    """Whose cache a model's requests fill: provider and name."""
    name = llm.metadata.model_name or llm.class_name()
    return f"{provider_of(llm)}/{name}"


def provider_of(llm: LLM) -> str:
    """The provider, as `profile_for` names it."""
    package, module = next(_origins(llm), ("", ""))
    if package in _ANYONES:
        return _at(llm, "openai-compatible")
    provider = _NAMES.get(package, package)
    if provider in ("openai", "azure"):
        provider = _at(llm, provider)
        if provider in ("openai", "azure") and module == "responses":
            provider = f"{provider}_responses"
    return provider or llm.class_name()


def _origins(llm: LLM) -> Iterator[tuple[str, str]]:
    """The packages of LlamaIndex that the model's class and its bases are from, nearest first."""
    for cls in type(llm).__mro__:
        if cls.__module__.startswith(_PACKAGE) and not cls.__module__.startswith(f"{_PACKAGE}pkv"):
            package, _, module = cls.__module__.removeprefix(_PACKAGE).partition(".")
            yield package, module


def _at(llm: LLM, provider: str) -> str:
    """Who answers: the provider whose class it is, unless the class was given another's address."""
    base = cast("Any", llm)
    address = getattr(base, "azure_endpoint", None) or getattr(base, "api_base", None)
    host = urlsplit(address).hostname if isinstance(address, str) else None
    if not host:
        return provider
    known = (name for domain, name in _HOSTS.items() if host == domain or host.endswith(f".{domain}"))
    # At a server of one's own, what its chat template does with a late system message is unknown.
    return next(known, "openai-compatible")
