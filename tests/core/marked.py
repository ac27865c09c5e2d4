"""Messages with cache markers, and what to ask of them."""

from __future__ import annotations

from pkv_agents import ANTHROPIC, BreakpointPlan, Message, Profile, Ttl, plan_breakpoints, profile_for

HEAD = Message("system", "policy " * 50)


BEDROCK = profile_for("bedrock", "anthropic.claude-opus-4-8-v1:0")[0]


MARKED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}


HOUR = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}


PLAIN = {"type": "text", "text": "x"}


def places(messages: list[Message], profile: Profile = ANTHROPIC) -> list[tuple[int, int, str]]:
    return [(one.message, one.part, one.why) for one in plan_breakpoints(messages, profile).breakpoints]


def lifetimes(planned: BreakpointPlan) -> list[tuple[str, Ttl]]:
    return [(one.why, one.ttl) for one in planned.breakpoints]


def codes(planned: BreakpointPlan) -> list[str]:
    return [notice.code for notice in planned.notices]


def in_all(message: Message) -> int:
    """How many markers a message carries, of any shape."""
    parts = [] if isinstance(message.content, str) else message.content
    return sum(key in part for part in parts for key in ("cache_control", "prompt_cache_breakpoint", "cachePoint"))
