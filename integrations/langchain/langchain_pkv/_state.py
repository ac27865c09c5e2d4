"""The channels that the middleware adds to a graph, and reading the state out of one."""
# No `from __future__ import annotations`: LangGraph evaluates the annotations of the classes made here.

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, TypeVar

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.types import OmitFromOutput, PrivateStateAttr

from langchain_pkv._channel import StateChannel, StateData
from langchain_pkv._ledger import STATE_CHANNEL
from langchain_pkv._merging import misfit
from langchain_pkv._messages import compact_json
from langchain_pkv._plain import load
from pkv_agents import Notice, SchemaError, StateError, TrackedState

StateT = TypeVar("StateT", bound=TrackedState)


def _given(_old: str, _new: object) -> str:
    return "given"


def graph_state(schema: type[TrackedState] | None, on_conflict: Callable[[Notice], None] | None) -> type[Any]:
    """The channels that the middleware adds to the graph."""
    if schema is None:

        class PkvAppState(AgentState[Any]):
            # Only to see that it was given: LangGraph drops what it knows no channel for without a word.
            pkv_state: NotRequired[Annotated[str, OmitFromOutput, _given]]
            pkv_ledger: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]

        return PkvAppState
    channel = StateChannel(schema, on_conflict)

    class PkvState(AgentState[Any]):
        pkv_state: NotRequired[Annotated[dict[str, Any], channel]]
        pkv_ledger: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]

    return PkvState


def read_state(schema: type[StateT], values: Mapping[str, Any]) -> StateT:
    """Read the tracked state out of the graph's state, in a tool, in a node or from `agent.get_state(config).values`.

    Args:
        schema: The class of the state.
        values: The graph's state, for example a tool's `runtime.state`.

    Returns:
        A fresh instance. To change the state return a patch; changing the instance changes nothing.

    Raises:
        StateError: If there is no state yet, if it does not fit the schema, or if the last update was refused.
    """
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise SchemaError("read_state takes the schema first and then the graph's state: read_state(Shop, values)")
    data = values.get(STATE_CHANNEL)
    refused = data.refused if isinstance(data, StateData) else None
    if refused is not None:
        raise StateError(
            f"the last update of {STATE_CHANNEL} was refused and the state is unchanged: {refused}. "
            f"Send a corrected update ({{}} keeps the state as it is)"
        )
    if not data:
        raise StateError(
            f"there is no state yet: give one with the thread's first call, "
            f'agent.invoke({{"messages": [...], "{STATE_CHANNEL}": {schema.__name__}(...)}}, config)'
        )
    if isinstance(data, schema):
        raise SchemaError(
            f"{STATE_CHANNEL} holds an instance: another state schema of this agent declares the key {STATE_CHANNEL} "
            f"and hides StateMiddleware's channel; remove it there"
        )
    try:
        return load(schema, compact_json(data))
    except StateError as error:
        raise StateError(misfit(schema, error)) from None
