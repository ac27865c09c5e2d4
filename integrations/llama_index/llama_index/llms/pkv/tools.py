"""`StateTools`: a tool retriever that sends the same tools always, while tools come, go, change and are switched off.

llm = StatefulLLM(OpenAI(model="gpt-5"), session, skills=registry)
agent = FunctionAgent(llm=llm, tool_retriever=StateTools(llm, [refund, cancel]))

The tools stand before everything else in a prompt, and a retriever that finds others for each question breaks the
cached prefix with each question. Here they are frozen when the conversation begins; what is true now is a field of the
state (`Tools`), told by updates like any other, and held when a tool is called.
"""

from __future__ import annotations

from typing import Any, cast

from llama_index.core.objects import ObjectRetriever
from llama_index.core.schema import QueryType
from llama_index.core.tools.types import BaseTool

from llama_index.llms.pkv._call_order import running_tool
from llama_index.llms.pkv._found_tools import FoundTools, Servers, ToolSource
from llama_index.llms.pkv._prefix import outside_of_a_step, step_context
from llama_index.llms.pkv._sessions import in_context, resolved
from llama_index.llms.pkv._shared import claim_field
from llama_index.llms.pkv._store import saved_in
from llama_index.llms.pkv._tool_book import Off, ToolBook
from llama_index.llms.pkv._waiting import leave
from llama_index.llms.pkv.skills import skill_tools
from llama_index.llms.pkv.stateful import StatefulLLM
from pkv_agents import AgentSession, SessionError


class StateTools(ObjectRetriever[BaseTool]):
    """A conversation's tools as state, for `tool_retriever=` of an agent.

    The state declares `tools: Tools = Tools()`.

    Args:
        llm: The agent's model. Where it has `skills=`, the tools that load them are among the tools.
        tools: The application's own tools: tools or functions; a function that returns those of now; or another
            retriever, whatever it finds once stays. Where that fails in a conversation that is under way, what is
            known stays.
        servers: Tools of others (MCP servers), by the name of the server. They are called `server__name`, and what
            they say of themselves is told as others' words.
        off: The names of tools that must not be called now, or a function of the state that returns them. While that
            function fails, nothing is called.
        bridge: Put a constant tool into the array that calls tools which came late. Without it a late tool goes into
            the array, which breaks the prefix and is reported.
        field: The path of the `Tools` field; each agent of an `AgentWorkflow` needs one of its own.

    Raises:
        SessionError: `llm` is no StatefulLLM, or the application owns the state.
        ToolError: There is something else among the tools, or `off` names what is none of them.
    """

    keeps_the_array = True
    """Of a retriever that says so there is no notice that its tools may change."""

    def __init__(
        self,
        llm: StatefulLLM,
        tools: ToolSource = (),
        *,
        servers: Servers | None = None,
        off: Off = (),
        bridge: bool = True,
        field: str = "tools",
    ) -> None:
        if not isinstance(llm, StatefulLLM):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise SessionError(f"llm: a StatefulLLM is needed, not a {type(llm).__name__}")
        if (held := in_context(llm.session)) is not None:
            held.check_ours()
        super().__init__(cast("Any", None), cast("Any", None))
        extra = skill_tools(llm) if llm.skills is not None else ()
        found = FoundTools(tools, servers if servers is not None else {}, extra)
        self._book = ToolBook(llm.session, found, off, bridge, field)

    def retrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The tools of a call that is made synchronously; the same ones always.

        Args:
            str_or_query_bundle: What is asked, for another retriever.
        """
        session = resolved(self._book.source, "await aretrieve(...)")
        return self._brought(session, self._book.tools.ask(str_or_query_bundle))

    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The tools of a call; the same ones always.

        Where an agent looks for the tool that was called, it is that tool alone.

        Args:
            str_or_query_bundle: What is asked, for another retriever.
        """
        if (name := running_tool()) and str_or_query_bundle == name:
            return self._book.called(await self._book.astate(), name)
        retrieved = await self._book.tools.aask(str_or_query_bundle)
        held, ctx = in_context(self._book.source), step_context()
        agent = str(await ctx.store.get("current_agent_name", default="") or "") if ctx is not None else ""
        if held is None:
            session = resolved(self._book.source)
            claim_field(session, self._book.field, agent, self)
            return self._brought(session, retrieved)
        if ctx is None:
            raise outside_of_a_step()
        claim_field(ctx.store, self._book.field, agent, self)
        state, begins = await held.get(ctx), agent not in (await saved_in(ctx.store))["ledgers"]
        found = self._book.found(state, retrieved, begins=begins)
        update = self._book.update(state, found, begins=begins)
        if update.patch:
            state = await held.update(ctx, lambda now: self._book.update(now, found, begins=begins).patch)
        leave(ctx.store, update)
        return self._book.array(state, found)

    def _brought(self, session: AgentSession[Any], retrieved: object) -> list[BaseTool]:
        begins = session.ledger is None
        found = self._book.found(session.state, retrieved, begins=begins)
        update = self._book.update(session.state, found, begins=begins)
        if update.patch:
            session.update(update.patch)
        leave(session, update)
        return self._book.array(session.state, found)


__all__ = ["StateTools"]
