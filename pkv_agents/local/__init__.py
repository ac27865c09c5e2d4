"""Local Hugging Face models as chat models with a token-exact prefix cache (needs the extra `local`)."""

from __future__ import annotations

from pkv_agents.local.model import LocalModel
from pkv_agents.local.options import Delta, Done, GenerationOptions, OptionFields, Reply, StreamEvent
from pkv_agents.local.turns import TemplateVerdict

__all__ = [
    "Delta",
    "Done",
    "GenerationOptions",
    "LocalModel",
    "OptionFields",
    "Reply",
    "StreamEvent",
    "TemplateVerdict",
]
