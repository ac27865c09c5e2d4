"""What a request says to the provider's cache: markers on its blocks, and the key that leads it to one machine.

The plan decides what is sent; here is added how it is to be cached. It happens on the messages that really leave, after
every other middleware, for the provider that really gets them. Messages are never changed: a marked one is a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_pkv._messages import to_core
from pkv_agents import (
    Message,
    Notice,
    Profile,
    ToolSpec,
    Ttl,
    TurnPlan,
    apply_breakpoints,
    cache_key,
    plan_breakpoints,
)

_ON_REQUEST = "cache_control"
_OPTIONS = "prompt_cache_options"
MARKERS = ("cache_control", "cachePoint", "prompt_cache_breakpoint")

BESIDE_OURS = Notice(
    code="markers_beside",
    path=_ON_REQUEST,
    cost="of the markers that a request may have, one is spent on what ours would mark anyway",
    mend="leave AnthropicPromptCachingMiddleware (or cache_control=) out, or turn ours off with markers=False",
    message="the request asks the provider to mark its end by itself; ours were counted together with it",
)


@dataclass(frozen=True, slots=True)
class CacheWishes:
    """What the application wants of the provider's cache.

    Attributes:
        markers: Place markers where the provider takes them; False leaves every marker as it is.
        ttl: How long a marked prefix should live, where the provider lets a request choose.
        tenant: Whose cache it is, for the cache key; None sends no key.
    """

    markers: bool = True
    ttl: Ttl = "5m"
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it leaves.

    Attributes:
        messages: The messages, the head first.
        options: The call's keyword arguments.
        notices: What there is to say.
    """

    messages: list[BaseMessage]
    options: dict[str, Any]
    notices: tuple[Notice, ...] = ()


def outgoing(
    messages: Sequence[BaseMessage], options: Mapping[str, Any], model: object, plan: TurnPlan, wishes: CacheWishes
) -> Outgoing:
    """Add to a request what its provider's cache should be told.

    Args:
        messages: The planned request, the head first.
        options: The call's keyword arguments, bound tools among them.
        model: The model that is called; some of its own settings count.
        plan: The plan of this request.
        wishes: What the application wants.

    Returns:
        The request, without the cache keys of other providers. Where nothing is known of the provider's cache, markers
        stay as they are.
    """
    profile, more = plan.profile, {**options}
    made = Outgoing([*messages], more)
    if wishes.markers and (profile.max_breakpoints is not None or profile.automatic):
        if profile.marker not in ("cache_control", "cache_point"):
            more.pop(_ON_REQUEST, None)
        made = _marked(made, _as_asked(profile, more, model), wishes, _own(model).get(_ON_REQUEST))
    if wishes.tenant is not None and profile.cache_key is not None:
        _add_key(more, profile.cache_key, model, plan, wishes.tenant)
    return made


def _marked(request: Outgoing, profile: Profile, wishes: CacheWishes, standing: object) -> Outgoing:
    core = to_core(request.messages)
    seen = [
        replace(one, content="") if _takes_none(message, profile) else one
        for message, one in zip(request.messages, core, strict=True)
    ]
    on_request = request.options.get(_ON_REQUEST, standing)
    ahead = _on_tools(request.options.get("tools"))
    # The provider's own marker stands behind all of ours, so ours may not be shorter than that one.
    ttl = wishes.ttl if on_request is None else _ttl(on_request)
    planned = plan_breakpoints(seen, profile, ttl=ttl, ahead=ahead, automatic=on_request is not None)
    notices = [replace(notice, path="messages", message=_placed(notice)) for notice in planned.notices]
    if on_request is not None:
        notices.append(BESIDE_OURS)
        if _ttl(on_request) == "1h" and "5m" in (*ahead, *(point.ttl for point in planned.breakpoints)):
            request.options[_ON_REQUEST] = {"type": "ephemeral"}
    sent = apply_breakpoints(seen, planned, profile)
    messages = [
        message if new is old else _with_content(message, new)
        for message, old, new in zip(request.messages, seen, sent, strict=True)
    ]
    return replace(request, messages=messages, notices=tuple(notices))


