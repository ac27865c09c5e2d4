"""The support agent, four ways, on LlamaIndex: the shop, the script and the report of `examples.support_agent`.

    make example ARGS="--framework llama_index --turns 3"
    python -m examples.support_agent_llamaindex --turns 3        # the same

Hypothesis: what is kept warm and what is decided does not depend on the framework around the model. The same requests
as LangChain's agent makes, token for token, and so the same decisions, confirm it.

Each arm is one `FunctionAgent` with a workflow context of its own, whose store holds the shop's state. Tools change it
there and end the turn with their words (`return_direct`). The arms differ in how the model hears of a change:

    rewrite       the system prompt is rendered afresh each turn, the state near its top
    rewrite_late  the same, the state at its end: the oracle for decisions
    ours          `StatefulLLM` with a `ContextSession`: the head stays, what changed is told after the newest message
    stale         the system prompt is rendered once
"""

# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from llama_index.core.agent.workflow import AgentInput, AgentOutput, AgentStream, FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.core.workflow.errors import WorkflowRuntimeError  # pyright: ignore[reportPrivateImportUsage]
from pydantic import BaseModel, ConfigDict, create_model

from examples.support_agent import __main__ as program
from examples.support_agent.arms import TAG, Arm, head_text
from examples.support_agent.models import Choice, foreign_errors
from examples.support_agent.results import RunResult, TurnRow
from examples.support_agent.runner import asks_for_skills, is_loading
from examples.support_agent.runner import run as run_with
from examples.support_agent.scenario import TURNS
from examples.support_agent.schema import Shop, SkilledShop
from examples.support_agent.script import POLICY_SCRIPT, Script
from examples.support_agent.tools import EFFECTS
from examples.support_agent.turns import turn_row
from examples.support_agent.vocabulary import TOOL_DOCS, ToolDoc
from llama_index.llms.pkv import ContextSession, ModelCall, StatefulLLM, StateMemory
from pkv_agents import LOAD_SKILL, ModelError, Notice, SkillRegistry, Usage, answer_skill_call, normalise_usage

_STEPS = 4
"""The most model calls of one turn; a turn that goes well has one."""


def shop_tools(session: ContextSession[Shop]) -> list[FunctionTool]:
    """The shop's tools over a context's state, sorted by name: their order is part of the prompt's head."""
    return [_tool(doc, session) for doc in sorted(TOOL_DOCS, key=lambda doc: doc.name)]


def _tool(doc: ToolDoc, session: ContextSession[Shop]) -> FunctionTool:
    async def run(ctx: Context[Any], order_id: str, town: str = "") -> str:
        shop = await session.get(ctx)
        if all(order.id != order_id for order in shop.orders):
            return f"There is no order {order_id}."
        await session.update(ctx, EFFECTS[doc.name](shop, order_id))
        return doc.reply.format(order_id=order_id, town=town)

    arguments: dict[str, Any] = dict.fromkeys(doc.arguments, (str, ...))
    schema = create_model(doc.name, __base__=_Untitled, **arguments)
    return FunctionTool.from_defaults(
        async_fn=run, name=doc.name, description=doc.description, fn_schema=schema, return_direct=True
    )


def _without_titles(schema: dict[str, Any]) -> None:
    for entry in schema["properties"].values():
        entry.pop("title", None)


def skill_tool(session: ContextSession[Shop], registry: Callable[[], SkillRegistry]) -> FunctionTool:
    """The tool with which a model loads a skill; its text follows with the next request, so it asks again."""

    async def load(ctx: Context[Any], name: str) -> str:
        shop = await session.get(ctx)
        assert isinstance(shop, SkilledShop), "an agent with this tool has skills"
        answer = answer_skill_call(registry(), LOAD_SKILL.name, {"name": name}, shop.skills)
        assert answer is not None, "the call is one of ours"
        await session.update(ctx, answer.patch)
        return answer.text

    schema: Any = create_model(LOAD_SKILL.name, __base__=_Untitled, name=(str, ...))
    return FunctionTool.from_defaults(
        async_fn=load, name=LOAD_SKILL.name, description=LOAD_SKILL.description, fn_schema=schema
    )


class _Untitled(BaseModel):
    """Arguments without pydantic's titles, which say what the names say."""

    model_config = ConfigDict(json_schema_extra=_without_titles)


class Timer:
    """Watches a run's events: the answers, and the times of the first model call."""

    def __init__(self) -> None:
        self.answers: list[AgentOutput] = []
        self.seconds = 0.0
        self.first_token: float | None = None
        self._started = time.perf_counter()

    def read(self, event: object) -> None:
        """An event passes."""
        if self.answers and not isinstance(event, AgentOutput):
            return
        now = time.perf_counter()
        if isinstance(event, AgentInput):
            self._started = now
        elif isinstance(event, AgentStream) and (event.delta or event.tool_calls) and self.first_token is None:
            self.first_token = now - self._started
        elif isinstance(event, AgentOutput):
            self.seconds = self.seconds or now - self._started
            self.answers.append(event)


