"""Cache points where a request needs them, for the packages whose providers cache only what is marked.

Anthropic's and Bedrock's classes turn a `CachePoint` into a marker, but where they take one differs, and LlamaIndex's
agents set none. Where the application has set points of its own behind messages, none is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from llama_index.core.base.llms.types import CacheControl, CachePoint, ChatMessage, MessageRole
from llama_index.core.llms.llm import LLM

from llama_index.llms.pkv._messages import part_places, to_core
from llama_index.llms.pkv._profiles import provider_of
from pkv_agents import Message, Profile, Ttl, plan_breakpoints

_TAKES_POINTS = frozenset({"anthropic", "bedrock"})


@dataclass(frozen=True, slots=True)
class Markers:
    """Puts cache points on requests.

    Attributes:
        provider: Whose package builds the payload.
        profile: What the provider's cache allows.
        ttl: How long a marked prefix should live.
        ahead: The lifetimes of markers that the package itself sets before the messages.
    """

    provider: str
    profile: Profile
    ttl: Ttl
    ahead: tuple[Ttl, ...] = ()

    @classmethod
    def of(cls, llm: LLM, profile: Profile, ttl: Ttl | None) -> Markers | None:
        """The markers for a model; None where its package or its provider takes none, or they are not wanted."""
        provider = provider_of(llm)
        if ttl is None or provider not in _TAKES_POINTS or not profile.max_breakpoints:
            return None
        if getattr(llm, "cache_idx", None) is not None:  # Anthropic's class marks the messages by itself
            return None
        flags = ("tool_caching", "system_prompt_caching")
        ahead = tuple[Ttl, ...]("5m" for name in flags if getattr(llm, name, False) is True)
        return cls(provider, profile, ttl, ahead)

    def on(self, sent: Sequence[ChatMessage]) -> list[ChatMessage]:
        """The messages with cache points on copies of those that need one.

        Args:
            sent: The rendered request, the head first.
        """
        if any(_marked(message) for message in sent[1:]):
            return list(sent)
        own: list[Ttl] = ["5m" for block in sent[0].blocks if isinstance(block, CachePoint)]
        planned = plan_breakpoints(self._as_planned(sent), self.profile, ttl=self.ttl, ahead=(*self.ahead, *own))
        found = list(sent)
        # From the end, so that places before a new point stay what they were.
        for point in reversed(planned.breakpoints):
            place = part_places(found[point.message])[point.part]
            found[point.message] = self._with_point(found[point.message], place, point.ttl)
        return found

    def _with_point(self, message: ChatMessage, place: int, ttl: Ttl) -> ChatMessage:
        kind = "default" if self.provider == "bedrock" else "ephemeral"  # as each package knows it
        blocks = cast("list[Any]", list(message.blocks))
        blocks.insert(place + 1, CachePoint(cache_control=CacheControl(type=kind, ttl=ttl)))
        return message.model_copy(update={"blocks": blocks})

    def _as_planned(self, sent: Sequence[ChatMessage]) -> list[Message]:
        """What can carry a marker on the way through the package."""
        core = list(to_core(sent))
        if self.provider == "anthropic" or any(isinstance(block, CachePoint) for block in sent[0].blocks):
            core[0] = replace(core[0], content="")  # Anthropic's class drops points from the system text
        if self.provider == "bedrock":  # Converse takes none inside of a tool's result, and nothing stands beside it
            core = [replace(one, content="") if one.role == "tool" else one for one in core]
        return core


def _marked(message: ChatMessage) -> bool:
    if any(isinstance(block, CachePoint) for block in message.blocks):
        return True
    return message.role != MessageRole.SYSTEM and bool(message.additional_kwargs.get("cache_control"))


__all__ = ["Markers"]
