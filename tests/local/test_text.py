"""Streaming text: whole characters, stop strings, and the ids that stand for what was handed out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.local.template import ChatTemplate
from pkv_agents.local.text import TextStream
from tests.local.tiny import tiny_tokenizer

TOKENIZER = ChatTemplate(tiny_tokenizer()).tokenizer


def encode(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=30))
def test_the_pieces_are_the_text_and_no_character_is_split(text: str) -> None:
    stream = TextStream(TOKENIZER)
    pieces = [stream.push([token]) for token in encode(text)]
    pieces.append(stream.finish())
    assert "".join(pieces) == text == stream.text
    assert not any("\ufffd" in piece for piece in pieces)
    assert stream.kept_ids() == encode(text)


def test_an_unfinished_character_at_the_end_is_left_out() -> None:
    stream = TextStream(TOKENIZER)
    ids = encode("ab\U0001f600")
    assert stream.push(ids[:-1]) + stream.finish() == "ab"


def test_bytes_that_never_become_a_character_do_not_stall_the_stream() -> None:
    stream = TextStream(TOKENIZER)
    lead = encode("\U0001f600")[0]
    assert stream.push([lead] * 12 + encode("ab")).endswith("ab")


@pytest.mark.parametrize("stop", ["stop", "\n\n", "é"])
def test_a_stop_string_ends_the_text_and_is_no_part_of_it(stop: str) -> None:
    stream = TextStream(TOKENIZER, [stop])
    pieces: list[str] = []
    for token in encode(f"some words {stop} and more"):
        pieces.append(stream.push([token]))
        if stream.stopped:
            break
    pieces.append(stream.finish())
    assert stream.stopped
    assert "".join(pieces) == "some words " == stream.text
    assert (
        TOKENIZER.decode(stream.kept_ids(), skip_special_tokens=True, clean_up_tokenization_spaces=False) == stream.text
    )


def test_the_beginning_of_a_stop_string_is_handed_out_if_it_does_not_go_on() -> None:
    stream = TextStream(TOKENIZER, ["xyz"])
    first = stream.push(encode("wxy"))
    assert "x" not in first
    assert first + stream.push(encode(" on")) + stream.finish() == "wxy on"


def test_the_earliest_of_several_stop_strings_wins() -> None:
    stream = TextStream(TOKENIZER, ["c d", "b"])
    assert stream.push(encode("a b c d")) == "a "
