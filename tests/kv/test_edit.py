"""Edits: what each mode computes, what it leaves bit for bit, and that they accumulate (reports R39, R40)."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv import (
    EXACT,
    Edited,
    EditMode,
    FieldSpan,
    Forwarded,
    KVSegment,
    SegmentModel,
    edit,
    splice,
)
from tests.kv.zoo import MECHANISMS, build, config_of, some_ids, tiny

VALUE = [50, 51, 52]
HEAD, POLICY, TAIL = some_ids(8), [7, *VALUE, 9, 8], some_ids(10, 2)
"""The policy holds the very text of the field's value (report R39)."""
PROMPT = [*HEAD, *VALUE, *TAIL, *POLICY]
SPAN = FieldSpan("order.status", 8, 11)
ERRATUM, QUERY = some_ids(5, 3), some_ids(4, 4)
MODES: tuple[EditMode, ...] = get_args(EditMode)
NEW = {"shorter": [40], "same": [40, 41, 42], "longer": [40, 41, 42, 43, 44]}


@cache
def engine(name: str) -> SegmentModel:
    return SegmentModel(tiny(name))


@cache
def prompt(name: str) -> KVSegment:
    return engine(name).prefill(PROMPT).segment.with_fields(SPAN)


def truth(name: str, value: list[int], behind: list[int] | None = None) -> Forwarded:
    return engine(name).prefill([*HEAD, *value, *TAIL, *POLICY, *(behind or [])])


def change(
    name: str, value: list[int], mode: EditMode, *, keep: int = 3, segment: KVSegment | None = None
) -> Forwarded:
    asked = QUERY if mode == "selective" else []
    told = ERRATUM if "erratum" in mode else []
    given_segment = segment or prompt(name)
    return edit(engine(name), given_segment, SPAN.path, value, mode=mode, erratum=told, query=asked, keep=keep)


def layers(name: str, segment: KVSegment) -> list[torch.Tensor]:
    return [tensor for pair in engine(name).rule.layers(segment) for tensor in pair]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("length", NEW)
def test_in_place_the_span_is_clean_and_all_else_is_as_it_was(name: str, length: str) -> None:
    value = NEW[length]
    done, clean, old = change(name, value, "in_place").segment, truth(name, value).segment, prompt(name)
    stop, by = 8 + len(value), len(value) - 3
    assert done.ids.tolist() == clean.ids.tolist()
    moved = old.slice(11, len(old)).moved(stop)
    for have, want, before, behind in zip(
        layers(name, done), layers(name, clean), layers(name, old), layers(name, moved), strict=True
    ):
        torch.testing.assert_close(have[:, 8:stop], want[:, 8:stop], atol=1e-4, rtol=1e-4)
        assert torch.equal(have[:, :8], before[:, :8])
        assert torch.equal(have[:, stop:], behind)
        if not by:
            assert torch.equal(have[:, stop:], before[:, 11:])
    first, _ = engine(name).rule.layers(done)[0]
    torch.testing.assert_close(first, layers(name, clean)[0], atol=1e-5, rtol=1e-5)  # keys of layer 0 know only place


@pytest.mark.parametrize("length", NEW)
@pytest.mark.parametrize("name", ["llama", "gemma3_text", "gpt_oss", "cohere2", "deepseek_v3", "gptj", "llama4_text"])
def test_selective_with_everything_kept_is_a_prefill(name: str, length: str) -> None:
    done, clean = change(name, NEW[length], "selective", keep=99), truth(name, NEW[length])
    for have, want in zip(layers(name, done.segment), layers(name, clean.segment), strict=True):
        torch.testing.assert_close(have, want, atol=2e-4, rtol=1e-4)
    assert done.segment.origin == EXACT
    assert done.logits is not None and clean.logits is not None
    torch.testing.assert_close(done.logits, clean.logits, atol=2e-4, rtol=1e-4)


@given(st.integers(0, 16), st.sampled_from(sorted(NEW)))
def test_selective_computes_the_field_and_so_many_tokens(keep: int, length: str) -> None:
    value = NEW[length]
    done = change("llama", value, "selective", keep=keep)
    assert done.computed == len(value) + keep
    if keep == 16:
        assert done.segment.origin == EXACT
        return
    assert isinstance(done.segment.origin, Edited)
    fresh = done.segment.origin.edits[-1].recomputed
    assert len(fresh) == keep and all(8 + len(value) <= slot < len(done.segment) for slot in fresh)
    in_place = layers("llama", change("llama", value, "in_place").segment)
    for index, (have, was) in enumerate(zip(layers("llama", done.segment), in_place, strict=True)):
        differs = (have != was).any(dim=2).any(dim=0).nonzero().flatten().tolist()
        assert set(differs) <= {*range(8, 8 + len(value)), *fresh}
        if index > 2 and keep:
            assert set(differs) & set(fresh)