class ArmPlayer:
    """Plays the script through one agent.

    Args:
        choice: The model.
        arm: How it is kept informed.
        tag: The tag of the state blocks.
        on_notice: Called with each notice of the library.
        loop: Runs the agent; the clients of hosted models stay on the loop that they began on.
        script: What is played.
    """

    def __init__(
        self,
        choice: Choice,
        arm: Arm,
        *,
        loop: asyncio.Runner,
        tag: str = TAG,
        on_notice: Callable[[Notice], None] = lambda notice: None,
        script: Script = POLICY_SCRIPT,
    ) -> None:
        self._choice = choice
        self._script = script
        self._asks = asks_for_skills(choice, script)
        self._number = 1
        self._arm: Arm = arm
        self._tag = tag
        self._loop = loop
        self._planned: list[ModelCall] = []
        self._before: Shop | None = None
        instructions, initial = script.instructions if arm == "ours" else "", script.initial()
        self.session: ContextSession[Shop] = ContextSession(
            type(initial), initial=initial, instructions=instructions, tag=tag, on_notice=on_notice
        )
        llm = choice.for_arm(arm)
        asked = StatefulLLM(llm, self.session, on_call=self._planned.append) if arm == "ours" else llm
        tools = shop_tools(self.session)
        if self._asks:
            tools.append(skill_tool(self.session, lambda: script.registry(self._number)))
        self.agent: Any = FunctionAgent(llm=asked, tools=[*tools], initial_tool_choice="required")
        self.context: Context[Any] = Context(self.agent)

    def play(self, number: int) -> TurnRow:
        """Play turn `number` of the script; turns come in order, from 1."""
        with foreign_errors():
            return self._loop.run(self._play(number))

    async def _play(self, number: int) -> TurnRow:
        turn, script = TURNS[number - 1], self._script
        self._number = number
        self._planned.clear()
        before = self._before or script.initial()
        patch = script.news(number, before, loads=not self._asks)
        shop = await self.session.update(self.context, patch)
        if self._arm in ("rewrite", "rewrite_late") or (number == 1 and self._arm == "stale"):
            self.agent.system_prompt = head_text(shop, self._arm, self._tag, instructions=script.instructions)
        timer = Timer()
        handler = self.agent.run(turn.text, ctx=self.context, memory=StateMemory(), max_iterations=_STEPS)
        async for event in handler.stream_events():
            timer.read(event)
        try:
            await handler
        except WorkflowRuntimeError as error:
            raise ModelError(f"turn {number}: the model called no tool that the shop has, again and again") from error
        await self._say_once()
        if self._asks:  # what the model loaded before it decided is part of the state in which it decided
            shop = shop.model_copy(update={"skills": getattr(await self.session.get(self.context), "skills", None)})
        return self._row(number, shop, timer, script.shown(patch, before))

    async def _say_once(self) -> None:
        """A tool's words end the turn, and the agent adds them again, as an answer of the model's: they are not."""
        memory = cast("StateMemory", await self.context.store.get("memory"))
        kept = memory.get_all()
        if kept[-1].role == "assistant" and kept[-2].role == "tool" and kept[-1].content == kept[-2].content:
            memory.set(kept[:-1])
            await self.context.store.set("memory", memory)

    def _row(self, number: int, shop: Shop, timer: Timer, outside: Mapping[str, str]) -> TurnRow:
        answers, before = timer.answers, self._before
        first = next((one for one in answers if not is_loading(call.tool_name for call in one.tool_calls)), answers[0])
        self._before = shop
        return turn_row(
            TURNS[number - 1],
            number=number,
            arm=self._arm,
            outside=outside,
            shop=shop,
            before=before,
            errata=[call.plan.erratum.text for call in self._planned if call.plan.erratum],
            count=self._choice.count,
            usage=sum((normalise_usage(answer.raw) for answer in timer.answers), Usage()),
            ttft_s=self._ttft(timer),
            total_s=timer.seconds,
            reason=first.response.content or "",
            calls=[(call.tool_name, call.tool_kwargs) for call in first.tool_calls],
        )

    def _ttft(self, timer: Timer) -> float | None:
        """The engine's clock starts when it is called; what was spent on the request before counts, too."""
        if self._choice.ttft == "engine":
            raw = cast("dict[str, Any]", timer.answers[0].raw or {})
            return timer.seconds - raw["total_s"] + raw["ttft_s"] if "ttft_s" in raw else None
        return timer.first_token if self._choice.ttft == "stream" else timer.seconds


def run(choice: Choice, **options: Any) -> RunResult:
    """Play the conversation in each arm, as `examples.support_agent.runner.run` does.

    Args:
        choice: The model, LlamaIndex's.
        **options: What that one takes: arms, turns, tag, on_turn.
    """
    with asyncio.Runner() as loop:
        return run_with(choice, player=partial(ArmPlayer, loop=loop), framework="LlamaIndex", **options)


if __name__ == "__main__":
    sys.exit(program.app(["--framework", "llama_index", *sys.argv[1:]]))
