"""Local Hugging Face models as chat models with a token-exact prefix cache (needs the extra `local`)."""

from __future__ import annotations

from pkv_agents.local.conversation import Conversation, Turn
from pkv_agents.local.edit_policy import REWRITE_HEAD
from pkv_agents.local.edit_probe import Probe, probe
from pkv_agents.local.edit_verdicts import EditVerdict, EditVerdicts
from pkv_agents.local.edit_way import EDIT_MODES
from pkv_agents.local.findings import Finding
from pkv_agents.local.head_lines import changed_runs
from pkv_agents.local.model import LocalModel
from pkv_agents.local.options import Delta, Done, GenerationOptions, OptionFields, Reply, StreamEvent
from pkv_agents.local.qualification import Check, Qualification
from pkv_agents.local.qualify import qualify
from pkv_agents.local.skills import PREAMBLE as SKILL_PREAMBLE
from pkv_agents.local.skills import SEAM as SKILL_SEAM
from pkv_agents.local.skills import find_skills
from pkv_agents.local.verdict import Reach, TemplateVerdict, notices_of, profile_of
from pkv_agents.local.verdicts import probe_template, remember_verdict

__all__ = [
    "Check",
    "Conversation",
    "Delta",
    "Done",
    "EDIT_MODES",
    "EditVerdict",
    "EditVerdicts",
    "Finding",
    "GenerationOptions",
    "LocalModel",
    "OptionFields",
    "Probe",
    "Qualification",
    "REWRITE_HEAD",
    "Reach",
    "Reply",
    "SKILL_PREAMBLE",
    "SKILL_SEAM",
    "StreamEvent",
    "TemplateVerdict",
    "Turn",
    "changed_runs",
    "find_skills",
    "notices_of",
    "probe",
    "probe_template",
    "profile_of",
    "qualify",
    "remember_verdict",
]