def test_selective_takes_what_the_query_looks_at() -> None:
    eager = build(tiny("llama").config)
    eager.set_attn_implementation("eager")
    with torch.inference_mode():
        told = eager(input_ids=torch.tensor([[*PROMPT, *QUERY]]), output_attentions=True).attentions
    paid = torch.stack([layer[0, :, len(PROMPT) :, 11 : len(PROMPT)].sum(dim=(0, 1)) for layer in told]).sum(dim=0)
    want = sorted(11 + int(index) for index in paid.topk(4).indices)
    origin = change("llama", NEW["same"], "selective", keep=4).segment.origin
    assert isinstance(origin, Edited) and list(origin.edits[0].recomputed) == want


@pytest.mark.parametrize("length", NEW)
def test_full_is_a_clean_prefill(length: str) -> None:
    done, clean = change("llama", NEW[length], "full"), truth("llama", NEW[length])
    assert done.segment.checksum() == clean.segment.checksum()
    assert done.segment.origin == EXACT
    assert done.segment.field(SPAN.path) == FieldSpan(SPAN.path, 8, 8 + len(NEW[length]))


def test_an_erratum_leaves_the_prefix_bit_for_bit_and_stays_exact() -> None:
    done = change("llama", NEW["same"], "erratum")
    assert done.segment.ids.tolist() == [*PROMPT, *ERRATUM] and done.computed == len(ERRATUM)
    for have, before in zip(layers("llama", done.segment), layers("llama", prompt("llama")), strict=True):
        assert torch.equal(have[:, : len(PROMPT)], before)
    assert done.segment.origin == EXACT
    cold = engine("llama").prefill([*PROMPT, *ERRATUM]).logits
    assert done.logits is not None and cold is not None
    torch.testing.assert_close(done.logits, cold, atol=1e-4, rtol=1e-4)


def test_field_erratum_is_both_in_one_forward() -> None:
    done = change("llama", NEW["longer"], "field_erratum")
    assert done.computed == len(NEW["longer"]) + len(ERRATUM)
    apart = engine("llama").forward(change("llama", NEW["longer"], "in_place").segment, ERRATUM)
    for have, want in zip(layers("llama", done.segment), layers("llama", apart.segment), strict=True):
        torch.testing.assert_close(have, want, atol=1e-4, rtol=1e-4)
    assert isinstance(done.segment.origin, Edited) and done.segment.origin == apart.segment.origin


def test_stale_is_the_control() -> None:
    assert change("llama", NEW["same"], "stale").segment is prompt("llama")


def test_the_field_is_edited_and_not_the_sentence_that_holds_the_same_text() -> None:
    """Report R39."""
    for mode in ("in_place", "field_erratum", "selective", "full"):
        done = change("llama", NEW["longer"], mode).segment
        assert done.ids[8:13].tolist() == NEW["longer"]
        assert done.ids[23:29].tolist() == POLICY


@pytest.mark.parametrize("mode", MODES)
def test_the_prompt_that_came_in_is_never_changed(mode: EditMode) -> None:
    segment = prompt("llama")
    before = segment.checksum()
    for value in NEW.values():
        change("llama", value, mode)
    assert segment.checksum() == before


@pytest.mark.parametrize("mode", ["in_place", "field_erratum", "selective"])
def test_edits_accumulate_and_ten_turns_see_them(mode: EditMode) -> None:
    """Report R40: two edits of one field, of other lengths, then ten turns."""
    model = engine("llama")
    segment = change("llama", NEW["longer"], mode).segment
    segment = change("llama", NEW["shorter"], mode, segment=segment).segment
    assert segment.field(SPAN.path) == FieldSpan(SPAN.path, 8, 9)
    assert segment.ids[:9].tolist() == [*HEAD, *NEW["shorter"]]
    origin = segment.origin
    assert isinstance(origin, Edited) and [one.path for one in origin.edits] == [SPAN.path] * 2
    turned = layers("llama", segment)
    for turn in range(10):
        segment = model.forward(segment, [turn + 1]).segment
    assert segment.origin == origin
    assert [have[:, : turned[0].shape[1]].tolist() for have in layers("llama", segment)] == [t.tolist() for t in turned]
    if mode == "in_place":
        clean = truth("llama", NEW["shorter"]).segment
        for have, want in zip(layers("llama", segment), layers("llama", clean), strict=True):
            torch.testing.assert_close(have[:, :9], want[:, :9], atol=1e-4, rtol=1e-4)


