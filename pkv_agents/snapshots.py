"""The snapshot: a state at one moment, flat, as the text that a model would read.

A snapshot maps each leaf's path to its JSON text. No leaf's path lies inside another's, so two snapshots can be
compared and folded line by line (see `diff`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class LeafMeta:
    """What the schema says about a leaf, inherited from the fields around it.

    A label is not inherited, and what is Volatile is not Pinned: it never stands in a head.
    """

    label: str | None = None
    volatile: bool = False
    resolution: timedelta | float | None = None
    pinned: bool = False
    critical: bool = False
    untrusted: bool = False
    ttl: timedelta | None = None
    shared: bool = False

    def inside(self, outer: LeafMeta) -> LeafMeta:
        """This leaf's meta when its field stands inside a field with `outer`."""
        if outer is PLAIN or outer == PLAIN:
            return self
        volatile = self.volatile or outer.volatile
        return LeafMeta(
            label=self.label,
            volatile=volatile,
            resolution=self.resolution if self.volatile else outer.resolution,
            pinned=(self.pinned or outer.pinned) and not volatile,
            critical=self.critical or outer.critical,
            untrusted=self.untrusted or outer.untrusted,
            ttl=self.ttl if self.ttl is not None else outer.ttl,
            shared=self.shared or outer.shared,
        )


PLAIN = LeafMeta()


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot(Mapping[str, str]):
    """A frozen, ordered mapping from path to JSON text.

    Two snapshots are equal when they say the same, whatever the order of their lines and the meta beside them.

    Attributes:
        leaves: Path to JSON text, in schema order.
        meta: What the schema says about those leaves that are not plain.
        hidden: The paths of the Hidden fields and secrets that were met; their values were not read.
        lists: The paths of lists without a key whose items have lines of their own (`items[0].price`).
        schema: The class of the state, which knows what it would hide elsewhere.
    """

    leaves: Mapping[str, str] = field(default_factory=dict[str, str])
    meta: Mapping[str, LeafMeta] = field(default_factory=dict[str, LeafMeta])
    hidden: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    schema: type[BaseModel] | None = None

    def __getitem__(self, path: str) -> str:
        """The JSON text of the leaf at `path`."""
        return self.leaves[path]

    def __iter__(self) -> Iterator[str]:
        """The paths, in order."""
        return iter(self.leaves)

    def __len__(self) -> int:
        """How many leaves there are."""
        return len(self.leaves)

    def __eq__(self, other: object) -> bool:
        """Equal when the same paths have the same texts."""
        if isinstance(other, Snapshot):
            return dict(self.leaves) == dict(other.leaves)
        return NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType] (a mapping is not hashable)

    def without_volatile(self) -> Snapshot:
        """The part that may stand in a baseline."""
        if not any(meta.volatile for meta in self.meta.values()):
            return self
        leaves = {path: text for path, text in self.leaves.items() if not self.meta.get(path, PLAIN).volatile}
        return replace(self, leaves=leaves, meta={path: meta for path, meta in self.meta.items() if not meta.volatile})
