"""The tools by which a model loads skills and reads their files, for any agent of LlamaIndex.

llm = StatefulLLM(OpenAI(model="gpt-5"), session, skills=registry)
agent = FunctionAgent(llm=llm, tools=[*skill_tools(llm), refund])
"""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

from typing import Any

from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from llama_index.llms.pkv._context import ContextSession
from llama_index.llms.pkv._sessions import SessionSource, in_context, resolved
from llama_index.llms.pkv._skills import SkillSource, aanswered, answered
from llama_index.llms.pkv._specs import SpecMetadata
from llama_index.llms.pkv.stateful import StatefulLLM
from pkv_agents import LOAD_SKILL, READ_SKILL_FILE, SessionError, SkillError, ToolSpec, canonical_tool


def skill_tools(llm: StatefulLLM) -> list[FunctionTool]:
    """The tools `load_skill` and `read_skill_file`; they are the same bytes whatever skills there are.

    A loaded skill's text follows in the next update of the state. What cannot be loaded or read (an unknown name, no
    room in the budget, a path outside of the skill's folder) is a tool error in words, which the model reads.

    Args:
        llm: The model, with `skills=`.

    Returns:
        Both tools. With a `ContextSession` they run inside a workflow alone.

    Raises:
        SkillError: The model has no skills.
        SessionError: It is no `StatefulLLM`, or the application owns the state, so a load could not be recorded there.
    """
    if not isinstance(llm, StatefulLLM):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise SessionError(f"llm: a StatefulLLM is needed, not a {type(llm).__name__}")
    skills = llm.skills
    if skills is None:
        raise SkillError("this StatefulLLM has no skills: StatefulLLM(llm, session, skills=registry)")
    held = in_context(llm.session)
    if held is not None:
        held.check_ours()
    return [_tool(spec, llm.session, held, skills) for spec in (LOAD_SKILL, READ_SKILL_FILE)]


def _tool(spec: ToolSpec, source: SessionSource, held: ContextSession[Any] | None, skills: SkillSource) -> FunctionTool:
    metadata = SpecMetadata.of(canonical_tool(spec))
    if held is not None:

        async def in_context(ctx: Context, **arguments: Any) -> str:
            return await aanswered(held, ctx, skills, spec.name, arguments)

        return FunctionTool(async_fn=in_context, metadata=metadata)

    def run(**arguments: Any) -> str:
        return answered(resolved(source), skills, spec.name, arguments)

    async def arun(**arguments: Any) -> str:
        return run(**arguments)

    return FunctionTool(fn=run, async_fn=arun, metadata=metadata)


__all__ = ["skill_tools"]
