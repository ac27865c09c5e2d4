"""A request that was planned, and whether what reaches the model is still that request.

A middleware listed behind ours sees the planned request and may change it once more: replace the prompt, clear a tool's
result, drop the front. So the request is looked at again where it leaves. If it is not what was planned, ours is taken
out of it, and it is planned anew as it is: the state is told whatever the others did, and a prefix that they moved is
reported like any other.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_pkv._caching import MARKERS
from langchain_pkv._ledger import LedgerRecord
from langchain_pkv._messages import head, head_text, join_instructions, placed, to_core
from langchain_pkv._native import NativeTools
from pkv_agents import ErrataStyle, Message, OptionsError, Profile, RebasePolicy, TrackedState, TurnPlan, plan

# LangChain writes older forms of these anew on the way to the model, so only that there is one can be compared.
_REWRITTEN = ("audio", "file", "image", "input_audio")


def checked_words(policy: RebasePolicy, style: ErrataStyle) -> tuple[RebasePolicy, ErrataStyle]:
    """When what is told is folded, and how it is worded, if that is what they are.

    Raises:
        OptionsError: One of them is something else.
    """
    given: list[tuple[str, object, type[object]]] = [
        ("rebase_policy", policy, RebasePolicy),
        ("style", style, ErrataStyle),
    ]
    for name, value, kind in given:
        if not isinstance(value, kind):
            raise OptionsError(f"{name} takes a {kind.__name__}, not a {type(value).__name__}")
    return policy, style


@dataclass(frozen=True, slots=True)
class Setting:
    """What a request is planned from, beside its messages.

    Attributes:
        record: What the thread's ledger channel holds.
        state: What is true now.
        instructions: The middleware's own.
        profile: What the provider allows.
        policy: When errata are folded into a new baseline.
        style: The wording of baseline and errata.
        tag: The tag of a new thread, or None.
        model: Whose cache the request fills.
        clock: The time.
        rebase: Why a new head must begin, or None.
        native: The tools, for what goes out beside the texts, or None.
    """

    record: LedgerRecord | None
    state: TrackedState
    instructions: str
    profile: Profile
    policy: RebasePolicy
    style: ErrataStyle
    tag: str | None
    model: str
    clock: datetime
    rebase: str | None = None
    native: NativeTools | None = None

    def planned(self, own: SystemMessage | None, messages: Sequence[BaseMessage]) -> Planned:
        """Plan a request.

        Args:
            own: The application's system message.
            messages: The request's messages after it.
        """
        core = to_core(messages)
        turn_plan = plan(
            self.record.ledger if self.record else None,
            self.state,
            core,
            profile=self.profile,
            instructions=join_instructions(head_text([own] if own is not None else []), self.instructions),
            tag=self.tag,
            policy=self.policy,
            style=self.style,
            rebase=self.rebase or (self.record.rebase if self.record else None),
            clock=self.clock,
            model=self.model,
        )
        return Planned.made(self, turn_plan, own, messages, core)


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned request.

    Attributes:
        setting: What it was planned from.
        plan: What was decided.
        own: The application's system message.
        leading: System messages at the front of the thread, which are in the head.
        system: The head, as it is to leave.
        pairs: The messages after it: each as it was given (None for an erratum) and as it is to leave.
    """

    setting: Setting
    plan: TurnPlan
    own: SystemMessage | None
    leading: tuple[SystemMessage, ...]
    system: SystemMessage
    pairs: tuple[tuple[BaseMessage | None, BaseMessage], ...]

    @classmethod
    def made(
        cls,
        setting: Setting,
        turn_plan: TurnPlan,
        own: SystemMessage | None,
        messages: Sequence[BaseMessage],
        core: Sequence[Message],
    ) -> Planned:
        """Write a plan down as LangChain's messages."""
        leading = cast("tuple[SystemMessage, ...]", tuple(messages[: turn_plan.leading]))
        fronts = [own, *leading] if own is not None else leading
        system = head(turn_plan, fronts, "" if own is not None else setting.instructions)
        beside = setting.native.blocks(turn_plan) if setting.native is not None else {}
        return cls(setting, turn_plan, own, leading, system, tuple(placed(turn_plan, messages, core, beside)))

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages after the head, as they are to leave."""
        return [sent for _, sent in self.pairs]

    def as_it_leaves(self, request: Sequence[BaseMessage]) -> Planned:
        """This request, or the one that is planned anew because others have changed it.

        Args:
            request: What has reached the model, the head first.
        """
        system = request[0] if request and isinstance(request[0], SystemMessage) else None
        rest = request[1:] if system is not None else request
        has_head = system is not None and self.plan.epoch.baseline_text in system.text
        if has_head and [_looks(message) for message in rest] == [_looks(sent) for _, sent in self.pairs]:
            return self
        return self.setting.planned(self.own if has_head else system, [*self.leading, *self._given(rest)])

    def _given(self, request: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Messages that have reached the model without what we put there. Copies are known by their looks."""
        by_identity = {id(sent): given for given, sent in self.pairs}
        by_looks: dict[object, deque[BaseMessage | None]] = {}
        for given, sent in self.pairs:
            by_looks.setdefault(_looks(sent), deque()).append(given)
        found: list[BaseMessage | None] = []
        for one in request:
            alike = by_looks.get(_looks(one))
            copied = alike.popleft() if alike else one
            found.append(by_identity.get(id(one), copied))
        return [message for message in found if message is not None]


def _looks(message: BaseMessage) -> object:
    """What tells whether a message is the one that was planned; a marker on one of its blocks does not count."""
    shown = message.type, message.text, _blocks(message)
    if isinstance(message, AIMessage):
        return *shown, tuple((call["id"], call["name"], _written(call["args"])) for call in message.tool_calls)
    return *shown, message.tool_call_id if isinstance(message, ToolMessage) else None


def _blocks(message: BaseMessage) -> tuple[str, ...]:
    """The content's blocks that are no text, without markers."""
    content = cast("str | list[str | dict[str, Any]]", message.content)  # pyright: ignore[reportUnknownMemberType]
    blocks = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    found: list[str] = []
    for block in blocks:
        kind = block.get("type")
        if kind in _REWRITTEN:
            found.append("file")
        elif kind != "text" and (plain := {key: part for key, part in block.items() if key not in MARKERS}):
            found.append(_written(plain))
    return tuple(found)


def _written(data: object) -> str:
    try:
        return json.dumps(data, sort_keys=True, default=str)
    except (RecursionError, TypeError, ValueError):  # too deep, or with keys of several kinds
        return "?"
