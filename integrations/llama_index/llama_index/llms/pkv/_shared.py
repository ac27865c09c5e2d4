"""Which context a memory belongs to: two contexts with one memory would each know half of what was told."""

from __future__ import annotations

from weakref import ReferenceType, finalize, ref

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
