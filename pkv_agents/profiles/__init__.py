"""Profiles: what one provider's cache and messages allow, as dated data in two layers.

Facts of a model's family (`_models`) and of the API that serves it (`_transports`) are merged by `profile_for`. A
profile is a sparse record: None means "not known", and planning is then cautious. Override one with
`dataclasses.replace(OPENAI, min_cacheable_tokens=2048)` or `profile_for(..., overrides={...})`. Numbers are from the
public documentation named in `source`, at `as_of`.
"""

from ._choose import minimum_notice, profile_for
from ._record import MarkerShape, Profile, SystemSlot, ToolChanges, Ttl
from ._transports import ANTHROPIC, ANTHROPIC_MID_SYSTEM, GENERIC, LOCAL, OPENAI, OPENAI_5_6

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_MID_SYSTEM",
    "GENERIC",
    "LOCAL",
    "MarkerShape",
    "OPENAI",
    "OPENAI_5_6",
    "Profile",
    "SystemSlot",
    "ToolChanges",
    "Ttl",
    "minimum_notice",
    "profile_for",
]
