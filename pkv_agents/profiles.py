"""Profiles: what one provider's cache and messages allow, as dated data.

A profile is a sparse record: None means "not known", and planning is then cautious. Override one with
`dataclasses.replace(OPENAI, min_cacheable_tokens=2048)`. Numbers are from the providers' public documentation at
`as_of`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from .errors import ProfileError
from .ledger import Carrier
from .notices import Notice


@dataclass(frozen=True, slots=True)
class Profile:
    """What one provider's cache and messages allow.

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
        implicit_breakpoint: The end of each request is a marker by itself.
        ttl_seconds: How long an unused prefix is kept.
        read_multiplier: Price of a cached input token, in input tokens.
        write_multiplier: Price of writing one.
        as_of: When the numbers were true.
    """

    name: str
    carrier: Carrier = "user_suffix"
    system_slot: Literal["anywhere", "before_assistant"] = "anywhere"
    min_cacheable_tokens: int | None = None
    block_tokens: int | None = None
    max_breakpoints: int | None = None
    lookback_blocks: int | None = None
    implicit_breakpoint: bool = False
    ttl_seconds: int | None = None
    read_multiplier: float | None = None
    write_multiplier: float | None = None
    cold_after_seconds: int | None = None
    holds_history: bool = False
    sorts_arguments: bool = True
    as_of: str = ""

    def __post_init__(self) -> None:
        """Refuse a carrier or a slot that planning does not know."""
        if self.carrier not in ("system", "user_suffix"):
            raise ProfileError(
                f"profile {self.name!r}: unknown carrier {self.carrier!r}; use 'system' or 'user_suffix'"
            )
        if self.system_slot not in ("anywhere", "before_assistant"):
            raise ProfileError(
                f"profile {self.name!r}: unknown system_slot {self.system_slot!r}; use 'anywhere' or 'before_assistant'"
            )


_AS_OF = "2026-11"

GENERIC = Profile("generic", as_of=_AS_OF)
LOCAL = Profile("local", block_tokens=1, min_cacheable_tokens=1, read_multiplier=0.0, as_of=_AS_OF)
OPENAI = Profile(
    "openai",
    carrier="system",
    min_cacheable_tokens=1024,
    block_tokens=128,
    max_breakpoints=0,
    ttl_seconds=300,
    read_multiplier=0.1,
    write_multiplier=1.0,
    as_of=_AS_OF,
)
OPENAI_5_6 = replace(
    OPENAI,
    name="openai-5.6",
    block_tokens=None,
    max_breakpoints=4,
    lookback_blocks=80,
    implicit_breakpoint=True,
    ttl_seconds=1800,
    write_multiplier=1.25,
)
ANTHROPIC = Profile(
    "anthropic",
    max_breakpoints=4,
    lookback_blocks=20,
    ttl_seconds=300,
    read_multiplier=0.1,
    write_multiplier=1.25,
    as_of=_AS_OF,
)
ANTHROPIC_MID_SYSTEM = replace(ANTHROPIC, name="anthropic-mid-system", carrier="system", system_slot="before_assistant")

# Families in order; the first that matches counts. A trailing date or `-latest` does not matter.
_ANTHROPIC_MODELS: tuple[tuple[str, Profile], ...] = (
    (r"(opus|fable|mythos)-5", replace(ANTHROPIC_MID_SYSTEM, min_cacheable_tokens=512)),
    (r"opus-4-8", replace(ANTHROPIC_MID_SYSTEM, min_cacheable_tokens=1024)),
    (r"(sonnet|haiku)-5-5", replace(ANTHROPIC_MID_SYSTEM, min_cacheable_tokens=1024)),
    (r"sonnet-(5|4)", replace(ANTHROPIC, min_cacheable_tokens=1024)),
    (r"haiku-4-5|opus-4-[56]", replace(ANTHROPIC, min_cacheable_tokens=4096)),
)
_OPENAI_5_6 = re.compile(r"gpt-(5\.(?:[6-9]|\d\d)|[6-9]|\d\d)")
# Not gpt-oss: open weights behind somebody's server, whose template drops a late system message.
_OPENAI_MODELS = re.compile(r"gpt-\d|o\d|chatgpt-|ft:")
_SERVERS = {
    "vllm": replace(GENERIC, name="vllm", block_tokens=16),
    "sglang": replace(GENERIC, name="sglang", block_tokens=1),
    "llama.cpp": replace(GENERIC, name="llama.cpp", block_tokens=1),
    "local": LOCAL,
}


def profile_for(provider: str, model: str = "") -> tuple[Profile, tuple[Notice, ...]]:
    """Choose the profile of a model.

    Args:
        provider: `openai`, `azure`, `anthropic`, `vllm`, `sglang`, `llama.cpp`, `local`, or anything else.
        model: The model's name as the provider spells it.

    Returns:
        The profile, and a notice when the model is not known and the cautious profile is used instead.
    """
    name = model.lower().rpartition("/")[2]
    match provider.lower():
        case "openai" | "azure" | "azure_openai" if _OPENAI_MODELS.match(name):
            return (OPENAI_5_6 if _OPENAI_5_6.match(name) else OPENAI), ()
        case "anthropic":
            for family, profile in _ANTHROPIC_MODELS:
                if re.search(rf"claude-(?:{family})(?![\d])", name):
                    return profile, ()
            return ANTHROPIC, (_unknown(provider, model, ANTHROPIC),)
        case other if other in _SERVERS:
            return _SERVERS[other], ()
        case _:
            return GENERIC, (_unknown(provider, model, GENERIC),)


def _unknown(provider: str, model: str, used: Profile) -> Notice:
    return Notice(
        "unknown_model",
        path=f"{provider}/{model}" if model else provider,
        cost="errata ride on user messages; cached shares cannot be predicted",
        mend="pass profile=..., for instance dataclasses.replace(GENERIC, carrier='system')",
        message=f"no profile is known for this model, the cautious profile {used.name!r} is used",
    )
