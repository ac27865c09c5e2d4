"""From characters to tokens: where a field stands in a prompt, and which token ids its new value has there.

A tokenizer may put the end of a value and what stands beside it into one token: of `tier: gold` the last token is often
` gold`, with the space. Such a span has no tokens of its own. `field_spans` refuses it and says which characters to
take along; `replacement` needs no such care, since it compares the tokens of the whole text before and after.

    text   status: in transit, paid        replacement(tokenizer, text, (8, 18), "delivered")
    ids    a b [c d e] f g                 -> tokens 2 to 5 become [h]: what the text with the new value has there
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import cast

from pkv_agents.errors import SegmentError
from pkv_agents.kv.segment import FieldSpan


@dataclass(frozen=True, slots=True)
class Replacement:
    """Which tokens of a text give way to which.

    Attributes:
        start: The first token that goes.
        stop: One behind the last token that goes.
        ids: What comes instead.
    """

    start: int
    stop: int
    ids: tuple[int, ...]


def field_spans(
    tokenizer: object, text: str, fields: Mapping[str, tuple[int, int]]
) -> tuple[tuple[int, ...], tuple[FieldSpan, ...]]:
    """Tokenises a text, and says which tokens are the value of which field.

    Args:
        tokenizer: A fast tokenizer of transformers; no special tokens are added.
        text: The text.
        fields: Of each field the first character of its value and one behind the last.

    Returns:
        Token ids, and the fields in their order.

    Raises:
        SegmentError: If the tokenizer knows no offsets, or a span is empty, outside the text, or begins or ends inside
            a token; the message says where that token does.
    """
    ids, ends = _tokens(tokenizer, text)
    spans: list[FieldSpan] = []
    for path, (start, stop) in fields.items():
        _check(path, start, stop, text)
        edges: list[int] = []
        for edge in (start, stop):
            index = bisect_right(ends, edge)
            before = ends[index - 1] if index else 0
            if before != edge:
                raise SegmentError(
                    f"field {path!r} has an edge at character {edge}, inside a token that covers {before} to "
                    f"{ends[index]}: take these characters along, or use replacement()"
                )
            edges.append(index)
        spans.append(FieldSpan(path, *edges))
    return ids, tuple(spans)


def replacement(tokenizer: object, text: str, span: tuple[int, int], value: str) -> Replacement:
    """Which tokens to replace so that a text's tokens become those of the text with a new value in a span.

    All tokens of the span go, also those that would come again, and beside them whatever tokens the change reaches.

    Args:
        tokenizer: A fast tokenizer of transformers; no special tokens are added.
        text: The text as it is.
        span: The first character of the old value and one behind the last.
        value: The new value.

    Raises:
        SegmentError: If the tokenizer knows no offsets, or the span is empty or outside the text.
    """
    start, stop = span
    _check("", start, stop, text)
    old, old_ends = _tokens(tokenizer, text)
    new, _ = _tokens(tokenizer, text[:start] + value + text[stop:])
    # What lies before and behind the span may stay as far as it is equal; nothing of the span may.
    most_before, most_behind = bisect_right(old_ends, start), len(old) - _first_behind(old_ends, stop)
    before = _equal(old, new, most_before)
    behind = _equal(old[::-1], new[::-1], min(most_behind, len(new) - before))
    return Replacement(before, len(old) - behind, new[before : len(new) - behind])


def _first_behind(ends: list[int], stop: int) -> int:
    """The first token that covers no character before `stop` (one behind the last, where none does)."""
    index = bisect_right(ends, stop)
    return index if index and ends[index - 1] == stop else min(index + 1, len(ends))


def _equal(left: tuple[int, ...], right: tuple[int, ...], most: int) -> int:
    for index, (a, b) in enumerate(zip(left[:most], right[:most], strict=False)):
        if a != b:
            return index
    return min(most, len(left), len(right))


def _check(path: str, start: int, stop: int, text: str) -> None:
    if not 0 <= start < stop <= len(text):
        named = f"field {path!r}" if path else "the value"
        raise SegmentError(f"{named} stands at characters {start} to {stop} of {len(text)}")


def _tokens(tokenizer: object, text: str) -> tuple[tuple[int, ...], list[int]]:
    """Token ids, and the character behind each: a token covers what lies between its predecessor's end and its own.

    (The offsets themselves leave out white space with some tokenizers, and are the same for all the tokens of one
    character.)
    """
    if not getattr(tokenizer, "is_fast", False) or not callable(tokenizer):
        raise SegmentError(
            f"{type(tokenizer).__name__} cannot say where its tokens stand in a text: load the fast tokenizer"
        )
    encode = cast("Callable[..., Mapping[str, list[object]]]", tokenizer)
    found = encode(text, add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False)
    offsets = cast("list[tuple[int, int]]", found["offset_mapping"])
    return tuple(cast("list[int]", found["input_ids"])), list(accumulate((end for _, end in offsets), max))
