"""LlamaIndex's part of the integration benchmark: `FunctionAgent`s over mock transports, contexts as JSON.

The clients are the real ones; what is recorded are the bytes that each would have sent. The other arms have the same
agent, tools and memory, and a `system_prompt` that is written anew. LlamaIndex's agents set no cache markers, so for
Anthropic and Bedrock the other arms are given one behind the end of each request, which is more than they would have.

A fork is a context made from what an earlier moment's `Context.to_dict` gave, and so is the resume. A run that failed
is taken up with the messages that its memory holds.
"""
# No `from __future__ import annotations`: LlamaIndex looks for the tools' context by its annotation.

import asyncio
import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from benchmarks._integration import (
    FORK_AT,
    FORK_FROM,
    RESUME_AT,
    Arm,
    Call,
    Capture,
    Part,
    Simulated,
    Trip,
    Turn,
    make_trip,
    new_shop,
    patch_of,
)
from benchmarks._shop import Large
from llama_index.llms.pkv import ContextSession, ModelCall, StatefulLLM, StateMemory
from pkv_agents import apply_patch, profile_for
from tests.llama_index.providers import Provider, like_llm, openai_llm, responses_llm

_SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"
Made = Callable[[pytest.MonkeyPatch], tuple[Any, Provider]]


def _anthropic(name: str) -> Made:
    from tests.llama_index.more_providers import anthropic_llm

    return lambda patch: anthropic_llm(patch, name)


def _other(kind: str) -> Made:
    from tests.llama_index import more_providers

    return lambda patch: getattr(more_providers, f"{kind}_llm")()


_MODELS: dict[str, tuple[Callable[[], Made], tuple[str, str], str]] = {
    "openai chat gpt-5.1": (lambda: lambda _: openai_llm("gpt-5.1"), ("openai", "gpt-5.1"), "openai"),
    "openai chat gpt-4.1": (lambda: lambda _: openai_llm("gpt-4.1"), ("openai", "gpt-4.1"), "openai"),
    "openai responses gpt-5.1": (lambda: lambda _: responses_llm("gpt-5.1"), ("openai", "gpt-5.1"), "openai"),
    "anthropic opus 4.8": (
        lambda: _anthropic("claude-opus-4-8"),
        ("anthropic", "claude-opus-4-8"),
        "anthropic",
    ),
    "bedrock sonnet 4.5": (lambda: _other("bedrock"), ("bedrock", _SONNET), "bedrock_converse"),
    "gemini 2.5 flash": (lambda: _other("genai"), ("gemini", "gemini-2.5-flash"), "google_genai"),
    "ollama": (lambda: _other("ollama"), ("ollama", ""), "ollama"),
    "vllm by OpenAILike": (lambda: lambda _: like_llm(), ("vllm", ""), "openai_like"),
    "llama.cpp by OpenAILike": (lambda: lambda _: like_llm(), ("llama.cpp", ""), "openai_like"),
}


def models() -> dict[str, Simulated]:
    """The models whose packages are installed."""
    found: dict[str, Simulated] = {}
    for name, (_, known_as, package) in _MODELS.items():
        if importlib.util.find_spec(f"llama_index.llms.{package}") is not None:
            profile, _ = profile_for(*known_as)
            found[name] = Simulated(profile, 1 if known_as[0] in ("llama.cpp", "ollama") else None)
    return found


def converse(name: str, arm: Arm, part: Part, folder: Path) -> list[Capture]:
    """Drive an agent through (a part of) the conversation; see `_integration.Framework`."""
    file = folder / f"{name}.json".replace("/", "-")
    with pytest.MonkeyPatch.context() as patch:
        llm, provider = _MODELS[name][0]()(patch)
        return asyncio.run(_Drive(llm, provider, make_trip(), arm).run(part, file))


