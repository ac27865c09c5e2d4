"""What must not be shared: a memory by two contexts, a field of the state by two agents' tools.

Each context would know half of what was told; each agent would take the other's tools for its own.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, finalize, ref

from pkv_agents import SessionError

_owners: dict[int, tuple[ReferenceType[object], str]] = {}


def claim_memory(memory: object, context: str) -> None:
    """Note that a context uses a memory.

    Args:
        memory: The context's memory, or None.
        context: The context's name.

    Raises:
        SessionError: Another context uses it already.
    """
    if memory is None:
        return
    known = _owners.get(id(memory))
    if known is not None and known[0]() is memory:
        if known[1] != context:
            raise SessionError(
                f"the {type(memory).__name__} of this context ({context}) belongs to another one ({known[1]}), which "
                "holds the state and the ledger of that conversation: pass ctx=... with each run of a conversation, "
                "and give each conversation a memory of its own"
            )
        return
    try:
        _owners[id(memory)] = (ref(memory), context)
    except TypeError:  # an object that cannot be watched cannot be told from its successor at the same place
        return
    finalize(memory, _owners.pop, id(memory), None)


_fields: WeakKeyDictionary[Any, dict[str, tuple[str, int]]] = WeakKeyDictionary()


def claim_field(owner: Any, field: str, agent: str, tools: object) -> None:
    """Note that an agent's tools are held in a field of the state.

    Args:
        owner: Whose state it is: a session, or the store of a workflow's context.
        field: The path of the field.
        agent: The agent's name.
        tools: Its tools. Two agents may have the very same.

    Raises:
        SessionError: Another agent's tools are held there.
    """
    known = _fields.setdefault(owner, {}).setdefault(field, (agent, id(tools)))
    if known[0] != agent and known[1] != id(tools):
        raise SessionError(
            f"{field}: the agents {known[0]!r} and {agent!r} keep different tools in one field of the state: give each "
            "a `Tools` field of its own, StateTools(..., field=...), or both the same StateTools"
        )
    _fields[owner][field] = (agent, id(tools))
