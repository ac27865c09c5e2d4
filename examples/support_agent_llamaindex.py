"""The support agent, four ways, on LlamaIndex: the shop, the script and the report of `examples.support_agent`.

    python -m examples.support_agent_llamaindex --turns 3
    python -m examples.support_agent_llamaindex --model openai:gpt-5       # OPENAI_API_KEY

Hypothesis: what `StatefulLLM` keeps warm and what it decides does not depend on the framework around it. The same
cached share and the same decisions as on LangChain confirm it; other decisions in all arms alike would only mean that
LlamaIndex's agent writes the history differently (it adds the tool's words as an answer of the assistant's).

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
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from pydantic import BaseModel, ConfigDict, create_model
from rich.console import Console

from examples.support_agent.arms import ARMS, POLICY, TAG, Arm, head_text
from examples.support_agent.console import live, show
from examples.support_agent.models import EMBEDDED, Choice, choose_model
from examples.support_agent.report import write_report
from examples.support_agent.results import Decision, RunResult, TurnRow, with_agreement
from examples.support_agent.runner import expected_decision, versions
from examples.support_agent.scenario import TURNS, initial_state
from examples.support_agent.schema import Shop
from examples.support_agent.tools import EFFECTS
from examples.support_agent.training.rows import tools_block
from examples.support_agent.vocabulary import TOOL_DOCS, ToolDoc
from llama_index.llms.pkv import ContextSession, LocalLLM, ModelCall, StatefulLLM, StateMemory
from pkv_agents import ModelError, Notice, PkvError, Usage, diff, estimate_tokens, normalise_usage, snapshot

_HOSTED = "openai:"


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


class _Untitled(BaseModel):
    """Arguments without pydantic's titles, which say what the names say."""

    model_config = ConfigDict(json_schema_extra=_without_titles)


class ArmPlayer:
    """Plays the script through one agent.

    Args:
        llm: The model, for this arm alone.
        arm: How it is kept informed.
        count: Counts the tokens of a text.
        on_notice: Called with each notice of the library.
    """

    def __init__(
        self,
        llm: FunctionCallingLLM,
        arm: Arm,
        *,
        count: Callable[[str], int] = estimate_tokens,
        on_notice: Callable[[Notice], None] = lambda notice: None,
    ) -> None:
        self._arm: Arm = arm
        self._count = count
        self._planned: list[ModelCall] = []
        self._before: Shop | None = None
        instructions = POLICY if arm == "ours" else ""
        self.session = ContextSession(
            Shop, initial=initial_state(), instructions=instructions, tag=TAG, on_notice=on_notice
        )
        asked = StatefulLLM(llm, self.session, on_call=self._planned.append) if arm == "ours" else llm
        self.agent: Any = FunctionAgent(llm=asked, tools=[*shop_tools(self.session)], initial_tool_choice="required")
        self.context: Context[Any] = Context(self.agent)
        self._memory = StateMemory()

    async def play(self, number: int) -> TurnRow:
        """Play turn `number` of the script; turns come in order, from 1."""
        turn = TURNS[number - 1]
        self._planned.clear()
        shop = await self.session.update(self.context, turn.outside)
        if self._arm in ("rewrite", "rewrite_late") or (number == 1 and self._arm == "stale"):
            self.agent.system_prompt = head_text(shop, self._arm)
        started = time.perf_counter()
        handler = self.agent.run(turn.text, ctx=self.context, memory=self._memory)
        answers = [event async for event in handler.stream_events() if isinstance(event, AgentOutput)]
        seconds = time.perf_counter() - started
        await handler
        return self._row(number, shop, answers, seconds)

    def _row(self, number: int, shop: Shop, answers: list[AgentOutput], seconds: float) -> TurnRow:
        turn, first = TURNS[number - 1], answers[0]
        usage = sum((normalise_usage(answer.raw) for answer in answers), Usage())
        raw = cast("dict[str, Any]", first.raw or {})
        errata = [call.plan.erratum.text for call in self._planned if call.plan.erratum]
        calls = [(call.tool_name, dict(call.tool_kwargs)) for call in first.tool_calls]
        decision = Decision(*calls[0]) if len(calls) == 1 else Decision(" + ".join(name for name, _ in calls), {})
        expected = expected_decision(shop, turn)
        changes = (
            ()
            if self._before is None
            else diff(snapshot(self._before).without_volatile(), snapshot(shop).without_volatile())
        )
        self._before = shop
        return TurnRow(
            turn=number,
            arm=self._arm,
            request=turn.text,
            outside=dict(turn.outside),
            changed={change.path: change.text for change in changes},
            erratum="\n".join(errata) or None,
            appended_tokens=sum(map(self._count, errata)),
            prompt_tokens=usage.input,
            cached_tokens=usage.cache_read,
            output_tokens=usage.output,
            ttft_s=raw.get("ttft_s"),
            total_s=raw.get("total_s", seconds),
            reason=first.response.content or "",
            decision=decision,
            expected=expected,
            policy_correct=decision == expected,
        )


