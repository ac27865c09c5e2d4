"""Plays the scripted conversation through the four agents, one after the other, and notes what happened.

`run` knows no framework; `ArmPlayer` is LangChain's, and `examples.support_agent_llamaindex` has another.

Each arm starts with an empty cache under a salt of its own, so none profits from another's. The state is read where the
model call is made, so "right by the policy" is asked of the very state of that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from platform import python_version
from typing import Any, Protocol, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.errors import GraphRecursionError

from langchain_pkv import ModelCall
from pkv_agents import LOAD_SKILL, ModelError, Notice, Usage, apply_patch, normalise_usage

from .arms import ARMS, TAG, Arm, build_agent, head_text
from .models import Choice, foreign_errors
from .results import RunResult, TurnRow, with_agreement
from .scenario import TURNS, Turn
from .schema import Shop, read_shop
from .script import POLICY_SCRIPT, Script
from .training.rows import tools_block
from .turns import turn_row

_PACKAGES = (
    "pkv-agents",
    "langchain-pkv",
    "langchain",
    "langgraph",
    "llama-index-llms-pkv",
    "llama-index-core",
    "torch",
    "transformers",
)
_STEPS = 12
"""The most steps of the graph in one turn; a turn that goes well has three."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One model call as the measuring middleware saw it."""

    shop: Shop
    answer: AIMessage
    seconds: float


class Watch(AgentMiddleware[Any, Any, Any]):
    """Asks for a tool call, and notes state, answer and time of each model call. The same in all arms."""

    tools = ()

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[SeenCall] = []

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Force a call and take the time."""
        shop = read_shop(cast("Mapping[str, Any]", request.state)["pkv_state"])
        started = time.perf_counter()
        response = handler(request.override(tool_choice="any"))
        seconds = time.perf_counter() - started
        answer = next(message for message in response.result if isinstance(message, AIMessage))
        self.calls.append(SeenCall(shop, answer, seconds))
        return response


class FirstToken(BaseCallbackHandler):
    """Takes the time to the first token of a model that streams."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._started = 0.0

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        """A request leaves."""
        self._started = time.perf_counter()
        self.seconds = None

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        """A piece arrives; the first ones of some providers are empty."""
        message = getattr(chunk, "message", None)
        full = token or (isinstance(message, AIMessageChunk) and (message.tool_call_chunks or message.content))
        if full and self.seconds is None:
            self.seconds = time.perf_counter() - self._started


class Player(Protocol):
    """One arm's agent, playing."""

    def play(self, number: int) -> TurnRow:
        """Play turn `number` of the script; turns come in order, from 1."""
        ...


class MakePlayer(Protocol):
    """Makes the player of an arm."""

    def __call__(
        self, choice: Choice, arm: Arm, *, tag: str, on_notice: Callable[[Notice], None], script: Script
    ) -> Player: ...


def run(
    choice: Choice,
    *,
    arms: Sequence[Arm] = ARMS,
    turns: int = len(TURNS),
    tag: str = TAG,
    on_turn: Callable[[Arm, TurnRow | None], None] = lambda arm, row: None,
    player: MakePlayer | None = None,
    framework: str = "LangChain",
    script: Script = POLICY_SCRIPT,
) -> RunResult:
    """Play the conversation in each arm.

    Args:
        choice: The model.
        arms: Which arms, in which order.
        turns: How many turns of the script.
        tag: The tag of the state blocks.
        on_turn: Called with None when an arm begins and with each turn's row.
        player: Makes the player of an arm; LangChain's by default.
        framework: What reports call the agent's framework.
        script: What is played.

    Raises:
        ModelError: If the model fails; nothing was written.
    """
    make = player or ArmPlayer
    started, clock = datetime.now().astimezone(), time.perf_counter()
    rows: list[TurnRow] = []
    notices: list[Notice] = []
    for arm in arms:
        on_turn(arm, None)
        playing = make(choice, arm, tag=tag, on_notice=notices.append, script=script)
        for number in range(1, turns + 1):
            rows.append(playing.play(number))
            on_turn(arm, rows[-1])
    head = head_text(script.initial(), "rewrite_late", tag, instructions=script.instructions)
    return RunResult(
        model=choice.name,
        script=script.name,
        framework=framework,
        adapter=choice.adapter,
        ttft_source=choice.ttft,
        head_tokens=choice.count(f"{tools_block()}\n\n{head}"),
        tokens_are_estimates=not choice.counts_exactly,
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - clock,
        versions=versions(),
        arms=tuple(arms),
        rows=with_agreement(rows),
        notices=tuple(str(notice) for notice in notices),
    )


