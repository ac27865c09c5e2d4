"""A conversation in which skills and tools come, change and go, as three programs would send it.

- `rebuilt`: the tools array holds what is on now, and the system text the skills that are active now. Both are made
  anew for each request.
- `everything`: all skills and all tools that there are stand in the head from the start, so nothing is loaded and
  nothing retired; a tool that is off is refused when it is called. A new version or a late tool still changes the head.
- `ours`: a registry, a frozen array, and what changed told behind the history. Late tools are native where the
  provider takes them, and called through the bridge elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from random import Random

from benchmarks._placements import TAG, Encoder
from benchmarks._shop import START, Words
from benchmarks._traces import policy_text
from pkv_agents import (
    LOAD_SKILL,
    AgentSession,
    Breakpoint,
    CacheRequest,
    Message,
    Part,
    Profile,
    Skill,
    SkillRegistry,
    Skills,
    ToolCall,
    Tools,
    ToolSpec,
    TrackedState,
    TurnPlan,
    cache_request,
    native_tool_blocks,
    plan_breakpoints,
    start_tools,
    tool_json,
    update_tools,
    wire,
)

TURNS = 40
SKILLS, FIRST_TOOLS, SKILL_TOKENS, TOOL_TOKENS = 8, 12, 900, 90
LOADED = {2: "skill-1", 6: "skill-2", 9: "skill-3", 15: "skill-4", 21: "skill-5", 30: "skill-6"}
RETIRED = {12: "skill-1", 24: "skill-3", 33: "skill-4"}
REPLACED = {18: "skill-2", 27: "skill-5"}
SWITCHED = {5: ("tool-3", False), 11: ("tool-3", True), 20: ("tool-7", False), 35: ("tool-7", True)}
LATE = {14: "tool-late-1", 29: "tool-late-2"}


class Desk(TrackedState):
    """The state of the conversation; nothing but its skills and tools changes."""

    customer: str
    order: str
    skills: Skills = Skills()
    tools: Tools = Tools()


@dataclass(frozen=True, slots=True)
class Turn:
    """What is true on one turn.

    Attributes:
        number: From 0.
        registry: The skills that there are.
        active: The names of those that are loaded.
        tools: The tools that there are.
        off: The names of those that must not be called.
        history: All messages up to this turn's question.
    """

    number: int
    registry: SkillRegistry
    active: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    off: tuple[str, ...]
    history: tuple[Message, ...]

    @property
    def at(self) -> float:
        """Seconds from the start."""
        return 40.0 * self.number


@dataclass(frozen=True, slots=True)
class Sent:
    """One request.

    Attributes:
        request: As a cache sees it.
        reported: Codes of what was said about a prefix that breaks; empty in the other arms.
    """

    request: CacheRequest
    reported: tuple[str, ...] = ()


@cache
def turns() -> tuple[Turn, ...]:
    """The conversation, the same every time."""
    words = Words(Random("skills"))
    registry = SkillRegistry(_skill(words, f"skill-{n}") for n in range(1, SKILLS + 1))
    tools = [_tool(words, f"tool-{n}") for n in range(1, FIRST_TOOLS + 1)]
    active, off, history = list[str](), list[str](), list[Message]()
    made: list[Turn] = []
    for number in range(TURNS):
        if (name := LOADED.get(number)) is not None:
            active.append(name)
            call = ToolCall(LOAD_SKILL.name, {"name": name}, f"c{number}")
            history += [Message("user", words.text(40)), Message("assistant", "", (call,))]
            history.append(Message("tool", f"Skill {name} is active now.", tool_call_id=call.id))
        else:
            history.append(Message("user", words.text(60)))
        if (name := RETIRED.get(number)) is not None:
            active.remove(name)
        if (name := REPLACED.get(number)) is not None:
            registry = registry.replaced(_newer(registry[name], words))
        if (switch := SWITCHED.get(number)) is not None:
            off = [name for name in off if name != switch[0]] if switch[1] else [*off, switch[0]]
        if (name := LATE.get(number)) is not None:
            tools.append(_tool(words, name))
        made.append(Turn(number, registry, tuple(active), tuple(tools), tuple(off), tuple(history)))
        history.append(Message("assistant", words.text(150)))
    return tuple(made)


def _skill(words: Words, name: str) -> Skill:
    lines = "\n".join(f"- {words.text(30)}" for _ in range(SKILL_TOKENS // 30))
    return Skill(name, words.text(20), f"# {name}\n\n{lines}")


def _newer(skill: Skill, words: Words) -> Skill:
    """A version of which two lines are others."""
    lines = skill.body.split("\n")
    lines[4], lines[9] = f"- {words.text(30)}", f"- {words.text(30)}"
    return replace(skill, body="\n".join(lines))


def _tool(words: Words, name: str) -> ToolSpec:
    properties = {words.word(): {"type": "string", "description": words.text(10)} for _ in range(3)}
    return ToolSpec(name, words.text(TOOL_TOKENS - 50), {"type": "object", "properties": properties})


def _sent(
    tools: Sequence[ToolSpec],
    messages: Sequence[Message],
    turn: Turn,
    profile: Profile,
    encode: Encoder,
    reported: tuple[str, ...] = (),
) -> Sent:
    """Mark a request and put the tools before it."""
    planned = plan_breakpoints(messages, profile, ahead=("5m",))
    marks = [replace(mark, message=mark.message + 1) for mark in planned.breakpoints]
    marks.append(Breakpoint(0, 0, "tools"))
    array = Message("system", "\n".join(map(tool_json, tools)))
    breakpoints = marks if profile.max_breakpoints else ()
    request = cache_request([array, *messages], breakpoints=breakpoints, at=turn.at, encode=encode)
    return Sent(request, reported)


def rebuilt(profile: Profile, encode: Encoder) -> Iterator[Sent]:
    """What is on and active now, in the head."""
    for turn in turns():
        skills = [turn.registry.block(name) for name in sorted(turn.active)]
        tools = [LOAD_SKILL, *(tool for tool in turn.tools if tool.name not in turn.off)]
        yield _sent(_sorted(tools), [_head(turn, skills), *turn.history], turn, profile, encode)


def everything(profile: Profile, encode: Encoder) -> Iterator[Sent]:
    """All that there is, in the head."""
    for turn in turns():
        skills = [skill.body for skill in turn.registry]
        yield _sent(_sorted([LOAD_SKILL, *turn.tools]), [_head(turn, skills), *turn.history], turn, profile, encode)


def ours(profile: Profile, encode: Encoder) -> Iterator[Sent]:
    """As a program would use the library."""
    first = turns()[0]
    desk = Desk(
        customer="Mara Lindt",
        order="K417",
        skills=first.registry.start(),
        tools=start_tools([LOAD_SKILL, *first.tools], bridge=profile.tool_changes is None),
    )
    now = [START]
    session = AgentSession(desk, key="one", instructions=policy_text(), profile=profile, tag=TAG, clock=lambda: now[0])
    for turn in turns():
        now[0] = START + timedelta(seconds=turn.at)
        skills = session.state.skills
        patch = turn.registry.refresh(skills)
        for name in sorted({*turn.active} - {*skills.active}):
            patch |= turn.registry.load(name, skills)
        for name in sorted({*skills.active} - {*turn.active}):
            patch |= turn.registry.retire(name, skills)
        update = update_tools(session.state.tools, [LOAD_SKILL, *turn.tools], profile=profile, off=turn.off)
        session.update({**patch, **update.patch})
        plan = session.plan(turn.history)
        codes = [notice.code for notice in update.notices] if update.moves_array else []
        codes += [plan.rebased] if plan.rebased is not None else []
        messages = _with_native(plan, wire(plan, turn.history), session.state.tools, profile)
        yield _sent(session.state.tools.array, messages, turn, profile, encode, tuple(codes))
        session.commit(plan)


def _with_native(plan: TurnPlan, sent: Sequence[Message], tools: Tools, profile: Profile) -> list[Message]:
    """The system turns of errata with the blocks that say natively what they say of tools."""
    messages = list(sent)
    for erratum in plan.epoch.errata:
        blocks = native_tool_blocks(plan.epoch, erratum, tools=tools, profile=profile)
        for at, message in enumerate(messages[1:], 1):
            if blocks and message.role == "system" and message.content == erratum.text:
                parts: list[Part] = [{"type": "text", "text": message.text}]
                parts += [{"type": "text", "text": json.dumps(block)} for block in blocks]
                messages[at] = replace(message, content=tuple(parts))
    return messages


def _head(turn: Turn, skills: Sequence[str]) -> Message:
    catalogue = "\n".join(f"- {skill.name}: {skill.description}" for skill in turn.registry)
    state = json.dumps({"customer": "Mara Lindt", "order": "K417"})
    return Message("system", "\n\n".join([policy_text(), catalogue, *skills, state]))


def _sorted(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return sorted(tools, key=lambda tool: tool.name)


ARMS: dict[str, Callable[[Profile, Encoder], Iterator[Sent]]] = {
    "rebuilt": rebuilt,
    "everything": everything,
    "ours": ours,
}