async def play(
    llm_for: Callable[[Arm], FunctionCallingLLM],
    name: str,
    *,
    arms: list[Arm],
    turns: int,
    count: Callable[[str], int] = estimate_tokens,
    counts_exactly: bool = False,
    ttft: str = "call",
    on_turn: Callable[[Arm, TurnRow | None], None] = lambda arm, row: None,
) -> RunResult:
    """Play the conversation in each arm.

    Args:
        llm_for: Gives the model for one arm, with an empty cache.
        name: What reports call the model.
        arms: Which arms, in which order.
        turns: How many turns of the script.
        count: Counts the tokens of a text.
        counts_exactly: `count` is the model's own tokenizer and no estimate.
        ttft: Where the time to the first token comes from.
        on_turn: Called with None when an arm begins and with each turn's row.
    """
    started, clock = datetime.now().astimezone(), time.perf_counter()
    rows: list[TurnRow] = []
    notices: list[Notice] = []
    for arm in arms:
        on_turn(arm, None)
        player = ArmPlayer(llm_for(arm), arm, count=count, on_notice=notices.append)
        for number in range(1, turns + 1):
            rows.append(await player.play(number))
            on_turn(arm, rows[-1])
    return RunResult(
        model=f"{name}, on LlamaIndex",
        adapter=None,
        ttft_source=ttft,
        head_tokens=count(f"{tools_block()}\n\n{head_text(initial_state(), 'rewrite_late')}"),
        tokens_are_estimates=not counts_exactly,
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - clock,
        versions=versions(),
        arms=tuple(arms),
        rows=with_agreement(rows),
        notices=tuple(str(notice) for notice in notices),
    )


def local_llm(choice: Choice, arm: Arm) -> LocalLLM:
    """A local model of the other example's as LlamaIndex's."""
    chat = cast("Any", choice.for_arm(arm))
    return LocalLLM(local=chat.local, max_tokens=chat.max_tokens, preface=chat.preface, salt=chat.salt)


def _hosted_llm(name: str) -> FunctionCallingLLM:
    from llama_index.llms.openai import OpenAI

    return OpenAI(model=name, additional_kwargs={"stream_options": {"include_usage": True}})


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def main(
    model: Annotated[str, typer.Option(help="embedded, a path or hub id, or openai:NAME.")] = EMBEDDED,
    turns: Annotated[int, typer.Option(min=1, max=len(TURNS), help="How many turns to play.")] = len(TURNS),
    arms: Annotated[str, typer.Option(help="Which arms.")] = ",".join(ARMS),
    html: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("build/support_agent_llamaindex.html"),
    plots: Annotated[bool, typer.Option(help="Draw plots into the report.")] = True,
) -> None:
    """Play the scripted conversation with a LlamaIndex agent, four ways, and report what was cached and decided."""
    errors, chosen = Console(stderr=True), [arm for arm in ARMS if arm in arms.split(",")]
    if not chosen:
        raise typer.BadParameter(f"there are {', '.join(ARMS)}", param_hint="--arms")
    try:
        options: dict[str, Any] = {"arms": chosen, "turns": turns}
        if model.startswith(_HOSTED):
            llm = _hosted_llm(model.removeprefix(_HOSTED))
            result = asyncio.run(play(lambda arm: llm, model, **options))
        else:
            with errors.status("loading the model"):
                choice = choose_model(model)
            if choice.ttft != "engine":
                raise ModelError(f"model: {model!r} is none that this example knows; see --help")
            options |= {"count": choice.count, "counts_exactly": choice.counts_exactly, "ttft": choice.ttft}
            with live(errors, turns) as on_turn:
                llms = play(lambda arm: local_llm(choice, arm), choice.name, on_turn=on_turn, **options)
                result = asyncio.run(llms)
        write_report(result, html=html, json_file=html.with_suffix(".json"), plots=plots)
    except PkvError as error:
        errors.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    show(Console(), result)


if __name__ == "__main__":
    sys.exit(app())