class ArmPlayer:
    """Plays the script through one agent.

    Args:
        choice: The model.
        arm: How it is kept informed.
        tag: The tag of the state blocks.
        on_notice: Called with each notice of the library.
        script: What is played.
    """

    def __init__(
        self,
        choice: Choice,
        arm: Arm,
        *,
        tag: str = TAG,
        on_notice: Callable[[Notice], None] | None = None,
        script: Script = POLICY_SCRIPT,
    ) -> None:
        self._choice = choice
        self._script = script
        self._number = 1
        self._arm: Arm = arm
        self._watch = Watch()
        self._first_token = FirstToken()
        self._planned: list[ModelCall] = []
        self._before: Shop | None = None
        self.agent = build_agent(
            choice.for_arm(arm),
            arm,
            watch=self._watch,
            tag=tag,
            on_call=self._planned.append,
            on_notice=on_notice,
            script=script,
            registry=(lambda: script.registry(self._number)) if asks_for_skills(choice, script) else None,
        )
        self.config: dict[str, Any] = {
            "configurable": {"thread_id": arm},
            "callbacks": [self._first_token],
            "recursion_limit": _STEPS,
        }

    def play(self, number: int) -> TurnRow:
        """Play turn `number` of the script; turns come in order, from 1."""
        turn, script = TURNS[number - 1], self._script
        self._number = number
        self._watch.calls.clear()
        self._planned.clear()
        before = self._before or script.initial()
        patch = script.news(number, before, loads=not asks_for_skills(self._choice, script))
        news: Mapping[str, Any] = patch
        if number == 1:  # the thread's first input carries the whole state, later ones what changed
            news = apply_patch(before, patch).model_dump(mode="json")
        try:
            with foreign_errors():
                self.agent.invoke({"messages": [("user", turn.text)], "pkv_state": news}, self.config)
        except GraphRecursionError as error:
            raise ModelError(f"turn {number}: the model called no tool that the shop has, again and again") from error
        return self._row(number, turn, script.shown(patch, before))

    def _row(self, number: int, turn: Turn, outside: Mapping[str, str]) -> TurnRow:
        calls = self._watch.calls
        seen = next(
            (call for call in calls if not is_loading(name["name"] for name in call.answer.tool_calls)), calls[0]
        )
        before = self._before
        self._before = seen.shop
        return turn_row(
            turn,
            number=number,
            arm=self._arm,
            outside=outside,
            shop=seen.shop,
            before=before,
            errata=[call.plan.erratum.text for call in self._planned if call.plan.erratum],
            count=self._choice.count,
            usage=sum((normalise_usage(call.answer.usage_metadata or {}) for call in self._watch.calls), Usage()),
            ttft_s=self._ttft(seen),
            total_s=seen.seconds,
            reason=seen.answer.text,
            calls=[(call["name"], call["args"]) for call in seen.answer.tool_calls],
        )

    def _ttft(self, seen: SeenCall) -> float | None:
        """The engine's clock starts when it is called; what was spent on the request before counts, too."""
        if self._choice.ttft == "engine":
            reported = cast("dict[str, Any]", seen.answer.response_metadata)  # pyright: ignore[reportUnknownMemberType]
            return seen.seconds - reported["total_s"] + reported["ttft_s"] if "ttft_s" in reported else None
        return self._first_token.seconds if self._choice.ttft == "stream" else seen.seconds


def asks_for_skills(choice: Choice, script: Script) -> bool:
    """Whether the model loads skills by a tool of its own; one in this process is taken to be too small for that."""
    return bool(script.loads) and choice.ttft != "engine"


def is_loading(names: Iterable[str]) -> bool:
    """Whether an answer's calls load skills and do nothing else."""
    return set(names) == {LOAD_SKILL.name}


def versions() -> dict[str, str]:
    """The versions of what decides a run's numbers."""
    found = {"python": python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


__all__ = ["ArmPlayer", "FirstToken", "Player", "Watch", "asks_for_skills", "is_loading", "run", "versions"]
