"""Which profile a LangChain model has: by its provider and name, and by what its LangChain class can send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel

from pkv_agents import Notice, Profile, profile_for


def _is_elsewhere(model: BaseChatModel) -> bool:
    """Whether a model of LangChain's OpenAI class talks to a server that is not OpenAI's or Azure's."""
    base = getattr(model, "openai_api_base", None)
    host = urlsplit(base).hostname or "" if isinstance(base, str) else ""
    return bool(host) and not host.endswith(("openai.com", "azure.com"))


def model_profile(model: BaseChatModel) -> tuple[Profile, tuple[Notice, ...]]:
    """The profile for planning, and what there is to say about it.

    A `LocalChatModel` brings its own, found by probing its chat template. For other models the provider and the model's
    name decide. LangChain's Anthropic class refuses a late system message unless its own profile allows one: there the
    erratum goes into the user's or the tool's message.

    Args:
        model: Any chat model.
    """
    own = getattr(getattr(model, "local", None), "profile", None)
    if isinstance(own, Profile):
        return own, ()
    inner = getattr(model, "inner", None)
    if isinstance(inner, BaseChatModel):
        return model_profile(inner)
    params = cast("Mapping[str, Any]", model._get_ls_params())  # pyright: ignore[reportPrivateUsage]  # delegated by wrappers
    provider, name = str(params.get("ls_provider", "")), str(params.get("ls_model_name", ""))
    if provider == "openai" and _is_elsewhere(model):
        provider = (
            "openai-compatible"  # a server of one's own: what its chat template does with a late system is unknown
        )
    profile, notices = profile_for(provider, name)
    if provider == "anthropic" and profile.carrier == "system":
        allowed = cast("Mapping[str, Any]", model.profile or {}).get("mid_conversation_system_messages")
        if not allowed:
            return replace(profile, carrier="user_suffix"), notices
    return profile, notices


def model_name(model: BaseChatModel) -> str:
    """Whose cache a model's requests fill: provider and name; empty for one that says neither."""
    inner = getattr(model, "inner", None)
    if isinstance(inner, BaseChatModel):
        return model_name(inner)
    params = cast("Mapping[str, Any]", model._get_ls_params())  # pyright: ignore[reportPrivateUsage]  # delegated by wrappers
    return "/".join(str(params[name]) for name in ("ls_provider", "ls_model_name") if params.get(name))
