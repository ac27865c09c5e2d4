"""`probe`: for this model, head and question, does the cheap edit decide as the reference does?

The reference is what `qualify` found best for the model, and a clean prefill for a model that was not qualified: it is
not assumed. A verdict is kept in `model.verdicts`, by head and field, where the edit mode `auto` looks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pkv_agents.errors import OptionsError
from pkv_agents.local.edit_verdicts import EditVerdict
from pkv_agents.local.model import LocalModel
from pkv_agents.local.options import OptionFields, Reply
from pkv_agents.messages import Message
from pkv_agents.session import AgentSession
from pkv_agents.wire import wire

_names = count()


@dataclass(frozen=True, slots=True)
class Probe:
    """One question, answered both ways.

    Attributes:
        verdicts: Of each changed field, with this question counted.
        cheap: The answer on the edited cache.
        reference: The answer of the reference.
        mode: The reference's mode.
        cost_s: Seconds that both took.
    """

    verdicts: tuple[EditVerdict, ...]
    cheap: Reply
    reference: Reply
    mode: str
    cost_s: float

    @property
    def agrees(self) -> bool:
        """Whether both decide alike: the same text, or the same tools with the same arguments."""
        return _decision(self.cheap) == _decision(self.reference)

    def __str__(self) -> str:
        """What was found, and what it cost."""
        word = "agrees with" if self.agrees else "differs from"
        return "\n".join([f"the edit {word} {self.mode} ({self.cost_s:.1f} s)", *map(str, self.verdicts)])


def probe(
    model: LocalModel,
    session: AgentSession[Any],
    messages: Sequence[Message],
    patch: Mapping[str, object],
    *,
    cheap: str = "in_place",
    options: OptionFields | None = None,
) -> Probe:
    """Asks a question behind a change that has not happened, both ways. The session is not touched.

    Args:
        model: The model.
        session: Its state, instructions and wording are used.
        messages: A conversation that ends with the question.
        patch: The change, as `AgentSession.update` takes it.
        cheap: The edit mode to judge.
        options: Of the generation; see `GenerationOptions`.

    Raises:
        OptionsError: The patch changes nothing that the head shows, or there is no question.
        StateError: The patch does not fit the state.
    """
    if not messages:
        raise OptionsError("probe needs a conversation that ends with a question")
    wanted: OptionFields = {**options} if options is not None else {}
    old, told, new = _prompts(model, session, messages, patch)
    name = f"probe-{next(_names)}"
    tools, skills = wanted.get("tools", ()), wanted.get("skills", ())
    model.logits(old, tools=tools, session=name, edit_mode=cheap, skills=skills, salt=wanted.get("salt", ""))
    started = time.perf_counter()
    wanted["session"], wanted["edit_mode"] = name, cheap
    quick = model.generate(new, **wanted)
    if not quick.edited:
        raise OptionsError("nothing was edited: the patch changes no field that the head shows")
    mode = model.reference
    wanted["session"], wanted["edit_mode"] = None, mode
    truth = model.generate(told if mode == "erratum" else new, **wanted)
    cost = time.perf_counter() - started
    same, skeleton = _decision(quick) == _decision(truth), model.skeleton(new, tools)
    share = cost / len(quick.edited)
    verdicts = tuple(model.verdicts.add(skeleton, path, agrees=same, cost_s=share) for path in quick.edited)
    return Probe(verdicts, quick, truth, mode, cost)


def _prompts(
    model: LocalModel, session: AgentSession[Any], messages: Sequence[Message], patch: Mapping[str, object]
) -> tuple[tuple[Message, ...], tuple[Message, ...], tuple[Message, ...]]:
    """The cached conversation, the same with the change told, and the same with a head that shows it."""

    def another() -> AgentSession[Any]:
        state = session.state.model_copy(deep=True)
        made: AgentSession[Any] = AgentSession(
            state, key="probe", instructions=session.instructions, style=session.style, tag=tag, profile=model.profile
        )
        return made

    epochs = session.ledger.epochs if session.ledger is not None else ()
    tag = epochs[-1].tag if epochs else "pkvp"
    before, after = another(), another()
    plan = before.plan(messages[:-1])
    old = wire(plan, messages[:-1])
    before.commit(plan)
    before.update(patch)
    told = wire(before.plan(messages), messages)
    after.update(patch)
    return old, told, wire(after.plan(messages), messages)


def _decision(reply: Reply) -> tuple[object, ...]:
    if reply.tool_calls:
        return tuple((call.name, dict(call.arguments)) for call in reply.tool_calls)
    return (reply.text,)