def _placed(notice: Notice) -> str:
    # The places move on with each turn; the cause is one.
    return f"{notice.message} (at {notice.path})" if notice.message else f"at {notice.path}"


def _with_content(message: BaseMessage, sent: Message) -> BaseMessage:
    content = sent.content if isinstance(sent.content, str) else [dict(part) for part in sent.content]
    return message.model_copy(update={"content": content})


def _takes_none(message: BaseMessage, profile: Profile) -> bool:
    """Whether a message must go out as it is: no block of it can carry a marker."""
    if not isinstance(message, ToolMessage):
        return False
    # Results of OpenAI's own tools have their own shapes; Nova takes cache points beside text only.
    return "type" in message.additional_kwargs or profile.name == "bedrock-nova"


def _as_asked(profile: Profile, options: Mapping[str, Any], model: object) -> Profile:
    """The profile, without the marker at the end that the application has turned off."""
    chosen = options.get(_OPTIONS) or getattr(model, _OPTIONS, None)
    if isinstance(chosen, Mapping) and cast("Mapping[str, Any]", chosen).get("mode") == "explicit":
        return replace(profile, implicit_breakpoint=False)
    return profile


def _own(model: object) -> Mapping[str, Any]:
    """The parameters that a model sends with each request."""
    return cast("Mapping[str, Any]", getattr(model, "model_kwargs", None) or {})


def _on_tools(tools: object) -> tuple[Ttl, ...]:
    """The lifetimes of the markers on the tools, in order."""
    markers = (tool.get("cache_control") or tool.get("cachePoint") for tool in _records(tools))
    return tuple(_ttl(marker) for marker in markers if marker)


def _records(tools: object) -> list[Mapping[str, Any]]:
    """Bound tools as records."""
    found = cast("Sequence[object]", tools) if isinstance(tools, list) else ()
    return [cast("Mapping[str, Any]", tool) for tool in found if isinstance(tool, Mapping)]


def _ttl(marker: object) -> Ttl:
    asked = cast("Mapping[str, Any]", marker).get("ttl") if isinstance(marker, Mapping) else None
    return "1h" if asked == "1h" else "5m"


def _add_key(options: dict[str, Any], name: str, model: object, plan: TurnPlan, tenant: str) -> None:
    """Add the cache key, unless the application gave one."""
    shared = plan.system.removesuffix(plan.epoch.baseline_text)
    key = cache_key(tenant, shared, tools=[_tool_spec(tool) for tool in _records(options.get("tools"))])
    if name == "prompt_cache_key":
        if name not in _own(model):
            options.setdefault(name, key)
    elif hasattr(model, "extra_body"):  # a parameter that OpenAI's client does not know
        body: object = options.get("extra_body") or getattr(model, "extra_body", None) or {}
        options["extra_body"] = {name: key, **cast("Mapping[str, Any]", body)}


def _tool_spec(tool: Mapping[str, Any]) -> ToolSpec:
    """A bound tool, in OpenAI's shape, as the core knows tools."""
    inner = cast("Mapping[str, Any]", tool.get("function", tool))
    name = str(inner.get("name") or inner.get("type") or "tool")
    return ToolSpec(name, str(inner.get("description", "")), cast("dict[str, object]", inner.get("parameters") or {}))


def bare(tools: object) -> list[object]:
    """Bound tools without cache markers."""
    made: list[object] = []
    for tool in cast("Sequence[object]", tools) if isinstance(tools, list) else ():
        if isinstance(tool, Mapping):
            record = cast("Mapping[str, object]", tool)
            made.append({key: value for key, value in record.items() if key not in MARKERS})
        else:
            made.append(tool)
    return made
