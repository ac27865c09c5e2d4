"""A floating memory: it is read at each query, and nothing of it is ever stored."""

from __future__ import annotations

import statistics
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv import EXACT, Composed, FieldSpan, FloatingCost, FloatingMemory, Forwarded, SegmentModel
from tests.kv.zoo import MECHANISMS, build, config_of, some_ids, tiny

HEAD, PREAMBLE = some_ids(12), some_ids(3, 5)
FACTS, ORDERS, NOTES = some_ids(40, 2), some_ids(30, 3), some_ids(20, 4)
ALL = 99


@cache
def engine(name: str = "llama") -> SegmentModel:
    return SegmentModel(tiny(name))


def new_memory(name: str = "llama", *, seam: int = 0) -> FloatingMemory:
    model = engine(name)
    memory = FloatingMemory(model, model.prefill(HEAD).segment, preamble=PREAMBLE, seam=seam)
    memory.put("facts", FACTS, fields=[FieldSpan("tier", 4, 6)])
    memory.put("orders", ORDERS)
    return memory


def divergence(model: SegmentModel, asked: Forwarded) -> float:
    """Of the next token's distribution from a clean prefill of the same tokens (KL)."""
    want = model.prefill(asked.segment.ids.tolist()).logits
    assert asked.logits is not None and want is not None
    p, q = want.log_softmax(-1), asked.logits.log_softmax(-1)
    return float((p.exp() * (p - q)).sum())


def turn(memory: FloatingMemory, number: int) -> Forwarded:
    """One turn; the reply is decoded behind the memory."""
    asked = memory.ask(some_ids(4, 100 + number))
    assert asked.logits is not None
    token = int(asked.logits.argmax())
    memory.settle([token, *some_ids(1, 200 + number)])
    return asked


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_stored_is_a_prefill_without_memory(name: str) -> None:
    memory, model = new_memory(name), engine(name)
    spoken = list(HEAD)
    for number in range(4):
        asked = turn(memory, number)
        places = len(spoken) + len(FACTS) + len(ORDERS)
        assert asked.segment.ids.tolist() == [*spoken, *FACTS, *ORDERS, *asked.segment.ids[places:].tolist()]
        assert isinstance(asked.segment.origin, Composed)
        spoken += memory.transcript.ids[len(spoken) :].tolist()
    clean = model.prefill(spoken).segment
    assert memory.transcript.ids.tolist() == spoken and memory.transcript.origin == EXACT
    for have, want in zip(
        (*memory.transcript.keys, *memory.transcript.values), (*clean.keys, *clean.values), strict=True
    ):
        torch.testing.assert_close(have, want, atol=2e-4, rtol=1e-4)


def run_of_thirty(model: SegmentModel, seam: int, head: list[int]) -> list[float]:
    """Thirty turns with three edits of the memory; the divergence at each query."""
    memory = FloatingMemory(model, model.prefill(head).segment, preamble=PREAMBLE, seam=seam)
    memory.put("facts", FACTS)
    memory.put("orders", ORDERS)
    found: list[float] = []
    for number in range(30):
        if number in (8, 16, 24):
            memory.put("facts", [*FACTS[:4], 20 + number, *FACTS[5:]])
        asked = turn(memory, number)
        assert int(asked.segment.ids[len(memory.transcript) - 6 + 4]) == memory.parts["facts"].ids[4]
        found.append(divergence(model, asked))
    return found


def test_thirty_turns_with_three_edits_are_a_prefill_if_everything_is_computed_anew() -> None:
    """The oracle: with seams that cover the memory, each query is answered as by a clean prefill."""
    assert max(run_of_thirty(engine(), ALL, HEAD)) < 1e-5


def test_thirty_turns_with_three_edits_do_not_drift() -> None:
    """Reused memory is an approximation, in turn thirty no worse than in turn one (its share shrinks slowly).

    A random model that attends as wildly as the zoo's says nothing about sizes; this one is calmer.
    """
    model = SegmentModel(build(config_of("llama", initializer_range=0.1)))
    found = run_of_thirty(model, 0, some_ids(400))
    first, last = statistics.median(found[:10]), statistics.median(found[-10:])
    assert first / 3 < last < 1.1 * first


def test_after_thirty_turns_and_three_edits_it_is_as_if_it_began_here() -> None:
    """Nothing drifts: a memory that is new, on a clean prefill of the transcript, answers with the same numbers."""
    memory, model = new_memory(), engine()
    for number in range(30):
        if number in (8, 16, 24):
            memory.put("facts", [*FACTS[:4], 20 + number, *FACTS[5:]])
        turn(memory, number)
    again = FloatingMemory(model, model.prefill(memory.transcript.ids.tolist()).segment, preamble=PREAMBLE)
    for name, part in memory.parts.items():
        again.put(name, part.ids.tolist())
    old, new = memory.ask([7, 8]), again.ask([7, 8])
    assert old.segment.ids.tolist() == new.segment.ids.tolist() and old.logits is not None and new.logits is not None
    torch.testing.assert_close(old.logits, new.logits, atol=2e-4, rtol=1e-4)


