"""A conversation of an application that declares its tools anew each turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    OPENAI,
    AgentSession,
    Erratum,
    Message,
    Profile,
    Skills,
    Tools,
    ToolSpec,
    TrackedState,
    start_tools,
    tool_json,
    update_tools,
    wire,
)
from tests.core.strategies import TAG

AMOUNT: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
CANCEL = ToolSpec("cancel", "Cancels an order.", {"type": "object", "properties": {"id": {"type": "string"}}})
REFUND = ToolSpec("refund", "Pays money back.", AMOUNT)
TRACK = ToolSpec("track", "Finds a parcel.", CANCEL.parameters)
NATIVE = replace(ANTHROPIC_MID_SYSTEM, tool_changes="tool_addition")


class Desk(TrackedState):
    customer: str = "Mara"
    skills: Skills = Skills()
    tools: Tools = Tools()


class Talk:
    """A conversation of an application that declares its tools anew each turn."""

    def __init__(self, *tools: ToolSpec, bridge: bool = False, profile: Profile = OPENAI) -> None:
        desk = Desk(tools=start_tools(tools, bridge=bridge))
        self.profile = profile
        self.session = AgentSession(desk, key="one", tag=TAG, profile=profile)
        self.history = [Message("user", "hello")]
        self.sent: tuple[Message, ...] = ()
        self.array = self.json()
        self.errata: list[Erratum] = []
        self.send()

    @property
    def tools(self) -> Tools:
        return self.session.state.tools

    def json(self) -> str:
        """The bytes of the tools array."""
        return "\n".join(tool_json(tool) for tool in self.session.state.tools.array)

    def send(self) -> str:
        turn = self.session.plan(self.history)
        sent = wire(turn, self.history)
        assert sent[: len(self.sent)] == self.sent and turn.rebased is None
        self.session.commit(turn)
        self.sent, self.epoch = sent, turn.epoch
        self.errata += [turn.erratum] if turn.erratum is not None else []
        return "" if turn.erratum is None else "\n".join(turn.erratum.text.split("\n")[1:-1])

    def now(self, *tools: ToolSpec, off: tuple[str, ...] = (), moves: bool = False) -> tuple[str, list[str]]:
        """What the model is told, and the codes of the notices."""
        update = update_tools(self.tools, tools, profile=self.profile, off=off, prefix_tokens=1000)
        self.session.update(update.patch)
        assert update.moves_array == moves == (self.json() != self.array)
        assert update_tools(self.tools, tools, profile=self.profile, off=off).patch == {}
        self.history += [Message("assistant", "ok"), Message("user", "and?")]
        return self.send(), [notice.code for notice in update.notices]
