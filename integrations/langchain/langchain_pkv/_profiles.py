"""Which profile a LangChain model has: by its provider and name, and by what its LangChain class can send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel

from langchain_pkv._outgoing import has_last_step
from pkv_agents import Notice, Profile, SessionError, TurnPlan, profile_for, refuses_system

# Who answers at an address that a model of LangChain's OpenAI class was given.
_HOSTS = {
    "openai.com": "openai",
    "azure.com": "azure",
    "openrouter.ai": "openrouter",
    "deepseek.com": "deepseek",
    "googleapis.com": "gemini",
}
_OPENAI_CLASS = ("openai", "azure")


def check_model(model: object) -> None:
    """Refuse what only behaves like a chat model, where the last step cannot be put before it; and a second last step.

    Raises:
        SessionError: It is no `BaseChatModel`, or another `StateMiddleware` has planned this request.
    """
    if not isinstance(model, BaseChatModel):
        raise SessionError(
            f"StateMiddleware takes a chat model, not a {type(model).__name__} as .bind, .with_retry or "
            "init_chat_model(configurable_fields=...) return it: give its settings to the model itself, or choose one "
            "for each call in wrap_model_call by request.override(model=...)"
        )
    if has_last_step(model):
        raise SessionError(
            "two StateMiddlewares in one agent would share one ledger: list one, with one schema for both"
        )


def check_tools(error: Exception, model: BaseChatModel, tools: Sequence[object]) -> None:
    """Say in words what LangChain raises without any where a model takes no tools.

    Raises:
        SessionError: The call failed for that.
    """
    if isinstance(error, NotImplementedError) and tools and not error.args:
        raise SessionError(
            f"{type(model).__name__} takes no tools, and the agent has {len(tools)}: choose a model that takes them, "
            "or make the agent without tools"
        ) from error


def model_profile(model: BaseChatModel) -> tuple[Profile, tuple[Notice, ...]]:
    """The profile for planning, and what there is to say about it.

    A `LocalChatModel` brings its own, found by probing its chat template. For other models the provider and the model's
    name decide. LangChain's Anthropic class refuses a late system message unless its own profile allows one: there the
    erratum goes into the user's or the tool's message. LangChain's OpenAI class may let the server keep the history.

    Args:
        model: Any chat model.
    """
    local = getattr(model, "local", None)
    own = getattr(local, "profile", None)
    if isinstance(own, Profile):
        return own, tuple(cast("tuple[Notice, ...]", getattr(local, "notices", ())))
    inner = getattr(model, "inner", None)
    if isinstance(inner, BaseChatModel):
        return model_profile(inner)
    params = cast("Mapping[str, Any]", model._get_ls_params())  # pyright: ignore[reportPrivateUsage]  # delegated by wrappers
    provider, name = str(params.get("ls_provider", "")), str(params.get("ls_model_name", ""))
    overrides: dict[str, object] = {}
    if provider in _OPENAI_CLASS:
        provider = _provider_at(model, provider)
        if getattr(model, "use_responses_api", None) is True and provider in _OPENAI_CLASS:
            provider = f"{provider}_responses"
            overrides = {"holds_history": True} if getattr(model, "use_previous_response_id", False) is True else {}
    if provider == "amazon_bedrock" and getattr(model, "beta_use_converse_api", True) is False:
        provider = "bedrock_messages"  # ChatBedrock as it was before Converse
        overrides["carrier"] = "user_suffix"
    profile, notices = profile_for(provider, name, overrides=overrides)
    if profile.system_slot == "before_assistant":
        profile = _as_its_class_allows(model, profile)
    return profile, notices


def model_name(model: BaseChatModel) -> str:
    """Whose cache a model's requests fill: provider and name; empty for one that says neither."""
    inner = getattr(model, "inner", None)
    if isinstance(inner, BaseChatModel):
        return model_name(inner)
    params = cast("Mapping[str, Any]", model._get_ls_params())  # pyright: ignore[reportPrivateUsage]  # delegated by wrappers
    return "/".join(str(params[name]) for name in ("ls_provider", "ls_model_name") if params.get(name))


def refuses_late_system(error: BaseException, plan: TurnPlan) -> bool:
    """Whether an error says that no system message is taken where the plan put one.

    Args:
        error: What the endpoint answered, or what LangChain's Anthropic class raised before it sent anything: a
            fallback behind our middleware may be such a model, where the one that we planned for is not.
        plan: The plan of the request.
    """
    if isinstance(error, ValueError) and "non-consecutive system messages" in str(error):
        return any(insertion.carrier == "system" for insertion in plan.insertions)
    return refuses_system(error, plan)


def _provider_at(model: BaseChatModel, provider: str) -> str:
    """Who answers: the provider whose class it is, unless the class was given another's address."""
    base = getattr(model, "openai_api_base", None)
    host = urlsplit(base).hostname if isinstance(base, str) else None
    if not host:
        return provider
    known = (name for domain, name in _HOSTS.items() if host == domain or host.endswith(f".{domain}"))
    # At a server of one's own, what its chat template does with a late system message is unknown.
    return next(known, "openai-compatible")


def _as_its_class_allows(model: BaseChatModel, profile: Profile) -> Profile:
    """Claude's profile, without what the LangChain class would refuse to send."""
    allowed = cast("Mapping[str, Any]", model.profile or {})
    if not allowed.get("mid_conversation_tools"):
        profile = replace(profile, tool_changes=None)
    if not allowed.get("mid_conversation_system_messages"):
        profile = replace(profile, carrier="user_suffix")
    return profile
