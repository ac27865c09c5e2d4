"""What `qualify` asks a model: small shops with rules, a state, and a field that decides a customer's question.

Everything is drawn from a seed. The rules are of the form "if this field has that value, call this tool", the state is
a baseline as sessions render it, a change is told by an erratum as sessions word it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pkv_agents.diff import diff
from pkv_agents.errata import render_baseline, render_erratum
from pkv_agents.messages import Message
from pkv_agents.snapshots import Snapshot

Place = Literal["before", "after"]
"""Where the state stands: before the policy or after it."""

TAG = "q7ma"
PATH = "order.status"
"""The field that decides."""

_STATUSES: tuple[str, ...] = ("packed", "in transit", "delivered", "lost", "on hold", "returned")
_TOOLS: tuple[str, ...] = (
    "refund_order",
    "hold_order",
    "expedite_order",
    "cancel_order",
    "send_replacement",
    "escalate_case",
)
_TOPICS: tuple[str, ...] = ("cancel", "return", "refund", "delay", "damage")
_FILLERS = ("carrier", "depot", "shelf", "picker", "route", "box", "label", "gate", "belt", "van")
_WORDS = ("north", "blue", "seven", "early", "plain", "heavy", "green", "late", "second", "spare")
_OPENING = "You work for a shop. First name the field that decides and its value, then call one tool."


@dataclass(frozen=True, slots=True)
class Shop:
    """One shop of the battery.

    Attributes:
        policy: Its rules.
        state: Path to JSON text; `PATH` has the old value.
        old: The deciding field's value.
        new: Another.
        answers: The right tool for each.
        question: What the customer asks.
    """

    policy: str
    state: Mapping[str, str]
    old: str
    new: str
    answers: Mapping[str, str]
    question: str

    def snapshot(self, value: str, amended: Sequence[str] = ()) -> Snapshot:
        """The state with a value of the deciding field, and other fields amended."""
        changed = {path: json.dumps(f"{json.loads(self.state[path])} again") for path in amended}
        return Snapshot({**self.state, **changed, PATH: json.dumps(value)})

    def head(self, value: str, place: Place, amended: Sequence[str] = ()) -> Message:
        """The system message with that state."""
        state = render_baseline(self.snapshot(value, amended), tag=TAG)
        parts = [state, self.policy] if place == "before" else [self.policy, state]
        return Message("system", "\n\n".join(parts))

    def erratum(self, before: str, after: str, amended: Sequence[str] = ()) -> Message:
        """The update that tells the change."""
        changes = diff(self.snapshot(before), self.snapshot(after, amended))
        return Message("system", render_erratum(changes, tag=TAG))

    @property
    def fillers(self) -> tuple[str, ...]:
        """The fields that decide nothing."""
        return tuple(path for path in self.state if path != PATH)


def draw_shop(seed: int, *, fields: int = 6) -> Shop:
    """A shop.

    Args:
        seed: Its seed.
        fields: How many fields its state has, the deciding one among them.
    """
    rng = random.Random(f"qualify/{seed}")
    statuses, tools, topics = (rng.sample(pool, 3) for pool in (_STATUSES, _TOOLS, _TOPICS))
    number = f"K{rng.randrange(100, 1000)}"
    lines = [_OPENING]
    for topic in topics:
        order = tools if topic == topics[0] else rng.sample(tools, 3)
        lines += [
            f'- On a {topic} request, if the order\'s status is "{status}", call `{tool}`.'
            for status, tool in zip(statuses, order, strict=True)
        ]
    names = [f"{name}{index // len(_FILLERS) or ''}" for index, name in enumerate(_FILLERS * (fields // 10 + 1))]
    state = {f"order.{name}": json.dumps(rng.choice(_WORDS)) for name in names[: fields - 1]}
    paths = [*state, PATH]
    rng.shuffle(paths)
    whole = {path: state.get(path, json.dumps(statuses[0])) for path in paths}
    answers = dict(zip(statuses, tools, strict=True))
    question = f"I have a {topics[0]} request for order {number}."
    return Shop("\n".join(lines), whole, statuses[0], statuses[1], answers, question)


def tool_records() -> list[dict[str, object]]:
    """The tools as OpenAI function records."""
    parameters = {
        "type": "object",
        "properties": {"order_id": {"type": "string"}},
        "required": ["order_id"],
        "additionalProperties": False,
    }
    return [
        {
            "type": "function",
            "function": {"name": name, "description": name.replace("_", " "), "parameters": parameters},
        }
        for name in sorted(_TOOLS)
    ]


def small_talk(turns: int) -> list[Message]:
    """Answered turns about nothing that decides."""
    said: list[Message] = []
    for turn in range(turns):
        said += [
            Message("user", f"By the way, do you like {_WORDS[turn % len(_WORDS)]} boxes?"),
            Message("assistant", f"They are fine, {_WORDS[(turn + 3) % len(_WORDS)]} ones too."),
        ]
    return said
