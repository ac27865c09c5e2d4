"""Agents of the tests: their session, a tool that changes the state, and a context whose memory is saved with it."""

from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.workflow import Context

from llama_index.llms.pkv import ContextSession, StatefulLLM, StateMemory
from tests.llama_index.providers import Provider, openai_llm, tool
from tests.llama_index.support import TAG, Shop, a_shop


def the_session(**options: Any) -> ContextSession[Shop]:
    given: Any = {"instructions": "You help.", "tag": TAG, **options}
    return ContextSession(Shop, initial=a_shop(), **given)


def cancelling(session: ContextSession[Shop]) -> Any:
    async def cancel(ctx: Context[Any], order_id: str) -> str:
        """Cancel an order."""
        await session.update(ctx, {f"orders[{order_id}].status": "cancelled"})
        return "cancelled"

    return tool(cancel)


def an_agent(script: Any, session: Any = None, *, tools: Any = (), **options: Any) -> tuple[Any, Provider]:
    inner, provider = openai_llm(script=script)
    llm = StatefulLLM(inner, session if session is not None else the_session())
    return FunctionAgent(llm=llm, tools=list(tools), **options), provider


async def a_context(agent: Any) -> Context[Any]:
    """A context whose memory is saved with it, which LlamaIndex does between any two runs."""
    ctx: Context[Any] = Context(agent)
    await ctx.store.set("memory", StateMemory())
    return ctx