class _Drive:
    """One agent on its way."""

    def __init__(self, llm: Any, provider: Provider, trip: Trip, arm: Arm) -> None:
        self.provider, self.trip, self.arm = provider, trip, arm
        self.calls: list[ModelCall] = []
        self.captures: list[Capture] = []
        self.state = new_shop()  # the application's, in the other arms
        self.session = ContextSession(Large, instructions=trip.policy, tag="k7f3")
        self.pending: list[Call] = []
        asked = StatefulLLM(llm, self.session, on_call=self.calls.append) if arm == "ours" else llm
        self.agent: Any = FunctionAgent(llm=asked, tools=[*self._tools()], streaming=False)
        self.marker = {"anthropic": "cache_control", "bedrock_converse": "cachePoint"}.get(_package(llm), "")

    async def run(self, part: Part, file: Path) -> list[Capture]:
        kept = json.loads(file.read_text(encoding="utf-8")) if part == "second" else None
        ctx: Context[Any] = Context.from_dict(self.agent, kept) if kept else Context(self.agent)
        if self.arm == "ours" and kept is None:
            await self.session.set(ctx, self.state)
        moment: tuple[dict[str, Any], Large] | None = None
        for turn in self.trip.turns:
            if (part == "first" and turn.number >= RESUME_AT) or (part == "second" and turn.number < RESUME_AT):
                continue
            await self._take(turn, ctx)
            if turn.number == FORK_FROM:
                moment = json.loads(json.dumps(ctx.to_dict())), self.state
            elif turn.number == FORK_AT and moment is not None:
                data, (state, self.state) = moment[0], (self.state, moment[1])
                side: Context[Any] = Context.from_dict(self.agent, data)
                for forked in self.trip.fork:
                    await self._take(forked, side)
                self.state = state
        if part == "first":
            file.write_text(json.dumps(ctx.to_dict()), encoding="utf-8")
        return self.captures

    async def _take(self, turn: Turn, ctx: Context[Any]) -> None:
        first, planned = len(self.provider.bodies), len(self.calls)
        steps = [[{"name": one.name, "args": one.arguments, "id": one.id} for one in step] for step in turn.steps]
        self.provider.script[:] = [*([400] if turn.fails else []), *steps, turn.answer]
        self.pending = [one for step in turn.steps for one in step]
        await self._change(turn.patch, ctx)
        memory = StateMemory(token_limit=1_000_000)
        try:
            await self.agent.run(turn.text, ctx=ctx, memory=memory)
        except Exception:
            if not turn.fails:
                raise
            so_far = await (await ctx.store.get("memory")).aget_all()
            await self.agent.run(chat_history=so_far, ctx=ctx)
        reasons = iter(call.plan.rebased for call in self.calls[planned:])
        for at, body in enumerate(self.provider.bodies[first:]):
            answered = not (turn.fails and at == 0)
            rebased = next(reasons, None) if answered else None
            self.captures.append(Capture(self._as_sent(body), turn.number, turn.forked, rebased, answered))

    def _as_sent(self, body: dict[str, Any]) -> dict[str, Any]:
        """Another arm's request with the marker that it is given."""
        if self.arm == "ours" or not self.marker:
            return body
        if self.marker == "cache_control":
            return {**body, "cache_control": {"type": "ephemeral"}}
        last = body["messages"][-1]
        marked = {**last, "content": [*last["content"], {"cachePoint": {"type": "default"}}]}
        return {**body, "messages": [*body["messages"][:-1], marked]}

    async def _change(self, patch: dict[str, str], ctx: Context[Any]) -> None:
        if self.arm == "ours":
            if patch:
                await self.session.update(ctx, patch)
            return
        self.state = apply_patch(self.state, patch)
        texts = [self.trip.policy, self.state.model_dump_json()]
        self.agent.system_prompt = "\n\n".join(texts if self.arm == "rewrite_late" else reversed(texts))

    def _tools(self) -> Sequence[FunctionTool]:
        async def look_up(ctx: Context[Any], order_id: str) -> str:
            """Read an order from the warehouse's own system."""
            return self._result("look_up", {"order_id": order_id})

        async def set_status(ctx: Context[Any], order_id: str, status: str) -> str:
            """Set the status of an order."""
            arguments = {"order_id": order_id, "status": status}
            await self._change(patch_of("set_status", arguments), ctx)
            return self._result("set_status", arguments)

        return [FunctionTool.from_defaults(async_fn=one) for one in (look_up, set_status)]

    def _result(self, name: str, arguments: dict[str, str]) -> str:
        """What the script's next such call answers; a tool of LlamaIndex's does not learn its call's id."""
        found = next(one for one in self.pending if one.name == name and one.arguments == arguments)
        self.pending.remove(found)
        return found.result


def _package(llm: object) -> str:
    """The package of LlamaIndex that a model's class is from."""
    return next(
        (name.split(".")[2] for cls in type(llm).__mro__ if (name := cls.__module__).startswith("llama_index.llms.")),
        "",
    )
