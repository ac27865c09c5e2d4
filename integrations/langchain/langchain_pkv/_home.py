"""Where the tracked state is, in the graph or with the application, and how it is read and changed there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from langgraph.runtime import Runtime

from langchain_pkv._state import read_state
from pkv_agents import SchemaError, StateError, TrackedState, apply_patch, dump_state

StateSource = TrackedState | Callable[[Runtime[Any]], TrackedState]
OnPatch = Callable[[Mapping[str, object], Runtime[Any]], None]
Patch = Mapping[str, object]
NOTHING: Patch = {}


class Home:
    """Where the state is.

    Args:
        schema: Its class.
        source: The application's object, or its function from LangGraph's `Runtime`; None: the graph's channel.
        on_patch: Changes the application's state.
        patched_by: The options by which the state is changed here, for the error where it cannot be.

    Raises:
        SchemaError: `source` is neither, or the state cannot be changed and has to be.
    """

    def __init__(
        self,
        schema: type[TrackedState],
        source: StateSource | None,
        on_patch: OnPatch | None = None,
        patched_by: str = "",
    ) -> None:
        if source is not None and (isinstance(source, type) or not (isinstance(source, schema) or callable(source))):
            given = source.__name__ if isinstance(source, type) else f"a {type(source).__name__}"
            raise SchemaError(
                f"state takes {schema.__name__}(...), or a function from LangGraph's Runtime to one, not {given}"
            )
        if inspect.iscoroutinefunction(source):
            raise SchemaError(
                "state takes a function that is not async: leave state= out, read the state in an async hook of a "
                'middleware of yours (abefore_model), and return {"pkv_state": ...} from there'
            )
        if on_patch is not None and (source is None or not callable(on_patch)):  # pyright: ignore[reportUnnecessaryComparison]
            raise SchemaError(
                "on_patch is a function that changes the application's state; it goes together with state="
            )
        owns = source is None or (isinstance(source, TrackedState) and not schema.model_config.get("frozen"))
        if patched_by and not owns and on_patch is None:
            raise SchemaError(
                f"{patched_by} changes the state, and what state= gives cannot be changed from here: give on_patch=, a "
                "function that takes a patch and the Runtime and applies it where the state is (`apply_patch`)"
            )
        self.schema = schema
        self._source = source
        self._on_patch = on_patch

    @property
    def is_graph(self) -> bool:
        """Whether it is the graph's channel; then a patch is a write of the graph."""
        return self._source is None

    def read(self, values: Mapping[str, Any], runtime: Any) -> TrackedState:
        """The state as it is now.

        Args:
            values: The graph's state.
            runtime: LangGraph's `Runtime`, or a tool's.

        Raises:
            StateError: There is none, or it does not fit the schema.
        """
        if self._source is None:
            return read_state(self.schema, values)
        state = self._source if isinstance(self._source, TrackedState) else self._source(runtime)
        if not isinstance(state, self.schema):
            raise StateError(f"state: expected a {self.schema.__name__}, not {type(state).__name__}")
        return state

    def changed(self, state: TrackedState, patch: Patch, runtime: Any) -> TrackedState:
        """The state with a patch. Where the application owns it, it is changed there; the graph's is left to a write.

        Args:
            state: What `read` gave.
            patch: The patch; an empty one changes nothing.
            runtime: LangGraph's `Runtime`, or a tool's.

        Raises:
            StateError: The patch does not fit, or `on_patch` did not apply it.
        """
        if not patch:
            return state
        made = apply_patch(state, dict(patch))
        if self._source is None:
            return made
        if self._on_patch is None:
            for name in {path.partition(".")[0].partition("[")[0] for path in patch}:
                setattr(state, name, getattr(made, name))
            return state
        before = dump_state(state)
        self._on_patch(patch, runtime)
        now = self.read({}, runtime)
        if dump_state(now) == before:  # more may have changed meanwhile, but not nothing
            raise StateError(
                f"on_patch: the state is as it was before {', '.join(sorted(patch)[:3])}; apply the patch to the state "
                "that state= returns, as `apply_patch(state, patch)` does"
            )
        return now
