"""From characters to tokens: spans on token edges or a clear refusal, and replacements that are a tokenisation."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from pkv_agents.errors import SegmentError
from pkv_agents.kv import FieldSpan, SegmentModel, edit, field_spans, replacement
from tests.kv.zoo import build, config_of
from tests.local.tiny import tiny_tokenizer

TEXT = "customer.tier: gold\norders[K417].status: delivered\n"


@cache
def tokenizers() -> dict[str, Any]:
    plain, trimmed, words = tiny_tokenizer(), tiny_tokenizer(), tiny_tokenizer()
    # GPT-2's way: the offsets of a token leave out the white space that it holds.
    trimmed.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    alphabet = list("abcdefghijklmnopqrstuvwxyz:.[]K417\n é\U0001f600▁")
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<unk>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator([TEXT] * 9, trainer)
    words = type(plain)(tokenizer_object=backend, unk_token="<unk>")
    return {"bytes": plain, "trimmed": trimmed, "sentences": words}


NAMES = ["bytes", "sentences", "trimmed"]


def ids_of(name: str, text: str) -> list[int]:
    return tokenizers()[name].encode(text, add_special_tokens=False)


@pytest.mark.parametrize("name", ["bytes", "trimmed"])
def test_a_span_on_token_edges_is_found(name: str) -> None:
    """Behind `: `, the space belongs to the value's first token: with it the span has tokens of its own."""
    tokenizer, start = tokenizers()[name], TEXT.index(" delivered")
    ids, (span,) = field_spans(tokenizer, TEXT, {"orders[K417].status": (start, start + len(" delivered"))})
    assert list(ids) == ids_of(name, TEXT)
    assert tokenizer.decode(ids[span.start : span.stop]) == " delivered"


@pytest.mark.parametrize("name", NAMES)
def test_a_span_inside_a_token_is_refused_with_the_tokens_edges(name: str) -> None:
    start = TEXT.index("delivered")
    with pytest.raises(SegmentError, match=rf"'status' has an edge at character {start}, inside a token that covers"):
        field_spans(tokenizers()[name], TEXT, {"status": (start, start + len("delivered"))})


def test_a_character_of_several_tokens_is_not_cut() -> None:
    text = "a\U0001f600b"
    ids, spans = field_spans(tokenizers()["bytes"], text, {"face": (1, 2), "b": (2, 3)})
    assert len(ids) == 6 and spans == (FieldSpan("face", 1, 5), FieldSpan("b", 5, 6))


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 3), (4, 3), (0, len(TEXT) + 1)])
def test_a_span_outside_the_text_is_refused(start: int, stop: int) -> None:
    with pytest.raises(SegmentError, match=rf"'tier' stands at characters {start} to {stop} of {len(TEXT)}"):
        field_spans(tokenizers()["bytes"], TEXT, {"tier": (start, stop)})
    with pytest.raises(SegmentError, match="the value stands at"):
        replacement(tokenizers()["bytes"], TEXT, (start, stop), "new")


def test_a_tokenizer_without_offsets_is_refused() -> None:
    class Slow:
        is_fast = False

    for call in (lambda: field_spans(Slow(), TEXT, {}), lambda: replacement(Slow(), TEXT, (0, 3), "x")):
        with pytest.raises(SegmentError, match=r"Slow cannot say where its tokens stand.*fast tokenizer"):
            call()


pieces = st.text(alphabet="ab \né\U0001f600g:", max_size=6)


@pytest.mark.parametrize("name", NAMES)
@example(before="", old="\n", behind="\n", new="\n")  # the first token covers more than the span
@given(before=pieces, old=pieces.filter(bool), behind=pieces, new=pieces)
def test_a_replacement_gives_the_tokens_of_the_new_text(
    name: str, before: str, old: str, behind: str, new: str
) -> None:
    text, span = before + old + behind, (len(before), len(before) + len(old))
    found = replacement(tokenizers()[name], text, span, new)
    ids = ids_of(name, text)
    assert [*ids[: found.start], *found.ids, *ids[found.stop :]] == ids_of(name, before + new + behind)
    # Nothing of the old value stays: what is kept before and behind it comes from other characters.
    encoded = tokenizers()[name](text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert all(end <= span[0] for _, end in encoded[: found.start])
    assert all(start >= span[1] for start, _ in encoded[found.stop :])


def test_an_edit_by_a_replacement_is_the_prompt_with_the_new_value() -> None:
    model = SegmentModel(build(config_of("llama", vocab_size=448)))
    start = TEXT.index("delivered")
    ids = ids_of("bytes", TEXT)
    found = replacement(tokenizers()["bytes"], TEXT, (start, start + len("delivered")), "in transit")
    prompt = model.prefill(ids).segment.with_fields(FieldSpan("status", found.start, found.stop))
    done = edit(model, prompt, "status", found.ids, mode="in_place").segment
    assert done.ids.tolist() == ids_of("bytes", TEXT.replace("delivered", "in transit"))
