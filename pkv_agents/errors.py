"""Every error of the library, one tree.

    PkvError
    |-- SchemaError (TypeError)           a class that cannot be tracked; raised where the class is defined
    |-- StateError (ValueError)           a value, patch or path that does not fit the schema
    |   `-- UnknownKeyError (KeyError)    a keyed list has no such item
    |-- SessionError
    |   |-- MissingSessionKeyError (KeyError)
    |   `-- ConflictError                 somebody else recorded a turn in between
    |-- LedgerError                       a ledger that cannot be read: damaged, or of a newer version
    |-- StyleError (ValueError)           a wording of errata that could be misread or forged
    |-- ProfileError                      a provider profile that contradicts itself
    |-- PriceError (ValueError)           a price or a price table that does not fit
    |-- StoreError                        a store that failed: of sessions, or of compiled segments
    |-- ConformanceError (AssertionError) a store that does not do what sessions rely on
    |-- MessageError (ValueError)         a message that no provider would accept
    |-- ToolError (ValueError)            a tool spec that no provider would accept
    |-- SkillError (ValueError)           a skill that breaks the format, is unknown, or does not fit
    |-- ModelError                        local models
    |   |-- UnsupportedModelError         an architecture or cache whose KV cannot be handled exactly
    |   |-- TemplateError                 a chat template that is missing or cannot carry the conversation
    |   |-- ContextLengthError            more tokens than the model was built for
    |   |-- AdapterError                  an adapter that belongs to another model
    |   |-- OptionsError (ValueError)     an option of a generation that makes no sense
    |   |-- SlabError (ValueError)        a cut, commit or copy that does not fit the KV slab
    |   |-- SegmentError (ValueError)     a KV segment, field or edit that does not fit its model, place or neighbours
    |   `-- GrammarError                  a schema that constrained decoding cannot express
    `-- StrictNoticeError                 a notice, raised because the session is strict

A message names the field or path, the type of what was given (never the value: it may be secret), and the mend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .notices import Notice


class PkvError(Exception):
    """The root of the tree: `except PkvError` catches everything that the library raises on purpose."""


class SchemaError(PkvError, TypeError):
    """A schema that cannot be tracked; the message names class, field, type and the mend."""


class StateError(PkvError, ValueError):
    """A value, patch or path that does not fit the state; the message names path, type and the mend."""


class UnknownKeyError(StateError, KeyError):
    """A keyed list has no item with this key."""

    def __str__(self) -> str:
        """The message itself (a plain KeyError would show it quoted)."""
        return Exception.__str__(self)


class SessionError(PkvError):
    """A session that was used in a way that it cannot serve."""


class MissingSessionKeyError(SessionError, KeyError):
    """A session without a key: one conversation would leak into another."""

    def __str__(self) -> str:
        """The message itself (a plain KeyError would show it quoted)."""
        return Exception.__str__(self)


class ConflictError(SessionError):
    """The ledger moved between plan and commit, or between load and save."""


class LedgerError(PkvError):
    """A ledger that cannot be read: damaged, or written by a newer version of the library."""


class StyleError(PkvError, ValueError):
    """A wording of errata that could be misread or forged; the message names the attribute and the mend."""


class ProfileError(PkvError):
    """A provider profile that contradicts itself."""


class PriceError(PkvError, ValueError):
    """A price or a price table that does not fit; the message names row, field and the mend."""


class StoreError(PkvError):
    """A store that failed: of sessions, or of compiled segments.

    A driver's own error, whose text may hold a password, is not shown with it; a debugger finds it in `__context__`.
    """


class ConformanceError(PkvError, AssertionError):
    """A session store that does not do what sessions rely on; the message names the check and what was seen."""


class MessageError(PkvError, ValueError):
    """A message with an unknown role or with content that cannot be sent."""


class ToolError(PkvError, ValueError):
    """A tool without a name, declared twice, or with a schema that is not plain JSON data."""


class SkillError(PkvError, ValueError):
    """A skill that breaks the format, is unknown, depends on itself, or does not fit the budget."""


class ModelError(PkvError):
    """The root of the errors of local models."""


class UnsupportedModelError(ModelError):
    """An architecture or cache whose KV cannot be handled exactly."""


class TemplateError(ModelError):
    """A chat template that is missing or cannot carry the conversation."""


class ContextLengthError(ModelError):
    """More tokens than the model was built for."""


class AdapterError(ModelError):
    """An adapter that belongs to another model."""


class OptionsError(ModelError, ValueError):
    """An option of a generation that makes no sense."""


class SlabError(ModelError, ValueError):
    """A cut, a commit or a copy that does not fit the KV slab."""


class SegmentError(ModelError, ValueError):
    """A KV segment, field or edit that does not fit its model, its place or its neighbours."""


class GrammarError(ModelError):
    """A schema that constrained decoding cannot express."""


class StrictNoticeError(PkvError):
    """A notice, raised because the session is strict.

    Attributes:
        notice: The notice that would otherwise only have been reported.
    """

    def __init__(self, notice: Notice) -> None:
        super().__init__(f"{notice} (raised because strict=True)")
        self.notice = notice
