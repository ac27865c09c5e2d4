"""The three ways to ask a model the same question, and one row of what it decided in each.

rewritten   head with the state as it is now; the history holds no errata    the oracle
ours        head with the first state; errata where the library put them     what is tested
stale       head with the first state; nothing is ever told                  the control
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks._cases import Answer, Case, Head, Kind, Phrasing, Talk
from benchmarks._frame import BenchmarkError
from examples.support_agent.vocabulary import TOOL_DOCS, ToolDoc
from pkv_agents import (
    DEFAULT_STYLE,
    AgentSession,
    ErrataStyle,
    Message,
    Profile,
    ToolCall,
    render_baseline,
    snapshot,
    wire,
)
from pkv_agents.local import LocalModel

ARMS = ("rewritten", "ours", "stale")
PREFACE = 64
"""Most characters of the line before a call; the policy asks for that line."""
MOST_TOKENS = 96

_REPLIES = {doc.name: doc.reply for doc in TOOL_DOCS}


@dataclass(frozen=True, slots=True)
class Decision:
    """What the model decided in one arm.

    Attributes:
        note: The line before the call: by what the model says that it decides.
        tool: The tool.
        arguments: Its arguments.
        right: Whether the policy wants just this in the state as it is now.
        margin: Logit distance between best and second-best where the engine says that the decision fell; None if it
            was not finite.
        prompt_tokens: Tokens of the prompt.
        cached_tokens: Those of them that an earlier arm of the same case had computed.
        seconds: What it took.
    """

    note: str
    tool: str
    arguments: Mapping[str, object]
    right: bool
    margin: float | None
    prompt_tokens: int
    cached_tokens: int
    seconds: float

    def same_as(self, other: Decision) -> bool:
        """Whether tool and arguments are equal."""
        return self.tool == other.tool and self.arguments == other.arguments


@dataclass(frozen=True, slots=True)
class Row:
    """One case and what came of it.

    Attributes:
        seed: Its seed.
        head: Length of its head.
        phrasing: Its words.
        kind: Its kind of change.
        variant: Which form of that.
        case: Hash of what was asked.
        turns: Answered turns before the question.
        changes: Fields that changed, the clock aside.
        head_tokens: Tokens up to the text of the first message.
        tool: The right tool.
        arguments: Its arguments.
        rewritten: Decision with a rewritten head.
        ours: Decision with the library.
        stale: Decision with the first head for ever.
        agree: Whether ours equals rewritten.
        seconds: All three.
    """

    seed: int
    head: Head
    phrasing: Phrasing
    kind: Kind
    variant: str
    case: str
    turns: int
    changes: int
    head_tokens: int
    tool: str
    arguments: Mapping[str, object]
    rewritten: Decision
    ours: Decision
    stale: Decision
    agree: bool
    seconds: float

    @property
    def key(self) -> tuple[str, str, int]:
        """What no two rows of a run share."""
        return self.head, self.phrasing, self.seed


def openai_tools() -> list[dict[str, object]]:
    """The shop's tools as OpenAI function records."""
    return [{"type": "function", "function": _function(doc)} for doc in TOOL_DOCS]


def requests_of(case: Talk, profile: Profile) -> dict[str, tuple[Message, ...]]:
    """The exact messages of each arm."""
    history = history_of(case)
    system = f"{case.world.policy}\n\n"
    now = snapshot(case.states()[-1]).without_volatile()
    return {
        "rewritten": (Message("system", system + render_baseline(now, tag=case.tag)), *history),
        "ours": through_session(case, history, profile),
        "stale": (Message("system", system + render_baseline(snapshot(case.world.shop), tag=case.tag)), *history),
    }


def run_case(engine: LocalModel, case: Case) -> Row:
    """Ask the question in each arm.

    The cache is empty at the start. `ours` goes first and pays for the head; the others find their common prefix.
    """
    started = time.perf_counter()
    engine.clear_cache()
    asked, tools = requests_of(case, engine.profile), openai_tools()
    answer = case.answers()[-1]
    made = {arm: decide(engine, asked[arm], tools, answer) for arm in ("ours", "stale", "rewritten")}
    requests = case.world.requests
    return Row(
        seed=case.seed,
        head=case.head,
        phrasing=case.phrasing,
        kind=case.kind,
        variant=case.variant,
        case=case.digest(),
        turns=len(requests) - 1,
        changes=sum(len(request.patch) - 1 for request in requests),
        head_tokens=head_tokens(engine, asked["ours"], tools),
        tool=answer[0],
        arguments=answer[1],
        **made,
        agree=made["ours"].same_as(made["rewritten"]),
        seconds=round(time.perf_counter() - started, 3),
    )


def _function(doc: ToolDoc) -> dict[str, object]:
    parameters = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in doc.arguments},
        "required": list(doc.arguments),
        "additionalProperties": False,
    }
    return {"name": doc.name, "description": doc.description, "parameters": parameters}


def history_of(case: Talk) -> list[Message]:
    """Users' messages, the right notes and calls, and their results; the question last."""
    messages: list[Message] = []
    turns = zip(case.world.requests, case.notes(), case.answers(), strict=True)
    for turn, (request, note, (tool, arguments)) in enumerate(turns):
        call = ToolCall(tool, arguments, id=f"call_{turn}")
        messages += [
            Message("user", request.text),
            Message("assistant", note, (call,)),
            Message("tool", _REPLIES[tool].format(**arguments), tool_call_id=call.id),
        ]
    return messages[:-2]


def through_session(
    case: Talk, history: Sequence[Message], profile: Profile, style: ErrataStyle = DEFAULT_STYLE
) -> tuple[Message, ...]:
    """What an app sends on its last turn, having planned and committed each turn before it."""
    shop = case.world.shop.model_copy(deep=True)  # a session owns its state
    session = AgentSession(
        shop, key="parity", instructions=case.world.policy, profile=profile, tag=case.tag, style=style
    )
    asked: tuple[Message, ...] = ()
    for turn, request in enumerate(case.world.requests):
        session.update(request.patch)
        messages = history[: 3 * turn + 1]
        plan = session.plan(messages)
        if plan.rebased is not None:
            raise BenchmarkError(f"seed {case.seed}: the session rebased ({plan.rebased}), so nothing is compared")
        asked = wire(plan, messages)
        session.commit(plan)
    return asked


def decide(
    engine: LocalModel, messages: Sequence[Message], tools: Sequence[Mapping[str, object]], answer: Answer
) -> Decision:
    """What the model decides; `answer` is what would be right."""
    reply = engine.generate(messages, tools=tools, tool_choice="any", preface=PREFACE, max_tokens=MOST_TOKENS)
    if not reply.tool_calls:
        raise BenchmarkError(f"the engine gave no tool call but {reply.text!r}")
    call, margin = reply.tool_calls[0], reply.decision_margin
    return Decision(
        note=reply.text,
        tool=call.name,
        arguments=dict(call.arguments),
        right=(call.name, dict(call.arguments)) == answer,
        margin=round(margin, 4) if margin is not None and math.isfinite(margin) else None,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        seconds=round(reply.total_s, 3),
    )


def head_tokens(engine: LocalModel, messages: Sequence[Message], tools: Sequence[Mapping[str, object]]) -> int:
    """Where two requests part that share all but the first message."""
    ids = [engine.render_ids([messages[0], Message("user", text)], tools) for text in ("1", "x")]
    return next(at for at, (one, other) in enumerate(zip(*ids, strict=False)) if one != other)
