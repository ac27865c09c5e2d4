"""Tools that run side by side count in the order in which the model called them, however they finish.

LlamaIndex runs the calls of one answer at the same time, and keeps their results as they finish. Where two of them
change one field, the later call wins here, and the request that follows has the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from llama_index.core.base.llms.types import ChatMessage

from pkv_agents import Message, StateError, TrackedState, apply_patch, dump_state, load_state

try:
    from workflows.runtime.types import results as _runtime  # pyright: ignore[reportMissingTypeStubs]
except ImportError:  # a version of the workflows package that has it elsewhere: then changes count as they come
    _runtime = None

StateT = TypeVar("StateT", bound=TrackedState)


@dataclass(slots=True)
class _Step:
    """The calls of one answer.

    Attributes:
        places: Their ids, each with its place in the answer.
        before: The state before the first of their changes, as data.
        after: The state with all of them so far, as data.
        patches: Place and patch of each change, as they came.
    """

    places: Mapping[str, int]
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    patches: list[tuple[int, Mapping[str, object]]] = field(default_factory=list[tuple[int, Mapping[str, object]]])


_steps: WeakKeyDictionary[Any, _Step] = WeakKeyDictionary()


def note_calls(store: Any, ids: Sequence[str]) -> None:
    """Remember the calls of a model's answer. What a running call asks a model by itself is no such answer.

    Args:
        store: The store of the workflow's context in which they will run.
        ids: Their ids in the order of the answer, as the workflow knows them.
    """
    step, running = _steps.get(store), _running_call()
    if ids and not (step is not None and running and running in step.places):
        _steps[store] = _Step({one: at for at, one in reversed(list(enumerate(ids)))})


def patched(
    store: Any, state: StateT, patch: Mapping[str, object] | Callable[[StateT], Mapping[str, object]]
) -> StateT:
    """The state with one more change, which counts at its call's place among the calls beside it.

    What a function made of the state counts after whatever it was made of: a sum is lost otherwise.

    Args:
        store: The store of the workflow's context.
        state: The state that it holds.
        patch: The change, or a function of that state which returns it.

    Raises:
        StateError: The change fits neither at its place nor as the last one.
    """
    made = patch(state) if callable(patch) else patch
    step, place = _steps.get(store), None
    if step is not None:
        place = step.places.get(_running_call())
    if step is None or place is None:
        return apply_patch(state, made)
    data = dump_state(state)
    if step.after != data:  # the first change, or somebody else's came between
        step.before, step.patches = data, []
    patches = step.patches
    try:
        one = deepcopy(dict(made))
        patches = [*step.patches, (place, one)]
        found = _replayed(type(state), step.before or data, patches)
        if callable(patch) and dump_state(found) != dump_state(last := apply_patch(state, one)):
            found, patches = last, [*step.patches, (max(at for at, _ in patches), one)]
    except (StateError, TypeError):  # TypeError: a value that cannot be copied, which the next line refuses by its path
        # A later call's change counts already and is not undone; or this one is wrong wherever it stands.
        found = apply_patch(state, made)
        step.before, patches = dump_state(found), []
    step.patches, step.after = patches, dump_state(found)
    return found


def _replayed(
    schema: type[StateT], before: Mapping[str, object], patches: Sequence[tuple[int, Mapping[str, object]]]
) -> StateT:
    """The state with some changes in the order of their places; those of one place as they came."""
    found = load_state(schema, before)
    for _, one in sorted(patches, key=lambda pair: pair[0]):
        found = apply_patch(found, one)
    return found


def running_tool() -> str:
    """The name of the tool whose call the running step answers, or nothing."""
    return str(getattr(_running_event(), "tool_name", ""))


def _running_call() -> str:
    """The id of that call, or nothing."""
    return str(getattr(_running_event(), "tool_id", ""))


def _running_event() -> object:
    running = getattr(_runtime, "StepWorkerStateContextVar", None)
    step = running.get(None) if running is not None else None
    return getattr(step, "event", None)


def in_call_order(messages: Sequence[ChatMessage], core: Sequence[Message]) -> tuple[list[ChatMessage], list[Message]]:
    """Messages whose tool results stand in the order of their calls.

    A pure function of the history, so what was sent is sent again as it was. Results whose calls cannot be told apart
    stay where they are.

    Args:
        messages: The caller's messages; left as they are.
        core: `to_core(messages)`.
    """
    order = list(range(len(core)))
    for at, message in enumerate(core):
        if message.role != "assistant" or len(message.tool_calls) < 2:
            continue
        # Ollama's package keeps no ids of calls, and gives their results the tools' names.
        places = {call.id or call.name: place for place, call in enumerate(message.tool_calls)}
        end = at + 1
        while end < len(core) and core[end].role == "tool":
            end += 1
        ids = [one.tool_call_id or "" for one in core[at + 1 : end]]
        if len(places) == len(message.tool_calls) and len(set(ids)) == len(ids) and set(ids) <= places.keys():
            order[at + 1 : end] = sorted(order[at + 1 : end], key=lambda one: places[core[one].tool_call_id or ""])
    return [messages[at] for at in order], [core[at] for at in order]


__all__ = ["in_call_order", "note_calls", "patched", "running_tool"]
