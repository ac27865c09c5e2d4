"""Skills and tools of a conversation, as state: loaded, changed and retired without moving what was sent."""

from ._asking import LOAD_SKILL, READ_SKILL_FILE, SkillAnswer, answer_skill_call
from ._calls import CallDecision, allowed_tools, decide_call, native_tool_blocks
from ._from_code import skill_from_tools, tool_from
from ._load import load_skill_folder, load_skills, read_resource
from ._mcp import McpTools, fetch_mcp_tools, list_mcp_tools
from ._openapi import tools_from_openapi
from ._registry import SkillRegistry
from ._skill import Skill
from ._state import OutsideText, Skills
from ._tools_plan import ToolsUpdate, qualified, start_tools, update_tools
from ._tools_state import BRIDGE, Tools

__all__ = [
    "BRIDGE",
    "CallDecision",
    "LOAD_SKILL",
    "McpTools",
    "OutsideText",
    "READ_SKILL_FILE",
    "Skill",
    "SkillAnswer",
    "SkillRegistry",
    "Skills",
    "Tools",
    "ToolsUpdate",
    "allowed_tools",
    "answer_skill_call",
    "decide_call",
    "fetch_mcp_tools",
    "list_mcp_tools",
    "load_skill_folder",
    "load_skills",
    "native_tool_blocks",
    "qualified",
    "read_resource",
    "skill_from_tools",
    "start_tools",
    "tool_from",
    "tools_from_openapi",
    "update_tools",
]
