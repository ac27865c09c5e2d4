"""Markers: what a schema says about a field, by `Annotated`; `TrackedState` shows them in use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .errors import SchemaError
from .escape import escape_text
from .keyed import KeyedList


@dataclass(frozen=True, slots=True)
class Tracked:
    """The default: the field stands in the baseline and every change of it is told.

    Attributes:
        key: For a list of models: the field that gives each item its identity. Entries are then named
            `orders[K417]`, and the list can be read and patched by key.
        label: Words for the model, shown once in the baseline: `customer.tier (loyalty tier): "gold"`.
        critical: Its erratum is told again when much has been said since (`RebasePolicy.restate_after_tokens`).
        ttl: How long a value stays true after it was told; then the model is told, once, since when it is stale.
            Setting it by `AgentSession.update`, be it to the same value, renews it; elsewhere only another value does.
    """

    key: str | None = None
    label: str | None = None
    critical: bool = False
    ttl: timedelta | None = None

    def __post_init__(self) -> None:
        """A label stands outside quotes in the head, so it must be plain words; a ttl is a span of time."""
        if self.ttl is not None and not (isinstance(self.ttl, timedelta) and self.ttl > timedelta(0)):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise SchemaError(f"ttl ({type(self.ttl).__name__}): a positive timedelta, as timedelta(minutes=5)")
        for name in ("key", "label"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise SchemaError(f"{name} of a Tracked marker is a {type(value).__name__}; pass a str")
        if self.label is not None and (not self.label or escape_text(self.label) != self.label):
            raise SchemaError(f"label {self.label!r} has quotes, markup or control characters; use plain words")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Turn a keyed list into a `KeyedList` when it is validated."""
        schema = handler(source)
        if self.key is None:
            return schema
        key = self.key

        def to_keyed(value: Any) -> Any:
            return KeyedList[Any].of(cast("list[Any]", value), key) if isinstance(value, list) else value

        return core_schema.no_info_after_validator_function(to_keyed, schema)


@dataclass(frozen=True, slots=True)
class Volatile:
    """A clock or a counter: never in the baseline, told beside the messages, and then only past its resolution.

    Attributes:
        resolution: The smallest move worth telling: a timedelta for dates, times and spans of time, a number for
            numbers. None tells every change. One that fits no type of the field is a SchemaError of its class; in a
            union, the values of the other types are told at every change.
    """

    resolution: timedelta | float | None = None

    def __post_init__(self) -> None:
        """A resolution of zero or less would be no resolution."""
        if isinstance(self.resolution, bool) or not isinstance(self.resolution, (timedelta, int, float, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            kind = type(self.resolution).__name__
            raise SchemaError(f"resolution ({kind}): a timedelta for times, or a number for numbers")
        if self.resolution is not None:
            zero = timedelta(0) if isinstance(self.resolution, timedelta) else 0
            if not self.resolution > zero:  # pyright: ignore[reportOperatorIssue] (same kind as zero, by the line above)
                raise SchemaError(f"resolution {self.resolution!r} must be positive; leave it out to tell every change")


@dataclass(frozen=True, slots=True)
class Pinned:
    """A field that should not change in a session: a change begins a new epoch and is reported."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A field that is never in a prompt, a notice, a log line of ours, a ledger or the state's repr.

    `SecretStr` is hidden by itself. The state itself holds the value in clear wherever the application keeps it: in
    LangGraph that is the graph's state with its outputs, traces and checkpoints.
    """


@dataclass(frozen=True, slots=True)
class Untrusted:
    """A field whose value came from users or tools, so that a model must not take it for the application's word.

    Where the value stands, its line says so: `note (untrusted): "..."`, in the baseline and in each erratum; and the
    declaration above the baseline says once what that means (`ErrataStyle.untrusted`, `untrusted_declaration`). The
    mark stands outside the quotes, so no value can set it or take it off. Values are escaped alike, marked or not.
    On a container it holds for everything inside. For a limit of length, use pydantic's `Field(max_length=...)`.
    """


@dataclass(frozen=True, slots=True)
class Shared:
    """A field whose value is the same for all users of the agent: a policy, a skill, a catalogue.

    It stands above the session's own baseline, where sessions can share its cache, and a text of several lines stands
    there as it is and not as JSON (markup and control words in it are escaped). Its changes are told like all others.
    What is Untrusted as well stands in the baseline, in quotes. On a container it holds for everything inside.
    """


Marker = Tracked | Volatile | Pinned | Hidden | Untrusted | Shared
MARKERS = (Tracked, Volatile, Pinned, Hidden, Untrusted, Shared)