@given(st.lists(st.sampled_from(sorted(NEW)), min_size=1, max_size=5))
def test_any_run_of_edits_is_the_last_one_in_place(lengths: list[str]) -> None:
    """Each edit computes the field behind the same prefix and moves the same tail, from what was computed first."""
    segment = prompt("llama")
    for length in lengths:
        segment = change("llama", NEW[length], "in_place", segment=segment).segment
    once = change("llama", NEW[lengths[-1]], "in_place").segment
    assert segment.ids.tolist() == once.ids.tolist()
    for have, want in zip(layers("llama", segment), layers("llama", once), strict=True):
        assert torch.equal(have[:, 8 + len(NEW[lengths[-1]]) :], want[:, 8 + len(NEW[lengths[-1]]) :])
        torch.testing.assert_close(have, want, atol=1e-4, rtol=1e-4)


def test_thirty_edits_in_half_precision_do_not_wear_the_tail() -> None:
    model = SegmentModel(build(config_of("llama")).bfloat16())
    start = model.prefill(PROMPT).segment.with_fields(SPAN)
    segment = start
    for step in range(30):
        value = NEW["longer"] if step % 2 else NEW["shorter"]
        segment = edit(model, segment, SPAN.path, value, mode="in_place").segment
    once = edit(model, start, SPAN.path, NEW["longer"], mode="in_place").segment
    for have, want in zip(model.rule.layers(segment), model.rule.layers(once), strict=True):
        assert torch.equal(have[0][:, 13:], want[0][:, 13:])


def test_other_fields_move_grow_or_go() -> None:
    segment = prompt("llama").with_fields(
        FieldSpan("before", 1, 3),
        FieldSpan("order", 6, 12),
        SPAN,
        FieldSpan("order.status.word", 9, 10),
        FieldSpan("z", 20, 22),
    )
    done = edit(engine("llama"), segment, SPAN.path, NEW["longer"], mode="in_place").segment
    assert done.fields == (
        FieldSpan("before", 1, 3),
        FieldSpan("order", 6, 14),
        FieldSpan(SPAN.path, 8, 13),
        FieldSpan("z", 22, 24),
    )


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (25, 27)])
def test_a_field_may_stand_first_or_last(start: int, stop: int) -> None:
    segment = prompt("llama").with_fields(FieldSpan("edge", start, stop))
    done = edit(engine("llama"), segment, "edge", [40, 41, 42], mode="in_place")
    clean = engine("llama").prefill([*PROMPT[:start], 40, 41, 42, *PROMPT[stop:]])
    for have, want in zip(layers("llama", done.segment), layers("llama", clean.segment), strict=True):
        torch.testing.assert_close(have[:, start : start + 3], want[:, start : start + 3], atol=1e-4, rtol=1e-4)
    assert (done.logits is not None) == (stop == len(PROMPT))
    assert (done.segment.origin == EXACT) == (stop == len(PROMPT))  # nothing stands behind it, so nothing is old


def test_a_field_inside_a_splice_is_edited_there() -> None:
    model = engine("llama")
    skill = model.prefill(POLICY).segment.with_fields(FieldSpan("limit", 1, 4))
    whole = splice(model, model.prefill(HEAD).segment, [skill], query=QUERY).segment
    done = edit(model, whole, "limit", [60, 61], mode="in_place").segment
    assert done.ids.tolist() == [*HEAD, 7, 60, 61, 9, 8, *QUERY]
    assert isinstance(done.origin, Edited) and done.origin.base == whole.origin


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "unknown", "mode": "in_place"}, "no field 'unknown'"),
        ({"ids": [], "mode": "in_place"}, "has no token"),
        ({"ids": [64], "mode": "in_place"}, "0 to 63"),
        ({"mode": "erratum"}, "needs the erratum"),
        ({"mode": "field_erratum"}, "needs the erratum"),
        ({"mode": "selective"}, "needs a query"),
        ({"mode": "selective", "query": [1], "keep": -1}, "0 or more"),
    ],
)
def test_what_cannot_be_edited_is_refused(arguments: dict[str, object], message: str) -> None:
    given_arguments = {"path": SPAN.path, "ids": [1], **arguments}
    path, ids = given_arguments.pop("path"), given_arguments.pop("ids")
    with pytest.raises(SegmentError, match=message):
        edit(engine("llama"), prompt("llama"), path, ids, **given_arguments)  # pyright: ignore[reportArgumentType]


def test_a_value_that_has_grown_too_long_and_a_foreign_prompt_are_refused() -> None:
    model = engine("llama")
    with pytest.raises(ContextLengthError):
        edit(model, prompt("llama").moved(1024 - len(PROMPT)), SPAN.path, NEW["longer"], mode="in_place")
    with pytest.raises(SegmentError, match="another model"):
        edit(model, dataclasses.replace(prompt("llama"), fingerprint="x"), SPAN.path, [1], mode="stale")
