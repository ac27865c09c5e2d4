"""A floating memory: large, often edited, and always just before the newest query.

    turn 1     [ transcript | MEMORY | query 1 | reply 1 ]
    then       [ transcript | query 1 | reply 1 ]                          cut back, the turn forwarded again
    turn 2     [ transcript | query 1 | reply 1 | MEMORY' | query 2 | reply 2 ]

Memory is compiled in parts, each alone, as skills are; a part that changes is compiled again, the others stay. For a
query the parts are spliced behind the transcript, turned to where they stand now, always from what was compiled. After
the turn the transcript goes back to before the memory, and query and reply are forwarded behind it without the memory:
so what is stored never holds memory, nor anything that was computed behind an older state of it, and thirty edits leave
no trace. What a reply said stays, of course.

This is the opposite of append-only: no request begins with the one before it, so on a hosted API each turn would miss
everything behind the transcript. It is for models in this process only, where going back is a cut that costs nothing
and the price is known: query and reply go through the model twice (`FloatingCost.again`). With errata instead nothing
is forwarded twice and everything stays exact; float a memory that is too large or changes too much for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pkv_agents.errors import SegmentError
from pkv_agents.kv.edit import edit
from pkv_agents.kv.engine import Forwarded, SegmentModel
from pkv_agents.kv.segment import FieldSpan, KVSegment
from pkv_agents.kv.splice import compile_segment, compiled_origin, splice


@dataclass(frozen=True, slots=True)
class FloatingCost:
    """Tokens, counted since the start.

    Attributes:
        turns: Turns that were settled.
        compiled: Forwarded to compile or edit parts of the memory.
        asked: Forwarded for queries: the query and the seams.
        reused: Of the memory, spliced without being forwarded.
        again: Forwarded a second time, without the memory, to settle a turn: the price of floating.
    """

    turns: int = 0
    compiled: int = 0
    asked: int = 0
    reused: int = 0
    again: int = 0


class FloatingMemory:
    """A transcript and a memory that stands behind it only while a turn lasts. For one thread at a time.

    A call that fails changes nothing: it can be made again.

    Args:
        model: The model that computed the transcript.
        transcript: What stands before the memory; usually a prefilled head.
        preamble: Token ids that stand before each part while it is compiled (see `compile_segment`).
        seam: How many tokens at the start of each part are computed anew at each query.

    Attributes:
        transcript: What is stored. It never holds memory; its origin is that of the transcript at the start.
        cost: What it cost so far.

    Raises:
        SegmentError: If the transcript is another model's, or `seam` is negative.
    """

    def __init__(
        self, model: SegmentModel, transcript: KVSegment, *, preamble: Sequence[int] = (), seam: int = 0
    ) -> None:
        model.check(transcript)
        if seam < 0:
            raise SegmentError("a seam has 0 or more tokens")
        self.transcript = transcript
        self.cost = FloatingCost()
        self._model = model
        self._preamble = tuple(preamble)
        self._seam = seam
        self._parts: dict[str, KVSegment] = {}
        self._query: tuple[int, ...] = ()

    @property
    def parts(self) -> Mapping[str, KVSegment]:
        """The compiled parts by name, in the order in which they stand (read-only)."""
        return MappingProxyType(self._parts)

    def put(self, name: str, ids: Sequence[int], *, fields: Sequence[FieldSpan] = ()) -> None:
        """Compiles a part: a new one stands last, a known one keeps its place. The same tokens cost nothing.

        Args:
            name: Of the part.
            ids: Its token ids.
            fields: Spans of fields in `ids`, for `edit`.

        Raises:
            SegmentError: If it cannot be compiled (see `compile_segment`).
            ContextLengthError: If it does not fit the context.
        """
        known = self._parts.get(name)
        # A part that was edited in place holds other keys than its tokens would get.
        if known is not None and self._is_compiled(known, ids):
            self._parts[name] = known.with_fields(*fields)
            return
        self._parts[name] = compile_segment(self._model, ids, preamble=self._preamble, fields=fields)
        self._count(compiled=len(self._preamble) + len(ids))

    def drop(self, name: str) -> None:
        """Forgets a part.

        Raises:
            SegmentError: If there is no such part.
        """
        self._part(name)
        del self._parts[name]

    def edit(self, name: str, path: str, ids: Sequence[int]) -> None:
        """Gives a field of a part a new value in place: what the part concluded from the old one stays in it.

        Cheap, and an approximation; `put` with all of the part's new tokens is not.

        Args:
            name: Of the part.
            path: The field.
            ids: Token ids of the new value.

        Raises:
            SegmentError: If part or field are not known, or there is no id.
            ContextLengthError: If the result does not fit the context.
        """
        done = edit(self._model, self._part(name), path, ids, mode="in_place")
        self._parts[name] = done.segment
        self._count(compiled=done.computed)

    def ask(self, query: Sequence[int]) -> Forwarded:
        """Forwards a query behind transcript and memory. Nothing is stored yet; asking again asks anew.

        Args:
            query: Its token ids.

        Returns:
            The whole sequence and the logits behind the query. Decode the reply behind its segment, then `settle`.

        Raises:
            SegmentError: If there is no id, or one is not in the vocabulary.
            ContextLengthError: If they do not fit the context.
        """
        memory = list(self._parts.values())
        self._model.check_ids(query, self.transcript.stop + sum(map(len, memory)))
        if memory:
            done = splice(self._model, self.transcript, memory, query=query, seam=self._seam)
        else:
            done = self._model.forward(self.transcript, query)
        self._query = tuple(query)
        self._count(asked=done.computed, reused=sum(map(len, memory)) + len(query) - done.computed)
        return done

    def settle(self, reply: Sequence[int]) -> KVSegment:
        """Ends a turn: back to before the memory, and query and reply forwarded again, without it.

        Args:
            reply: Token ids of the answer; may be empty.

        Returns:
            The transcript, longer by query and reply.

        Raises:
            SegmentError: If nothing was asked, or an id is not in the vocabulary.
            ContextLengthError: If they do not fit the context.
        """
        if not self._query:
            raise SegmentError("there is no turn to settle: ask() comes first")
        turn = [*self._query, *reply]
        self.transcript = self._model.forward(self.transcript, turn).segment
        self._query = ()
        self._count(turns=1, again=len(turn))
        return self.transcript

    def _is_compiled(self, part: KVSegment, ids: Sequence[int]) -> bool:
        return part.ids.tolist() == list(ids) and part.origin == compiled_origin(ids, self._preamble)

    def _part(self, name: str) -> KVSegment:
        if name not in self._parts:
            raise SegmentError(f"the memory has no part {name!r}: put() it first")
        return self._parts[name]

    def _count(self, **more: int) -> None:
        self.cost = replace(self.cost, **{name: getattr(self.cost, name) + by for name, by in more.items()})
