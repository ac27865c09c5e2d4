"""The record of what one provider's cache and messages allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import ProfileError
from ..ledger import Carrier

SystemSlot = Literal["anywhere", "before_assistant"]
MarkerShape = Literal["cache_control", "prompt_cache_breakpoint", "cache_point"]
Ttl = Literal["5m", "1h"]
ToolChanges = Literal["tool_addition", "additional_tools"]


@dataclass(frozen=True, slots=True)
class Profile:
    """What one provider's cache and messages allow; None where it is not known.

    Attributes:
        name: Its name in notices and reports.
        carrier: How an erratum reaches the model: a `system` message in place, or a `user_suffix` on the newest user
            or tool-result message.
        system_slot: Where a system message may stand in a conversation: `anywhere`, or only `before_assistant` (after
            a user or tool turn, and last or followed by an assistant turn).
        min_cacheable_tokens: A shorter prefix is not cached at all.
        block_tokens: The cache's granularity.
        max_breakpoints: How many cache markers a request may have; 0 where caching is automatic.
        lookback_blocks: How far back from a marker a hit is looked for.
        implicit_breakpoint: The end of each request is a marker by itself, and counts as one.
        ttl_seconds: How long an unused prefix is kept.
        read_multiplier: Price of a cached input token, in input tokens.
        write_multiplier: Price of writing one.
        as_of: When the numbers were true: a year and a month.
        automatic: Prefixes are cached without any marker.
        marker: The shape of a marker on a content block; None where there are none.
        ttls: Which lifetimes a marker may ask for, the default first; empty where it cannot ask.
        write_multiplier_1h: Price of writing a token that is to be kept for an hour.
        cold_after_seconds: After so long without a request the prefix is certainly gone, where no marker asked for more
            than the default lifetime; None: that is never certain.
        cache_key: The request's parameter that leads requests with one key to one cache.
        cache_key_rpm: How many requests a minute one key should have at most.
        holds_history: The server keeps the history, so nothing can be put into it afterwards.
        tool_changes: How a tool can be added or removed in the middle of a conversation.
        allowed_tools: `tool_choice` can name the tools that may be called, without touching the tools array.
        sorts_arguments: Tool-call arguments are sent with sorted keys, so that a store that reorders them breaks
            nothing. Not where the cache holds the very tokens that the model generated.
        source: Where the numbers are from: an address of public documentation.
    """

    name: str
    carrier: Carrier = "user_suffix"
    system_slot: SystemSlot = "anywhere"
    min_cacheable_tokens: int | None = None
    block_tokens: int | None = None
    max_breakpoints: int | None = None
    lookback_blocks: int | None = None
    implicit_breakpoint: bool = False
    ttl_seconds: int | None = None
    read_multiplier: float | None = None
    write_multiplier: float | None = None
    as_of: str = ""
    automatic: bool | None = None
    marker: MarkerShape | None = None
    ttls: tuple[Ttl, ...] = ()
    write_multiplier_1h: float | None = None
    cold_after_seconds: int | None = None
    cache_key: str | None = None
    cache_key_rpm: int | None = None
    holds_history: bool = False
    tool_changes: ToolChanges | None = None
    allowed_tools: bool = False
    sorts_arguments: bool = True
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse what planning does not know."""
        self._check("carrier", self.carrier, get_args(Carrier))
        self._check("system_slot", self.system_slot, get_args(SystemSlot))
        self._check("marker", self.marker, (None, *get_args(MarkerShape)))
        self._check("tool_changes", self.tool_changes, (None, *get_args(ToolChanges)))
        for ttl in self.ttls:
            self._check("ttls", ttl, get_args(Ttl))
        if self.max_breakpoints and self.marker is None:
            raise ProfileError(f"profile {self.name!r}: max_breakpoints needs a marker; set marker='cache_control'")

    def _check(self, field: str, value: object, known: tuple[object, ...]) -> None:
        if value not in known:
            words = ", ".join(repr(word) for word in known if word is not None)
            raise ProfileError(f"profile {self.name!r}: {field} has a value that is unknown; use one of {words}")
