"""What users of local models met, one report a number, and what the KV engine promises; which test holds which.

| report | test |
|---|---|
| R03 | here: test_r03_a_template_that_raises_is_never_asked_and_nothing_moves_into_the_head |
| R04 | here: test_r04_a_template_that_drops_late_text_is_found_out |
| R05 | local/test_template_families: test_thoughts_move_a_user_turn_and_no_other_form |
| R06 | local/test_template_families: test_alternation_joins_the_erratum_and_the_users_text |
| R33 | kv/test_slab: test_crop_keeps_exactly_n_tokens, test_crop_by_a_wrong_number_is_an_error_and_changes_nothing |
| R33 | kv/test_slab: test_a_copy_is_independent, test_two_continuations_interleaved_leave_the_stored_slab_alone |
| R33 | kv/test_engine: test_continuations_interleaved_leave_the_stored_segment_alone |
| R34 | kv/test_rotary_oracle: test_keys_turned_are_keys_computed_there, test_the_oracle_sees_every_mutation |
| R34 | here: test_r34_every_kind_of_rotary_positions_is_as_the_table_says |
| R35 | kv/test_engine: test_a_window_is_kept_by_the_mask_and_every_key_is_there |
| R35 | kv/test_engine: test_behind_a_segment_and_inside_it_as_in_one_go |
| R36 | kv/test_rotary_oracle: test_a_hybrid_with_linear_attention_is_refused_with_the_reason |
| R36 | kv/test_rotary_oracle: test_a_quantised_cache_is_refused |
| R36 | kv/test_hf: test_a_linear_attention_hybrid_is_refused, test_a_quantised_cache_is_refused |
| R37 | here: test_r37_the_next_turn_extends_the_generated_ids |
| R38 | local/test_template_families: test_seams_between_texts_and_ids_hold |
| R38 | kv/test_spans: test_a_span_inside_a_token_is_refused_with_the_tokens_edges |
| R39 | kv/test_edit: test_the_field_is_edited_and_not_the_sentence_that_holds_the_same_text |
| R40 | kv/test_edit: test_edits_accumulate_and_ten_turns_see_them |

| promise | test |
|---|---|
| every refused family | here: test_every_refused_family_is_refused_before_a_tensor_is_touched |
| every other refusal | kv/test_capability: test_each_property_has_its_reason |
| A splices, B prefills | kv/test_splice: test_one_splices_another_prefills_the_same_ids_and_is_exact |
| A, B, A interleaved | kv/test_engine: test_continuations_interleaved_leave_the_stored_segment_alone |
| two threads, one head | here: test_two_threads_on_one_stored_head_are_what_one_after_the_other_gives |
| two threads, one cache | local/test_model: test_threads_give_what_one_after_the_other_gives |
| stored segments stay | kv/test_splice: test_stored_segments_are_never_changed |
| stored segments stay | kv/test_edit: test_the_prompt_that_came_in_is_never_changed |
| 50 sessions, 20 turns | kv/test_many_sessions: test_fifty_sessions_of_twenty_turns_in_a_budget |
"""

from __future__ import annotations

import itertools
import re
import threading
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from pkv_agents.errors import UnsupportedModelError
from pkv_agents.kv import CacheKey, KVSegment, SegmentModel, rope_table, splice, support_table
from pkv_agents.local import LocalModel
from pkv_agents.messages import Message
from tests.kv.zoo import build, config_of, some_ids, tiny
from tests.local.tiny import TEMPLATES, tiny_model, tiny_tokenizer

REPORTS = {3, 4, 5, 6, *range(33, 41)}


def test_the_tables_name_tests_that_exist() -> None:
    assert __doc__ is not None
    rows = re.findall(r"^\| ([^|]+) \| (here|\w+/\w+): (.+) \|$", __doc__, re.MULTILINE)
    assert {int(what[1:]) for what, _, _ in rows if re.fullmatch(r"R\d\d", what)} == REPORTS
    for _, file, names in rows:
        path = Path(__file__) if file == "here" else Path(__file__).parents[1] / f"{file}.py"
        for name in names.split(", "):
            assert f"def {name}(" in path.read_text(encoding="utf-8"), f"{file}: {name}"


def growing() -> list[list[Message]]:
    """Three requests, each with an erratum as a late system message."""
    history = [Message("system", "zqhead"), Message("user", "zq0"), Message("system", "zqerratum0")]
    requests = [list(history)]
    for turn in (1, 2):
        history += [Message("assistant", f"answer {turn}"), Message("user", f"zq{turn}")]
        history.append(Message("system", f"zqerratum{turn}"))
        requests.append(list(history))
    return requests


