"""Five places for the state in a request, each with the best cache markers it can have.

A marked cache takes four markers. Wherever the state stands, two of them stand at the newest message and at the one
that was the newest a request ago (`plan_breakpoints` says where), and one at the end of the system message.

- `rewrite_early`: tools, state, policy, history. The fourth marker: the end of the tools.
- `rewrite_late`: tools, policy, state, history. The fourth: the end of the policy.
- `tail_not_kept`: tools, policy, history, state; the next request has it only at its own end. The newest marker stands
  before the state, and where a provider marks the end of a request by itself, it is asked not to. The fourth: tools.
- `tail_kept`: the same, but what was told stays in the history; told again when something has changed. Tools.
- `ours`: `plan`, `wire`, `commit` and `plan_breakpoints`, as a program would call them. Tools.

All but `ours` write the whole state as compact JSON, which is the shortest usual way, or one line a field as ours does.
The tools stand before everything and are a block of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from benchmarks._shop import START
from benchmarks._traces import Step, Trace
from pkv_agents import (
    Breakpoint,
    CacheRequest,
    Ledger,
    Message,
    Profile,
    cache_request,
    commit,
    estimate_tokens,
    plan,
    plan_breakpoints,
    wire,
)

TAG = "k7f3"
Rendering = Literal["lines", "json"]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of an arm.

    Attributes:
        request: As a cache sees it.
        messages: As the provider gets it, without the tools.
        appended: Tokens that tell the state here for the first time, outside of the head.
        rebased: Why a new epoch began; None in the other arms.
    """

    request: CacheRequest
    messages: tuple[Message, ...]
    appended: int = 0
    rebased: str | None = None


class Encoder:
    """Four characters a token, and each text only once.

    A text becomes numbers, so that comparing two requests costs no more than it must.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Hashable, ...]] = {}
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> tuple[Hashable, ...]:
        """The tokens of a text."""
        known = self._known.get(text)
        if known is None:
            number = self._numbers.setdefault
            pieces = (text[at : at + 4] for at in range(0, len(text), 4))
            known = self._known[text] = tuple(number(piece, len(self._numbers)) for piece in pieces)
        return known


@dataclass(frozen=True, slots=True)
class Setting:
    """What an arm is told.

    Attributes:
        trace: The conversation.
        profile: The provider.
        encode: The tokenizer.
        rendering: How arms other than ours write the state.
    """

    trace: Trace
    profile: Profile
    encode: Encoder
    rendering: Rendering = "json"

    def state(self, step: Step) -> str:
        """The whole state, as arms other than ours write it."""
        return state_text(step, self.rendering)

    def sent(
        self,
        step: Step,
        messages: Sequence[Message],
        extra: Sequence[Breakpoint] = (),
        *,
        appended: int = 0,
        rebased: str | None = None,
        marked: Sequence[Message] | None = None,
        implicit: bool = True,
    ) -> Sent:
        """Mark a request and put the tools before it.

        Args:
            step: Which one it is.
            messages: What it says, system message first.
            extra: Where the fourth marker stands, if not at the end of the tools.
            appended: See `Sent`.
            rebased: See `Sent`.
            marked: The messages for which markers are planned, if not these.
            implicit: See `CacheRequest`.
        """
        profile = self.profile
        planned = plan_breakpoints(messages if marked is None else marked, _asked(profile, implicit), ahead=("5m",))
        marks = [replace(mark, message=mark.message + 1) for mark in (*planned.breakpoints, *extra)]
        if not extra:
            marks.append(Breakpoint(0, 0, "tools"))
        all_messages = [Message("system", self.trace.tools), *messages]
        breakpoints = marks if profile.max_breakpoints else ()
        request = cache_request(
            all_messages, breakpoints=breakpoints, at=step.at, encode=self.encode, implicit=implicit
        )
        return Sent(request, tuple(messages), appended, rebased)


def _asked(profile: Profile, implicit: bool) -> Profile:
    return profile if implicit else replace(profile, implicit_breakpoint=False)


def state_text(step: Step, rendering: Rendering) -> str:
    """The whole state as a program without this library would write it."""
    if rendering == "json":
        return step.data
    lines = (f"{path}: {text}" for path, text in step.state.leaves.items())
    return "\n".join(["<state>", *lines, "</state>"])


def _part(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def rewrite_early(setting: Setting) -> Iterator[Sent]:
    """The head rewritten, the state before the policy."""
    trace = setting.trace
    for step in trace.steps:
        head = Message("system", (_part(setting.state(step)), _part(trace.policy)))
        yield setting.sent(step, [head, *trace.history[: step.count]])


def rewrite_late(setting: Setting) -> Iterator[Sent]:
    """The head rewritten, the state after the policy."""
    trace = setting.trace
    for step in trace.steps:
        head = Message("system", (_part(trace.policy), _part(setting.state(step))))
        yield setting.sent(step, [head, *trace.history[: step.count]], [Breakpoint(0, 0, "policy")])


def tail_not_kept(setting: Setting) -> Iterator[Sent]:
    """The state below the newest message, in this request only."""
    trace = setting.trace
    for step in trace.steps:
        plain = [Message("system", trace.policy), *trace.history[: step.count]]
        state = setting.state(step)
        messages = [*plain[:-1], _with_below(plain[-1], state)]
        tokens = estimate_tokens(state)
        yield setting.sent(step, messages, appended=tokens, marked=plain, implicit=False)


def tail_kept(setting: Setting) -> Iterator[Sent]:
    """The state below the newest message whenever it has changed, and there for good."""
    trace, told, kept = setting.trace, "", dict[int, str]()
    for step in trace.steps:
        state = setting.state(step)
        if state != told:
            kept[step.count - 1] = told = state
            appended = estimate_tokens(state)
        else:
            appended = 0
        history = [
            _with_below(message, kept[index]) if index in kept else message
            for index, message in enumerate(trace.history[: step.count])
        ]
        yield setting.sent(step, [Message("system", trace.policy), *history], appended=appended)


def ours(setting: Setting) -> Iterator[Sent]:
    """Errata, as a program would send them."""
    trace, profile = setting.trace, setting.profile
    ledger: Ledger | None = None
    for step in trace.steps:
        history = trace.history[: step.count]
        turn = plan(
            ledger,
            step.state,
            history,
            profile=profile,
            instructions=trace.policy,
            tag=TAG,
            clock=START + timedelta(seconds=step.at),
        )
        yield setting.sent(step, wire(turn, history), appended=turn.appended_tokens, rebased=turn.rebased)
        ledger = commit(ledger, turn)


def _with_below(message: Message, text: str) -> Message:
    assert isinstance(message.content, str)
    return replace(message, content=(_part(message.content), _part(text)))


ARMS: dict[str, Callable[[Setting], Iterator[Sent]]] = {
    "rewrite_early": rewrite_early,
    "rewrite_late": rewrite_late,
    "tail_not_kept": tail_not_kept,
    "tail_kept": tail_kept,
    "ours": ours,
}
