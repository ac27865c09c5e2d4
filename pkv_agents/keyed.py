"""A list whose items have an identity: `orders["K417"]` as well as `orders[0]`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Generic, SupportsIndex, TypeVar, cast, get_args, overload

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from .errors import StateError, UnknownKeyError

T = TypeVar("T")


def key_text(value: object) -> str | None:
    """The text of a key in a path, or None when a value of this kind cannot be a key."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) or type(value).__name__ == "UUID" else None


class KeyedList(list[T], Generic[T]):
    """A list that can also be read by its items' key.

    Pydantic makes one for each field that is declared with `Tracked(key=...)`. It is a list in every respect;
    a str subscript looks an item up by key, an int is the position as always. For a type checker that should know the
    str subscript, declare the field as `Annotated[KeyedList[Order], Tracked(key="id")]`.
    """

    key: str = ""

    @classmethod
    def of(cls, items: Iterable[T], key: str) -> KeyedList[T]:
        """Make a keyed list.

        Args:
            items: Models with an attribute named `key`.
            key: The attribute that identifies an item.

        Returns:
            The list, checked for duplicates.

        Raises:
            StateError: Two items have the same key.
        """
        keyed = cls(items)
        keyed.key = key
        keyed.keys()
        return keyed

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate like `list[T]`; the marker makes the result a KeyedList."""
        item = get_args(source) or (Any,)
        return handler.generate_schema(list[item[0]])

    def keys(self) -> tuple[str, ...]:
        """All keys, in the list's order.

        Raises:
            StateError: Two items have the same key.
        """
        seen: dict[str, None] = {}
        for item in self:
            text = self._key_of(item)
            if text in seen:
                raise StateError(f"two items have the key {self.key}={text!r}; keys must be unique in one list")
            seen[text] = None
        return tuple(seen)

    def get(self, key: str) -> T | None:
        """The item with this key, or None."""
        return next((item for item in self if self._key_of(item) == key), None)

    def _key_of(self, item: object) -> str:
        text = key_text(getattr(item, self.key, None))
        if text is None:
            raise StateError(f"an item ({type(item).__name__}) has no usable {self.key!r}; set it")
        return text

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[T]: ...
    @overload
    def __getitem__(self, index: str, /) -> T: ...
    def __getitem__(self, index: SupportsIndex | slice | str, /) -> T | list[T]:
        """By position, slice, or key.

        Raises:
            StateError: No item has this key (also a KeyError to code that expects one).
        """
        if not isinstance(index, str):
            return super().__getitem__(index)
        found = self.get(index)
        if found is None:
            raise UnknownKeyError(f"no item has the key {self.key}={index!r}; {len(self)} items are here")
        return found

    def __contains__(self, item: object, /) -> bool:
        """Whether an item, or a key given as str, is in the list."""
        if isinstance(item, str) and self.key:
            return self.get(item) is not None
        return super().__contains__(item)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        """Copy and pickle with the key."""
        return (cast(Any, _rebuild), (list(self), self.key))


def _rebuild(items: list[Any], key: str) -> KeyedList[Any]:
    keyed: KeyedList[Any] = KeyedList(items)
    keyed.key = key
    return keyed
