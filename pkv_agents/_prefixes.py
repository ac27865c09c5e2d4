"""What an automatic cache holds: a tree of token runs that share their beginnings.

Tokens come packed, so that two runs are compared at the speed of memory and a request of ten thousand tokens costs a
few comparisons, however many blocks it has. All sizes and places here are in units: a unit is one cache block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b


@dataclass(slots=True, eq=False)
class Node:
    """A run of units after its parent's.

    Attributes:
        run: The units, packed.
        at: When it was last used.
        use: Which use of the tree that was; a parent is never older than its children.
        parent: The run before it; None at the root.
        children: What follows, by its first unit.
    """

    run: bytes
    at: float
    use: int
    parent: Node | None
    children: dict[bytes, Node] = field(default_factory=dict[bytes, "Node"])


class PrefixTree:
    """All prefixes that are kept, each with the time of its last use.

    Args:
        unit: The bytes of one unit.
    """

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.held = 0
        self._uses = 0
        self._root = Node(b"", 0.0, 0, None)

    def match(self, packed: bytes, *, since: float | None) -> int:
        """How many units at the front are kept; changes nothing.

        Args:
            packed: The request.
            since: What was last used before this counts as gone; None: nothing does.
        """
        node, at, unit = self._root, 0, self.unit
        while (child := node.children.get(packed[at : at + unit])) is not None:
            if since is not None and child.at < since:
                break
            common = shared_units(child.run, packed[at : at + len(child.run)], unit)
            at += common * unit
            if common * unit < len(child.run):
                break
            node = child
        return at // unit

    def keep(self, packed: bytes, at: float) -> None:
        """Keep a request, whole units only, or refresh what of it is kept."""
        unit = self.unit
        end = len(packed) // unit * unit
        self._uses += 1
        node, place = self._root, 0
        while place < end:
            first = packed[place : place + unit]
            child = node.children.get(first)
            if child is None:
                node.children[first] = Node(packed[place:end], at, self._uses, node)
                self.held += (end - place) // unit
                return
            common = shared_units(child.run, packed[place : min(end, place + len(child.run))], unit)
            node = child if common * unit == len(child.run) else self._split(child, common)
            node.at, node.use = at, self._uses
            place += common * unit

    def drop(self, limit: int) -> None:
        """Drop what was used least recently, ends first, until no more than so many units are kept."""
        while self.held > limit:
            leaf = min((node for node in self._nodes() if not node.children), key=lambda node: node.use)
            size = len(leaf.run) // self.unit
            gone = min(size, self.held - limit)
            self.held -= gone
            if gone < size:
                leaf.run = leaf.run[: (size - gone) * self.unit]
            else:
                assert leaf.parent is not None
                del leaf.parent.children[leaf.run[: self.unit]]

    def check_integrity(self) -> None:
        """Count the stock.

        Raises:
            AssertionError: The tree is not what it says.
        """
        assert self.held == sum(len(node.run) // self.unit for node in self._nodes())
        for node in self._nodes():
            assert node.run and len(node.run) % self.unit == 0
            assert node.parent is not None and node.parent.children[node.run[: self.unit]] is node
            assert node.parent is self._root or node.parent.use >= node.use

    def _split(self, node: Node, units: int) -> Node:
        """Cut a run in two; returns its front."""
        assert node.parent is not None
        cut = units * self.unit
        front = Node(node.run[:cut], node.at, node.use, node.parent)
        node.parent.children[front.run[: self.unit]] = front
        node.run, node.parent = node.run[cut:], front
        front.children[node.run[: self.unit]] = node
        return front

    def _nodes(self) -> Iterator[Node]:
        waiting = list(self._root.children.values())
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            yield node


def shared_units(one: bytes, two: bytes, unit: int) -> int:
    """How many units two packed runs have in common at their front."""
    low, high = 0, min(len(one), len(two)) // unit
    if one[: high * unit] == two[: high * unit]:
        return high
    while high - low > 1:  # the first `low` units are equal, the first `high` are not
        middle = (low + high) // 2
        if one[low * unit : middle * unit] == two[low * unit : middle * unit]:
            low = middle
        else:
            high = middle
    return low


def prefix_names(packed: bytes, ends: Iterable[int]) -> list[bytes]:
    """A name for each prefix that ends at such a byte, ascending: equal names for equal prefixes."""
    hashed, before, names = blake2b(digest_size=16), 0, list[bytes]()
    for end in ends:
        hashed.update(packed[before:end])
        names.append(hashed.digest())
        before = end
    return names
