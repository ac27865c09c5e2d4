"""`TrackedState`: the typed state of an agent, as its user declares it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ._keys import give_keys
from ._schema import ANYTHING, check_name, model_spec
from ._validation import state_error
from ._walk import check_value, extra_path, extras
from .errors import SchemaError, StateError


class TrackedState(BaseModel):
    """The base class of a state: a pydantic model whose every visible leaf can be told to a model.

    Undeclared fields are refused, assignments to its own fields are validated, and a class that could not be rendered
    is refused where it is defined. Markers say what is special about a field; nested models may be plain pydantic
    models (whose assignments pydantic does not validate: patch them by path, `session.update({...})`).

    Two limits are fixed: the text of one value has at most 1,000,000 characters, and values nest at most 64 deep.

    A patch validates the model that it touches anew, and so does reading a state back. A validator must therefore
    accept, unchanged, what it has made.

        class Shop(TrackedState):
            customer: Customer
            orders: Annotated[list[Order], Tracked(key="id")]
            now: Annotated[datetime, Volatile(resolution=timedelta(minutes=10))]
            api_token: Annotated[str, Hidden()]

    Raises:
        SchemaError: At the class definition, when a field cannot be tracked.
        StateError: On a value that does not fit or cannot be rendered; the message names path, type and mend and
            never shows the value.
    """

    # Arbitrary types are let through to our own check, which knows how to say what to do instead.
    model_config = ConfigDict(
        validate_assignment=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse reserved names before pydantic sees them."""
        super().__init_subclass__(**kwargs)
        for name in inspect.get_annotations(cls):
            if name.startswith("model_") or name in _TAKEN:
                raise SchemaError(f"field {name!r} of {cls.__name__} hides a name of pydantic's models; rename it")
            if not name.startswith("_"):
                check_name(name, f"field {name!r} of {cls.__name__}")

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        """Compile the schema as soon as all its types are known."""
        super().__pydantic_on_complete__()
        if not cls.__pydantic_generic_metadata__["parameters"]:
            model_spec(cls)

    @classmethod
    def model_validate(cls, obj: Any, **kwargs: Any) -> Self:
        """As pydantic's, with our error."""
        try:
            made = super().model_validate(obj, **kwargs)
        except ValidationError as error:
            raise state_error(error, cls) from None
        check_state(made)
        return made

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **kwargs: Any) -> Self:
        """As pydantic's, with our error."""
        try:
            made = super().model_validate_json(json_data, **kwargs)
        except ValidationError as error:
            raise state_error(error, cls) from None
        check_state(made)
        return made

    if not TYPE_CHECKING:  # a typed __init__ or __setattr__ would hide the fields from type checkers

        def __init__(self, /, **data):
            """Make a state; raises StateError on a value that does not fit."""
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise state_error(error, type(self)) from None
            check_state(self)

        # Pydantic then builds nested states itself, so that an error knows its whole path.
        __init__.__pydantic_base_init__ = True

        def __setattr__(self, name, value):
            """Assign a field, validated; raises StateError on a value that does not fit."""
            fields = type(self).model_fields
            if name not in fields and (name.startswith("_") or hasattr(type(self), name)):
                return super().__setattr__(name, value)
            extra = self.model_extra
            if name not in fields and extra is None:
                raise StateError(
                    f"{name} ({type(value).__name__}): {type(self).__name__} has no such field; "
                    f"declare it in the schema, or check the spelling (it has {', '.join(fields)})"
                )
            before, were_set = dict(self.__dict__), set(self.__pydantic_fields_set__)
            extra = None if extra is None else dict(extra)
            try:
                super().__setattr__(name, value)
                check_state(self, name)
            except BaseException as error:
                # A model validator runs after the assignment, so what it refuses must be taken back.
                object.__setattr__(self, "__dict__", before)
                object.__setattr__(self, "__pydantic_fields_set__", were_set)
                object.__setattr__(self, "__pydantic_extra__", extra)
                if isinstance(error, ValidationError):
                    raise state_error(error, type(self)) from None
                raise


_TAKEN = frozenset(name for name in dir(BaseModel) if not name.startswith("_"))


def check_state(state: TrackedState, only: str | None = None) -> None:
    """Find a value without a text (NaN, a lone surrogate, two equal keys) now and not when it should be told.

    A default is not validated by pydantic, so a default list becomes a KeyedList here.
    """
    for name, value in extras(state):
        if only in (None, name):
            check_value(value, extra_path("", name), ANYTHING)
    values: dict[str, Any] = vars(state)  # the fields themselves: assigning here validates nothing again
    for name, node in model_spec(type(state)).fields:
        if name in values and only in (None, name):
            check_value(values[name], name, node)
    give_keys(state, only)