def check_late_text(template: str) -> LocalModel:
    """On ids and on the cache: each request extends the one before, and every text is there once, in its place."""
    model = tiny_model(TEMPLATES[template])
    prompts = [model.render_ids(request) for request in growing()]
    for old, new in itertools.pairwise(prompts):
        assert new[: len(old)] == old
    text = tiny_tokenizer().decode(prompts[-1])
    places = [text.index(word) for word in ("zqhead", "zq0", "zqerratum0", "zq1", "zqerratum1", "zq2", "zqerratum2")]
    assert places == sorted(places) and text.count("zqerratum") == 3
    model.clear_cache()
    for request, before in zip(growing(), [[], *prompts], strict=False):
        reply = model.generate(request, max_tokens=1)
        assert reply.cached_tokens >= len(before) - 1
    return model


def test_r03_a_template_that_raises_is_never_asked_and_nothing_moves_into_the_head() -> None:
    model = check_late_text("late_raises")
    assert (model.template_verdict.late_system, model.profile.carrier) == ("raises", "user_suffix")


def test_r04_a_template_that_drops_late_text_is_found_out() -> None:
    model = check_late_text("late_dropped")
    assert (model.template_verdict.late_system, model.profile.carrier) == ("dropped", "user_suffix")


ROPES: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("llama", {}),
    "dynamic": ("llama", {"factor": 2.0}),
    "linear": ("llama", {"factor": 2.0}),
    "llama3": (
        "llama",
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256},
    ),
    "longrope": (
        "phi3",
        {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 512, "factor": 2.0},
    ),
    "yarn": ("llama", {"factor": 4.0, "original_max_position_embeddings": 256}),
}


def rope_model(kind: str) -> Any:
    if kind == "mrope":
        return tiny("qwen2_5_vl_text")
    family, parameters = ROPES[kind]
    return build(config_of(family, rope_parameters={"rope_type": kind, "rope_theta": 1e4, **parameters}))


@pytest.mark.parametrize("row", rope_table(), ids=lambda row: row.name)
def test_r34_every_kind_of_rotary_positions_is_as_the_table_says(row: Any) -> None:
    if row.refusal:
        with pytest.raises(UnsupportedModelError, match=re.escape(row.refusal)):
            SegmentModel(rope_model(row.name))
        return
    model, ids = SegmentModel(rope_model(row.name)), some_ids(20)
    base = model.prefill(ids).segment
    for position in (1, 17, 500):
        truth = model.prefill(ids, start=position).segment
        moved = model.rule.layers(model.rule.reposition(base, position))
        for (keys, values), want_keys, want_values in zip(moved, truth.keys, truth.values, strict=True):
            torch.testing.assert_close(keys, want_keys, atol=1e-4, rtol=0)
            torch.testing.assert_close(values, want_values, atol=1e-4, rtol=0)


@pytest.mark.parametrize("row", [row for row in support_table() if row.refusal], ids=lambda row: row.name)
def test_every_refused_family_is_refused_before_a_tensor_is_touched(row: Any) -> None:
    """A configuration alone, without a model: whatever else was touched would fail."""
    with pytest.raises(UnsupportedModelError, match=re.escape(row.refusal)):
        SegmentModel(SimpleNamespace(config=CONFIG_MAPPING[row.name]()))


def test_r37_the_next_turn_extends_the_generated_ids() -> None:
    """The model wrote two tokens where the tokenizer has one for the same text."""
    tokenizer, model = tiny_tokenizer(), tiny_model()
    newline = tokenizer.encode("\n", add_special_tokens=False)
    assert len(tokenizer.encode("\n\n", add_special_tokens=False)) == len(newline) == 1
    history = [Message("system", "s"), Message("user", "u")]
    asked = model.template.render(history)
    model.logits(history)
    key = CacheKey(model.fingerprint, model.facts.adapter, str(model.facts.shape.dtype))
    with model._cache.lease(key, [*asked.ids, *newline, *newline, 0]) as lease:
        model._model.forward(lease.slab, [*newline, *newline])
    model.template.remember(asked, [*newline, *newline], "\n\n")
    reply = model.generate([*history, Message("assistant", "\n\n"), Message("user", "v")], max_tokens=1)
    assert reply.cached_tokens == len(asked.ids) + 2


@cache
def engine() -> SegmentModel:
    return SegmentModel(tiny("llama"))


def test_two_threads_on_one_stored_head_are_what_one_after_the_other_gives() -> None:
    head, skill = (engine().prefill(some_ids(30, seed)).segment for seed in (1, 2))
    before = head.checksum(), skill.checksum()

    def talk(seed: int) -> KVSegment:
        segment = splice(engine(), head, [skill], query=some_ids(3, seed), seam=seed % 3).segment
        for turn in range(12):
            segment = engine().forward(segment, some_ids(1 + turn % 4, seed + turn)).segment
        return segment

    got: dict[int, KVSegment] = {}

    def keep(seed: int) -> None:
        got[seed] = talk(seed)

    threads = [threading.Thread(target=keep, args=(seed,)) for seed in (10, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (head.checksum(), skill.checksum()) == before
    for seed in (10, 11):
        assert got[seed].checksum() == talk(seed).checksum()
        assert got[seed].origin == talk(seed).origin
