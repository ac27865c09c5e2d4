"""`with_state`: what is checked before a chat model is wrapped, and what the wrapper takes over from it."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel

from langchain_pkv._calls import SessionSource
from langchain_pkv.stateful import StatefulChatModel
from pkv_agents import AgentSession, SessionError, Ttl


def with_state(
    model: BaseChatModel,
    session: SessionSource,
    *,
    markers: bool = True,
    marker_ttl: Ttl = "5m",
    cache_key: str | None = None,
    tools: str | None = None,
) -> StatefulChatModel:
    """Wrap a chat model, so that each of its calls carries the session's state.

    Args:
        model: Any chat model. It is not changed.
        session: The session, or a callable that takes the run's `RunnableConfig` and returns one, for example
            `lambda config: sessions[config["configurable"]["user"]]`. A `KeyError` of it becomes a
            `MissingSessionKeyError`.
        markers: Place cache markers where the provider takes them; False leaves every marker as it is.
        marker_ttl: How long a marked prefix should live, where the provider lets a request choose.
        cache_key: The tenant whose data this is, to send a cache key where the provider routes by one. Only a hash of
            it goes out. None sends no key.
        tools: The state's field of type `Tools`: its array goes out with each call that binds no tools of its own, with
            what the provider can be told besides. Calls that come back are held to it by `pkv_agents.decide_call`.

    Returns:
        A chat model. The system messages at the beginning of a call's input stand behind the session's instructions
        and before its baseline.

    Raises:
        SessionError: If `session` is neither, or the model is no chat model, or one that is wrapped already.
    """
    if not isinstance(model, BaseChatModel):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise SessionError(
            f"with_state wraps a chat model, not a {type(model).__name__}: wrap first and bind afterwards, "
            "with_state(model, session).bind_tools(tools); for a name use init_chat_model(...)"
        )
    if isinstance(model, StatefulChatModel):
        raise SessionError("the model is wrapped by with_state already, and would tell the state twice: wrap it once")
    if not isinstance(session, AgentSession) and not callable(session):
        raise SessionError(f"session: an AgentSession or a callable that returns one, not {type(session).__name__}")
    same = (
        "callbacks",
        "tags",
        "metadata",
        "verbose",
        "profile",
        "rate_limiter",
        "output_version",
        "disable_streaming",
    )
    taken: dict[str, Any] = {name: getattr(model, name) for name in same}
    if getattr(model, "streaming", False):
        taken["streaming"] = True
    taken.update(markers=markers, marker_ttl=marker_ttl, cache_key=cache_key, tools=tools)
    return StatefulChatModel(inner=model, session=session, cache=False, **taken)