def test_what_was_computed_behind_a_memory_would_hold_it() -> None:
    """The mutation: a transcript cut out of the turn, instead of one that is forwarded again."""
    memory, model = new_memory(), engine()
    asked = turn(memory, 0)
    behind = asked.segment.slice(len(asked.segment) - 4, len(asked.segment)).moved(len(HEAD))
    clean = model.prefill(memory.transcript.ids[: len(HEAD) + 4].tolist()).segment
    kept, _ = model.rule.layers(behind)[2]
    assert float((kept - clean.keys[2][:, len(HEAD) :]).abs().max()) > 1e-2


def test_the_cost_is_counted() -> None:
    memory = new_memory(seam=2)
    compiled = 2 * len(PREAMBLE) + len(FACTS) + len(ORDERS)
    assert memory.cost == FloatingCost(compiled=compiled)
    memory.put("facts", FACTS)  # as it was
    turn(memory, 0)
    turn(memory, 1)
    reused = len(FACTS) + len(ORDERS) - 4
    assert memory.cost == FloatingCost(turns=2, compiled=compiled, asked=2 * (4 + 4), reused=2 * reused, again=2 * 6)


def test_parts_keep_their_place_grow_and_go() -> None:
    memory = new_memory()
    memory.put("facts", NOTES)
    assert memory.ask([1]).segment.ids.tolist() == [*HEAD, *NOTES, *ORDERS, 1]
    memory.drop("facts")
    memory.put("facts", FACTS)
    assert memory.ask([1]).segment.ids.tolist() == [*HEAD, *ORDERS, *FACTS, 1]
    memory.drop("orders")
    memory.drop("facts")
    bare = memory.ask([1])
    assert bare.segment.ids.tolist() == [*HEAD, 1] and bare.segment.origin == EXACT


def test_a_field_is_edited_in_place_and_compiled_tokens_take_it_back() -> None:
    memory = new_memory()
    before = memory.parts["facts"].checksum()
    memory.edit("facts", "tier", [50, 51, 52])
    assert memory.parts["facts"].ids.tolist() == [*FACTS[:4], 50, 51, 52, *FACTS[6:]]
    memory.put("facts", memory.parts["facts"].ids.tolist())  # the same tokens, but compiled
    assert isinstance(memory.parts["facts"].origin, Composed)
    memory.put("facts", FACTS)
    assert memory.parts["facts"].checksum() == before


@given(st.lists(st.sampled_from(["ask", "settle", "put", "drop", "edit"]), max_size=8))
def test_any_order_of_calls_leaves_an_exact_transcript(calls: list[str]) -> None:
    memory, asked, spoken = new_memory(), False, list(HEAD)
    for number, call in enumerate(calls):
        try:
            if call == "ask":
                memory.ask([1 + number])
                asked = True
            elif call == "settle":
                memory.settle([30 + number])
                spoken += [*memory.transcript.ids[-2:].tolist()]
                assert asked
                asked = False
            elif call == "put":
                memory.put("facts", [*NOTES, number], fields=[FieldSpan("tier", 1, 2)])
            elif call == "drop":
                memory.drop("facts")
            else:
                memory.edit("facts", "tier", [9, number])
        except SegmentError:
            assert (call == "settle" and not asked) or "facts" not in memory.parts
    assert memory.transcript.ids.tolist() == spoken and memory.transcript.origin == EXACT


def test_a_call_that_fails_changes_nothing() -> None:
    memory = new_memory()
    with pytest.raises(SegmentError, match=r"ask\(\) comes first"):
        memory.settle([1])
    before, cost, parts = memory.transcript, memory.cost, dict(memory.parts)
    with pytest.raises(SegmentError, match="0 to 63"):
        memory.ask([64])
    with pytest.raises(SegmentError, match="0 to 63"):
        memory.put("orders", [64])
    with pytest.raises(ContextLengthError):
        memory.ask([1] * 1000)
    with pytest.raises(SegmentError, match="no part 'unheard'"):
        memory.drop("unheard")
    with pytest.raises(SegmentError, match="no field 'unheard'"):
        memory.edit("facts", "unheard", [1])
    assert (memory.transcript, memory.cost, dict(memory.parts)) == (before, cost, parts)
    memory.ask([1])
    with pytest.raises(ContextLengthError):
        memory.settle([1] * 1024)
    assert memory.settle([2]).ids.tolist() == [*HEAD, 1, 2]  # the turn is still open


def test_what_cannot_float_is_refused() -> None:
    transcript = engine().prefill(HEAD).segment
    with pytest.raises(SegmentError, match="0 or more"):
        FloatingMemory(engine(), transcript, seam=-1)
    with pytest.raises(SegmentError, match="another model"):
        FloatingMemory(engine("mistral"), transcript)
