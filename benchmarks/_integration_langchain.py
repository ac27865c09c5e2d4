"""LangChain's part of the integration benchmark: agents of `create_agent` over mock transports, threads in SQLite.

The clients are the real ones; what is recorded are the bytes that each would have sent. The other arms have the same
tools and a `dynamic_prompt`, with the caching middleware of the provider's own package where there is one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]  # untyped checkpointer there
from langchain.agents.middleware import AgentMiddleware, ModelRequest, dynamic_prompt
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from benchmarks._integration import (
    FORK_AT,
    FORK_FROM,
    RESUME_AT,
    Arm,
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
from langchain_pkv import ModelCall, StateMiddleware
from pkv_agents import apply_patch, profile_for
from tests.langchain.others import bedrock_model, gemini_model, ollama_model, responses_model
from tests.langchain.providers import Provider, anthropic_model, openai_model

_SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
_THREAD: RunnableConfig = {"configurable": {"thread_id": "trip"}}


def _at_own_server(name: str, script: Sequence[Any] = ()) -> tuple[Any, Provider]:
    model, provider = openai_model(name, script)
    return model.model_copy(update={"openai_api_base": "http://127.0.0.1:8000/v1"}), provider


Made = Callable[[], tuple[Any, Provider]]
_MODELS: dict[str, tuple[Made, tuple[str, str], str]] = {
    "openai chat gpt-5.1": (lambda: openai_model("gpt-5.1"), ("openai", "gpt-5.1"), "openai"),
    "openai chat gpt-5.6": (lambda: openai_model("gpt-5.6"), ("openai", "gpt-5.6"), "openai"),
    "openai responses gpt-5.1": (lambda: responses_model("gpt-5.1"), ("openai", "gpt-5.1"), "openai"),
    "openai responses gpt-5.6": (lambda: responses_model("gpt-5.6"), ("openai", "gpt-5.6"), "openai"),
    "anthropic opus 5": (lambda: anthropic_model("claude-opus-5"), ("anthropic", "claude-opus-5"), "anthropic"),
    "anthropic sonnet 5": (
        lambda: anthropic_model("claude-sonnet-5"),
        ("anthropic", "claude-sonnet-5"),
        "anthropic",
    ),
    "bedrock sonnet 4.5": (lambda: bedrock_model(_SONNET), ("bedrock", _SONNET), "langchain_aws"),
    "bedrock nova pro": (
        lambda: bedrock_model("us.amazon.nova-pro-v1:0"),
        ("bedrock", "us.amazon.nova-pro-v1:0"),
        "langchain_aws",
    ),
    "gemini 2.5 pro": (
        lambda: gemini_model("gemini-2.5-pro"),
        ("gemini", "gemini-2.5-pro"),
        "langchain_google_genai",
    ),
    "ollama": (lambda: ollama_model("llama3.2"), ("ollama", ""), "langchain_ollama"),
    "vllm by ChatOpenAI": (lambda: _at_own_server("meta-llama/Llama-3.1-8B-Instruct"), ("vllm", ""), "openai"),
    "llama.cpp by ChatOpenAI": (lambda: _at_own_server("smollm2"), ("llama.cpp", ""), "openai"),
}


def models() -> dict[str, Simulated]:
    """The models whose packages are installed."""
    found: dict[str, Simulated] = {}
    for name, (_, known_as, package) in _MODELS.items():
        if importlib.util.find_spec(package) is not None:
            profile, _ = profile_for(*known_as)
            found[name] = Simulated(profile, 1 if known_as[0] in ("llama.cpp", "ollama") else None)
    return found


def converse(name: str, arm: Arm, part: Part, folder: Path) -> list[Capture]:
    """Drive an agent through (a part of) the conversation; see `_integration.Framework`."""
    model, provider = _MODELS[name][0]()
    file = folder / f"{name}.{arm}.db".replace("/", "-")
    with SqliteSaver.from_conn_string(str(file)) as saver:
        return _Drive(model, provider, make_trip(), arm, saver).run(part)


class _Drive:
    """One agent on its way."""

    def __init__(self, model: Any, provider: Provider, trip: Trip, arm: Arm, saver: SqliteSaver) -> None:
        self.provider, self.trip, self.arm = provider, trip, arm
        self.calls: list[ModelCall] = []
        self.captures: list[Capture] = []
        self.state = new_shop()  # the application's, in the other arms
        self.config = _THREAD
        around = [self._ours()] if arm == "ours" else [*_own_caching(model), self._rewriting()]
        self.agent: Any = create_agent(model, self._tools(), middleware=around, checkpointer=saver)

    def run(self, part: Part) -> list[Capture]:
        moments: dict[int, tuple[RunnableConfig, Large]] = {}
        for turn in self.trip.turns:
            if (part == "first" and turn.number >= RESUME_AT) or (part == "second" and turn.number < RESUME_AT):
                continue
            self._take(turn)
            moments[turn.number] = self.agent.get_state(_THREAD).config, self.state
            if turn.number == FORK_AT:
                self.config, self.state = moments[FORK_FROM]
                for forked in self.trip.fork:
                    self._take(forked)
                self.config, self.state = moments[FORK_AT]
        return self.captures

    def _take(self, turn: Turn) -> None:
        first, planned = len(self.provider.bodies), len(self.calls)
        steps = [[{"name": one.name, "args": one.arguments, "id": one.id} for one in step] for step in turn.steps]
        self.provider.script[:] = [*([400] if turn.fails else []), *steps, turn.answer]
        given: dict[str, Any] | None = {"messages": [HumanMessage(turn.text)]}
        if self.arm != "ours":
            self.state = apply_patch(self.state, turn.patch)
        elif turn.number == 0:
            given["pkv_state"] = self.state
        elif turn.patch:
            given["pkv_state"] = turn.patch
        try:
            self.agent.invoke(given, self.config)
        except Exception:
            if not turn.fails:
                raise
            self.agent.invoke(None, self.config)
        self.config = _THREAD  # what was added last is the thread's newest moment
        reasons = iter(call.plan.rebased for call in self.calls[planned:])
        for at, body in enumerate(self.provider.bodies[first:]):
            answered = not (turn.fails and at == 0)
            rebased = next(reasons, None) if answered else None
            self.captures.append(Capture(body, turn.number, turn.forked, rebased, answered))

    def _ours(self) -> AgentMiddleware[Any, Any, Any]:
        return StateMiddleware(Large, instructions=self.trip.policy, tag="k7f3", on_call=self.calls.append)

    def _rewriting(self) -> AgentMiddleware[Any, Any, Any]:
        @dynamic_prompt
        def prompt(request: ModelRequest[Any]) -> SystemMessage:
            data = self.state.model_dump_json()
            texts = [self.trip.policy, data] if self.arm == "rewrite_late" else [data, self.trip.policy]
            return SystemMessage("\n\n".join(texts))

        return cast("AgentMiddleware[Any, Any, Any]", prompt)

    def _tools(self) -> list[Any]:
        results = {call.id: call.result for turn in self.trip.turns for step in turn.steps for call in step}

        @tool
        def look_up(order_id: str, runtime: ToolRuntime[Any, Any]) -> str:
            """Read an order from the warehouse's own system."""
            return results[runtime.tool_call_id or ""] if runtime.tool_call_id in results else order_id

        @tool
        def set_status(order_id: str, status: str, runtime: ToolRuntime[Any, Any]) -> Any:
            """Set the status of an order."""
            patch = patch_of("set_status", {"order_id": order_id, "status": status})
            if self.arm != "ours":
                self.state = apply_patch(self.state, patch)
                return results.get(runtime.tool_call_id or "", "done")
            done = ToolMessage(results.get(runtime.tool_call_id or "", "done"), tool_call_id=runtime.tool_call_id)
            return Command(update={"pkv_state": patch, "messages": [done]})

        return [look_up, set_status]


def _own_caching(model: Any) -> list[AgentMiddleware[Any, Any, Any]]:
    """The caching middleware that the provider's package brings, where it has one for this model."""
    module = type(model).__module__
    if module.startswith("langchain_anthropic"):
        from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

        return [AnthropicPromptCachingMiddleware()]
    if module.startswith("langchain_aws"):
        from langchain_aws.middleware import BedrockPromptCachingMiddleware

        return [BedrockPromptCachingMiddleware()]
    return []
