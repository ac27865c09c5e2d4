"""What breaks a prompt's prefix in LlamaIndex, and the way that keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemory, Memory
from llama_index.core.workflow import Context
from llama_index.core.workflow.errors import WorkflowRuntimeError  # pyright: ignore[reportPrivateImportUsage]

from llama_index.llms.pkv._lately import Lately
from llama_index.llms.pkv.memory import StateMemory
from pkv_agents import MissingSessionKeyError, Notice


def step_context() -> Context[Any] | None:
    """The context of the workflow step that runs now, or None outside of one."""
    try:
        return cast("Context[Any]", Context.get_step_context())
    except WorkflowRuntimeError:
        return None


def outside_of_a_step() -> MissingSessionKeyError:
    """The error of a call that needs a context where there is none."""
    return MissingSessionKeyError(
        "no workflow step is running, so there is no context to find the session in: run an agent or a workflow, "
        "or give StatefulLLM an AgentSession"
    )


async def workflow_notices(ctx: Context[Any], messages: Sequence[ChatMessage]) -> list[Notice]:
    """What in a workflow's context changes messages that were sent before.

    Args:
        ctx: The context of the running step.
        messages: The messages that its agent sends.
    """
    notices: list[Notice] = []
    store = ctx.store
    if await store.get("formatted_input_with_state", default=False) and await store.get("state", default=None):
        notices.append(STATE_PROMPT)
    memory = cast("object", await store.get("memory", default=None))
    blocks = cast("list[Any]", cast("Any", memory).memory_blocks) if isinstance(memory, Memory) else []
    if isinstance(memory, Memory) and blocks:
        notices.append(_memory_blocks(memory, [str(block.name) for block in blocks]))
    elif isinstance(memory, BaseMemory) and not isinstance(memory, StateMemory):
        kept = await memory.aget_all()
        if kept and not _has(messages, kept[0]) and _has(messages, kept[-1]):
            notices.append(_trims(memory))
    agent = str(await store.get("current_agent_name", default="") or "")
    retriever = _retriever(ctx, agent)
    if retriever is not None and not getattr(retriever, "keeps_the_array", False):
        notices.append(_finds_others(type(retriever).__name__))
    return notices


def _retriever(ctx: Context[Any], agent: str) -> object:
    """The tool retriever of the agent that runs, or None."""
    # The workflows package shows a step no way to its workflow; where this one is gone, tools_changed alone tells.
    workflow = getattr(getattr(ctx, "_face", None), "_workflow", None)
    named = cast("Mapping[str, object]", getattr(workflow, "agents", None) or {})
    return getattr(named.get(agent, workflow), "tool_retriever", None)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The latest request with tools: whose cache it filled, its tools, its first message and how many it had."""

    model: str
    tools: str
    first: ChatMessage | None
    count: int


_tools: WeakKeyDictionary[Any, Lately[list[_Seen]]] = WeakKeyDictionary()


def tools_notice(owner: object, name: str, model: str, messages: Sequence[ChatMessage], tools: object) -> Notice | None:
    """The notice for tools that are not those of the latest request of the same conversation to the same model.

    A question beside the conversation (a structured answer, a tool that asks the model) begins with another message and
    is shorter; it has tools of its own.

    Args:
        owner: Whose requests are compared: a session, or what makes them.
        name: Which conversation of the owner's.
        model: Whose cache the request fills.
        messages: The request's messages.
        tools: The tools as the package sends them; None where there are none.
    """
    if not tools:
        return None
    first = next((message.model_copy() for message in messages if message.role != MessageRole.SYSTEM), None)
    now = _Seen(model, json.dumps(tools, default=repr), first, len(messages))
    seen = _tools.setdefault(owner, Lately(list)).of(name)
    before = seen[0] if seen else None
    longer = before is None or now.count >= before.count
    if longer:
        seen[:] = [now]
    if before is None or not longer or before.first != first:
        return None
    return TOOLS_CHANGED if before.model == model and before.tools != now.tools else None


def _has(messages: Sequence[ChatMessage], one: ChatMessage) -> bool:
    return any(one is other or (one.role == other.role and one.content == other.content) for other in messages)


STATE_PROMPT = Notice(
    "state_prompt",
    path="initial_state",
    cost="the values of every past run stay in the history, untrue; or, where the memory gives out copies, everything "
    "from each run's message on is read again",
    mend="leave initial_state empty and keep the state in a TrackedState: StatefulLLM(llm, ContextSession(...))",
    message="the agent puts its state into the newest user message",
)


TOOLS_CHANGED = Notice(
    "tools_changed",
    path="tools",
    cost="the tools stand before everything, so nothing of the request was served from the cache",
    mend="send the same tools in the same order on every call; StateTools does, tells the model what came, went or is "
    "off, and refuses calls of what is off",
    message="the tools are not those of the latest request",
)


def _finds_others(kind: str) -> Notice:
    return Notice(
        "tool_retriever",
        path=kind,
        cost="the tools stand before everything, so whenever it finds others, nothing is served from the cache",
        mend="tool_retriever=StateTools(llm, that_retriever): it sends the same tools always, and tells of those that "
        "are found later",
        message="the agent's tool retriever may find other tools, or another order, for each question",
    )


def _memory_blocks(memory: Memory, names: Sequence[str]) -> Notice:
    where = "system message" if str(getattr(memory.insert_method, "value", "")) == "system" else "newest user message"
    return Notice(
        "memory_blocks",
        path=", ".join(names),
        cost="whenever a block says something else, everything behind it is read again",
        mend="keep what the blocks know in a field of the tracked state, and the messages in a StateMemory",
        message=f"memory blocks are written into the {where}",
    )


def _trims(memory: BaseMemory) -> Notice:
    return Notice(
        "memory_trims",
        path=type(memory).__name__,
        cost="with each message that is dropped at the front, everything behind the head is read again",
        mend="use StateMemory, which drops the front rarely and much of it at once, or raise the token limit",
        message="the memory leaves out the beginning of the conversation",
    )
