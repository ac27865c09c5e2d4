"""The cells are balanced, and each case is what its cell claims."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._arms import openai_tools, requests_of
from benchmarks._cases import KINDS, VARIANTS, Case, Head, Phrasing, draw_case
from benchmarks.parity import jobs_of
from examples.support_agent.policy import read_field
from examples.support_agent.vocabulary import HELD_OUT, TOPICS, TRAINED
from pkv_agents import LOCAL, snapshot

SEEDS = st.integers(0, 10_000)
HEADS = st.sampled_from(("short", "long"))
PHRASINGS = st.sampled_from(("trained", "held_out"))


def deciding_values(case: Case) -> list[str]:
    """The deciding field's values, the baseline's first."""
    name, order = case.world.rules[case.question.topic].field, case.question.order_id
    return [read_field(shop, name, order) for shop in (case.world.shop, *case.states())]


def changed_paths(case: Case) -> list[str]:
    """Every change in the conversation, the clock aside."""
    return [path for request in case.world.requests for path in request.patch if path != "now"]


def steps(values: list[str]) -> list[str]:
    """The values without repetition of the one before."""
    return [value for at, value in enumerate(values) if not at or value != values[at - 1]]


@given(seed=SEEDS, head=HEADS, phrasing=PHRASINGS)
def test_a_seed_draws_what_its_cell_claims(seed: int, head: Head, phrasing: Phrasing) -> None:
    case = draw_case(seed, head=head, phrasing=phrasing)
    values, changes = steps(deciding_values(case)), changed_paths(case)
    assert case.kind == KINDS[seed % 4]
    assert case.variant in VARIANTS[case.kind]
    assert 1 <= len(case.world.requests) - 1 <= 6
    match case.kind:
        case "flip":
            assert changes == [case.path]
            assert len(values) == 2
        case "irrelevant":
            assert 1 <= len(changes) <= 3
            assert case.path not in changes
        case "back_and_forth":
            assert set(changes) == {case.path}
            assert len(values) == len(case.variant.split("-"))
            assert len(set(values)) == 2
        case "several":
            assert len(changes) == len(set(changes)) >= 3
            assert case.path in changes
            turns = sum(len(request.patch) > 1 for request in case.world.requests)
            assert (turns == 1) is (case.variant == "at once")


@given(seed=SEEDS, head=HEADS, phrasing=PHRASINGS)
def test_stale_is_a_real_control(seed: int, head: Head, phrasing: Phrasing) -> None:
    case = draw_case(seed, head=head, phrasing=phrasing)
    right = case.answers()[-1]
    stale_is_right = case.kind == "irrelevant" or case.variant == "A-B-A"
    assert (case.stale_answer() == right) is stale_is_right
    if not stale_is_right:
        assert case.stale_answer()[0] != right[0]


@given(seed=SEEDS, head=HEADS, phrasing=PHRASINGS)
def test_every_change_changes_something_and_none_precedes_the_baseline(
    seed: int, head: Head, phrasing: Phrasing
) -> None:
    case = draw_case(seed, head=head, phrasing=phrasing)
    before = snapshot(case.world.shop)
    for turn, (request, shop) in enumerate(zip(case.world.requests, case.states(), strict=True)):
        now = snapshot(shop)
        moved = {path for path in now if now[path] != before[path]}
        assert moved == set(request.patch)
        assert turn or moved == {"now"}
        before = now


@given(seed=SEEDS, head=HEADS, phrasing=PHRASINGS)
def test_the_answer_stands_nowhere_to_be_copied(seed: int, head: Head, phrasing: Phrasing) -> None:
    case = draw_case(seed, head=head, phrasing=phrasing)
    keys = [
        (request.topic, read_field(shop, case.world.rules[request.topic].field, request.order_id))
        for request, shop in zip(case.world.requests, case.states(), strict=True)
    ]
    assert keys[-1] not in keys[:-1]


@given(seed=SEEDS, head=HEADS, phrasing=PHRASINGS)
def test_no_answer_tells_what_only_errata_may_tell(seed: int, head: Head, phrasing: Phrasing) -> None:
    case = draw_case(seed, head=head, phrasing=phrasing)
    first = deciding_values(case)[0]
    for note in case.notes()[:-1]:
        if note.startswith(f"{case.path}: "):
            assert note == f'{case.path}: "{first}"'


@given(seed=SEEDS, phrasing=PHRASINGS)
def test_nothing_that_decides_was_trained(seed: int, phrasing: Phrasing) -> None:
    case = draw_case(seed, phrasing=phrasing)
    trained = {value for values in TRAINED.values.values() for value in values}
    assert not {value for rule in case.world.rules.values() for value, _ in rule.actions} & trained
    assert case.world.shop.customer.name in HELD_OUT.names
    assert case.question.town in HELD_OUT.towns
    topic = next(topic for topic in TOPICS if topic.name == case.question.topic)
    pool = topic.requests if phrasing == "trained" else topic.paraphrases
    asked = {text.format(id=case.question.order_id, town=case.question.town) for text in pool}
    assert case.question.text in asked
    assert ("request, if " in case.world.policy) is (phrasing == "trained")


def test_a_seed_is_one_case_and_seeds_differ() -> None:
    digests = [draw_case(seed).digest() for seed in range(20)]
    assert digests == [draw_case(seed).digest() for seed in range(20)]
    assert len(set(digests)) == 20
    assert draw_case(0).digest() != draw_case(0, phrasing="held_out").digest()


@pytest.mark.parametrize(("seeds", "long_seeds", "phrasing_seeds"), [(200, 40, 40), (20, 4, 4)])
def test_kinds_are_balanced_in_every_group(seeds: int, long_seeds: int, phrasing_seeds: int) -> None:
    jobs = jobs_of(seeds=seeds, long_seeds=long_seeds, phrasing_seeds=phrasing_seeds)
    assert len(set(jobs)) == seeds + long_seeds + phrasing_seeds
    counts = Counter((job.head, job.phrasing, KINDS[job.seed % 4]) for job in jobs)
    for head, phrasing, total in (
        ("short", "trained", seeds),
        ("long", "trained", long_seeds),
        ("short", "held_out", phrasing_seeds),
    ):
        assert {counts[head, phrasing, kind] for kind in KINDS} == {total // 4}


@pytest.mark.embedded
@pytest.mark.slow
def test_heads_are_as_long_as_they_claim(embedded_model: Path) -> None:
    from transformers import AutoTokenizer

    from pkv_agents.local.turns import tools_block

    tokenizer = AutoTokenizer.from_pretrained(embedded_model)
    for job in jobs_of(seeds=200, long_seeds=8, phrasing_seeds=40):
        case = draw_case(job.seed, head=job.head, phrasing=job.phrasing)
        system = requests_of(case, LOCAL)["ours"][0].text
        length = len(tokenizer.encode(f"{tools_block(openai_tools())}\n\n{system}", add_special_tokens=False))
        assert 400 < length < 1000 if job.head == "short" else 3000 < length < 3600
