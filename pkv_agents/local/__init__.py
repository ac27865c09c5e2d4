"""Local Hugging Face models as chat models with a token-exact prefix cache (needs the extra `local`)."""

from __future__ import annotations

from pkv_agents.local.findings import Finding
from pkv_agents.local.model import LocalModel
from pkv_agents.local.options import Delta, Done, GenerationOptions, OptionFields, Reply, StreamEvent
from pkv_agents.local.verdict import Reach, TemplateVerdict, notices_of, profile_of
from pkv_agents.local.verdicts import probe_template, remember_verdict

__all__ = [
    "Delta",
    "Done",
    "Finding",
    "GenerationOptions",
    "LocalModel",
    "OptionFields",
    "Reach",
    "Reply",
    "StreamEvent",
    "TemplateVerdict",
    "notices_of",
    "probe_template",
    "profile_of",
    "remember_verdict",
]
