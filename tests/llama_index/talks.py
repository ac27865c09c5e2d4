"""One conversation through each kind of agent and engine that LlamaIndex has, over mock transports."""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.workflow import Context

from llama_index.llms.pkv import ContextSession, StatefulLLM, StateMemory
from pkv_agents import AgentSession, Notice, TrackedState
from tests.llama_index.providers import call, openai_llm, tool
from tests.llama_index.support import TAG, a_shop, assert_append_only, errata_in

KINDS = ("function", "react", "workflow", "engine")
WITH_TOOLS = KINDS[:3]
every_kind = pytest.mark.parametrize("kind", KINDS)
with_tools = pytest.mark.parametrize("kind", WITH_TOOLS)


class Talk:
    """A conversation.

    Args:
        kind: `function` (FunctionAgent), `react` (ReActAgent), `workflow` (AgentWorkflow), `engine` (SimpleChatEngine).
        state: The state at the start.
        make: Makes the inner model and its provider.
        tools: What tools the agent has, made for the session; the engine has none.
        **options: Of the session.
    """

    def __init__(
        self,
        kind: str,
        state: TrackedState | None = None,
        *,
        make: Any = openai_llm,
        tools: Callable[[Any], Sequence[Any]] = lambda session: (),
        **options: Any,
    ) -> None:
        self.kind = kind
        self.notices: list[Notice] = []
        self.inner, self.provider = make()
        state = state if state is not None else a_shop()
        given: Any = {"instructions": "You help.", "tag": TAG, "on_notice": self.notices.append, **options}
        self.session: Any
        self.ctx: Any = None
        if kind == "engine":
            self.session = AgentSession(state, key="k", **given)
            llm = StatefulLLM(self.inner, self.session)
            self.runs: Any = SimpleChatEngine.from_defaults(llm=llm, memory=StateMemory())
            return
        self.session = ContextSession(type(state), initial=state, **given)
        llm = StatefulLLM(self.inner, self.session)
        made: Any = ReActAgent if kind == "react" else FunctionAgent
        agent = made(name="one", description="one", llm=llm, tools=[*tools(self.session)])
        self.runs = AgentWorkflow(agents=[agent], root_agent="one") if kind == "workflow" else agent
        self.ctx = Context(self.runs)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What went out."""
        return self.provider.bodies

    async def say(self, text: str, *steps: Any) -> str:
        """One turn: the model does these steps (lists of calls, statuses, texts), and answers "ok" at its end."""
        self.provider.script[:] = [self._step(step) for step in (*steps, "ok")]
        if self.kind == "engine":
            return str(await self.runs.achat(text))
        return str(await self.runs.run(text, ctx=self.ctx, memory=StateMemory()))

    def _step(self, step: Any) -> Any:
        if self.kind != "react" or not isinstance(step, str | list):
            return step
        if isinstance(step, str):
            return f"Thought: I can answer without using any more tools.\nAnswer: {step}"
        (one,) = step  # it asks for one tool at a time, in words
        return f"Thought: I need a tool.\nAction: {one['name']}\nAction Input: {_json(one['args'])}"

    async def change(self, **patch: object) -> None:
        """Change fields; a path of several parts is written with `__` for the dot."""
        await self.patch({name.replace("__", "."): value for name, value in patch.items()})

    async def patch(self, patch: dict[str, object]) -> None:
        """Change the state by paths."""
        if self.kind == "engine":
            self.session.update(patch)
        else:
            await self.session.update(self.ctx, patch)

    @property
    def errata(self) -> list[str]:
        """All errata of the newest request."""
        return errata_in(self.bodies[-1])

    def codes(self) -> list[str]:
        """The notices that are no advice."""
        return [notice.code for notice in self.notices if not notice.is_advice]

    def assert_append_only(self) -> None:
        """Of all requests."""
        assert_append_only(self.bodies)


def changing(session: Any, name: str, patch: dict[str, object], result: str = "done") -> Any:
    """A tool that changes the state."""

    async def change(ctx: Context[Any]) -> str:
        await session.update(ctx, patch)
        return result

    return tool(change, name=name, description=name)


def one_call(name: str, call_id: str, /, **arguments: Any) -> list[dict[str, Any]]:
    """A step with one call."""
    return [call(name, call_id, **arguments)]


def roles(body: dict[str, Any]) -> list[str]:
    """Who speaks, in order."""
    return [message["role"] for message in body["messages"]]


def texts(body: dict[str, Any]) -> list[str]:
    """What is said, in order."""
    return [message["content"] or "" for message in body["messages"]]


def _json(value: object) -> str:
    return json.dumps(value)
