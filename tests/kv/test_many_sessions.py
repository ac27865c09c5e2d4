"""Many sessions on one engine under a byte budget: each exact turn is what a fresh prefill gives, memory is bounded."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from pkv_agents.kv import EXACT, CacheKey, FieldSpan, HFModel, KVSegment, PrefixCache, SegmentModel, Slab, edit, splice
from pkv_agents.local import LocalModel
from pkv_agents.messages import Message
from tests.kv.zoo import build, config_of, some_ids

LIMIT = 1024
HEADS = [some_ids(60, 1), some_ids(60, 2), [*some_ids(40, 1), *some_ids(20, 3)]]
"""The third begins as the first does."""
SKILL, FIELD = some_ids(20, 4), FieldSpan("order.status", 30, 33)


@dataclass
class Talk:
    """One session: an exact one, or one that began with a splice or an edit."""

    kind: str
    ids: list[int]
    start: KVSegment | None = None
    turns: int = 0
    missed: int = 0


class Engine:
    """The parts as a program joins them: slabs for decoding, segments for composing, one cache."""

    def __init__(self, budget: int) -> None:
        model = build(config_of("llama", num_hidden_layers=2))
        self.slabs, self.segments = HFModel(model), SegmentModel(model)
        self.cache = PrefixCache(self.slabs.facts.shape, budget=budget, limit=LIMIT)

    def begin(self, number: int) -> Talk:
        """Two in three sessions are exact; the others have a skill spliced in, or a field edited in place."""
        head = HEADS[number % 3]
        kind = ("exact", "exact", "spliced", "exact", "exact", "edited")[number % 6]
        if kind == "exact":
            return Talk(kind, [*head, *SKILL] if number % 4 else list(head))
        prompt = self.segments.prefill(head).segment.with_fields(FIELD)
        if kind == "spliced":
            start = splice(self.segments, prompt, [self.segments.prefill(SKILL).segment]).segment
        else:
            start = edit(self.segments, prompt, FIELD.path, [5 + number, 9], mode="in_place").segment
        assert start.origin != EXACT
        return Talk(kind, start.ids.tolist(), start)

    def turn(self, talk: Talk, name: str, new: Sequence[int], answer: int) -> torch.Tensor:
        """One call: what is not cached is forwarded, then the answer is chosen greedily. The first logits."""
        talk.ids += new
        origin = talk.start.origin if talk.start is not None else EXACT
        key = CacheKey(self.slabs.facts.fingerprint, origin=origin)
        with self.cache.lease(key, talk.ids, reserve=answer, session=name) as lease:
            if talk.start is not None and not lease.cached:
                talk.missed += 1
                self.segments.fill(lease.slab, talk.start)
            assert lease.slab.ids.tolist() == talk.ids[: lease.slab.length]
            first = logits = self.slabs.forward(lease.slab, talk.ids[lease.slab.length :])
            for _ in range(answer):
                talk.ids.append(int(logits.argmax()))
                logits = self.slabs.forward(lease.slab, talk.ids[-1:])
        talk.turns += 1
        return first

    def fresh(self, ids: Sequence[int]) -> torch.Tensor:
        """A prefill of the same ids on a slab of its own."""
        slab = Slab(self.slabs.facts.shape, capacity=len(ids), limit=LIMIT)
        return self.slabs.forward(slab, list(ids))


def assert_same_decision(got: torch.Tensor, want: torch.Tensor) -> None:
    assert int(got.argmax()) == int(want.argmax())
    torch.testing.assert_close(got, want, atol=2e-3, rtol=0)


@pytest.mark.slow
def test_fifty_sessions_of_twenty_turns_in_a_budget() -> None:
    shuffle = random.Random(7)
    engine = Engine(budget=1_500_000)
    talks = {f"session {number}": engine.begin(number) for number in range(50)}
    before = {name: talk.start.checksum() for name, talk in talks.items() if talk.start is not None}
    order = [name for name in talks for _ in range(20)]
    shuffle.shuffle(order)
    for step, name in enumerate(order):
        talk = talks[name]
        new = some_ids(shuffle.randint(2, 9), seed=step)
        got = engine.turn(talk, name, new, answer=2)
        engine.cache.check_integrity()
        stats = engine.cache.stats()
        assert stats.bytes <= stats.budget
        if talk.kind == "exact":
            assert_same_decision(got, engine.fresh(talk.ids[:-2]))
    assert all(talk.turns == 20 for talk in talks.values())
    assert {name: talk.start.checksum() for name, talk in talks.items() if talk.start is not None} == before
    assert engine.cache.stats().evicted > 50 and engine.cache.stats().copied > 0
    # What is really alive, not only what the cache counts.
    gc.collect()
    alive = [thing for thing in gc.get_objects() if isinstance(thing, Slab) and thing.shape == engine.cache.shape]
    assert sum(slab.nbytes for slab in alive) <= engine.cache.budget


def test_a_session_that_began_with_a_splice_or_an_edit_repeats_itself_after_an_eviction() -> None:
    """Also what is not exact gives the same numbers whether its slab is still there or is filled again."""
    kept, evicted = Engine(budget=1 << 30), Engine(budget=1)
    for number in (2, 5):
        warm, cold = kept.begin(number), evicted.begin(number)
        for turn in range(4):
            new = some_ids(5, seed=turn)
            assert_same_decision(kept.turn(warm, "s", new, answer=1), evicted.turn(cold, "s", new, answer=1))
        assert (warm.missed, cold.missed) == (1, 4)


@pytest.mark.embedded
@pytest.mark.slow
def test_forty_sampled_turns_on_the_embedded_model(embedded_model: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    budget = 45_000_000
    loaded = AutoModelForCausalLM.from_pretrained(embedded_model, dtype=torch.float32).eval()
    model = LocalModel(loaded, AutoTokenizer.from_pretrained(embedded_model), cache_bytes=budget)
    policy = "You are a shop agent. An order may be cancelled until it is shipped. Be brief. " * 3
    talks = [[Message("system", f"{policy}\ntier: {'gold' if number % 2 else 'silver'}\n")] for number in range(5)]
    order = [number for number in range(5) for _ in range(8)]
    random.Random(3).shuffle(order)
    for step, number in enumerate(order):
        talk, session = talks[number], str(number)
        talk.append(Message("user", f"May order {1000 + 37 * step} be cancelled?"))
        if step % 3 == 0:
            talk.append(Message("system", f"[update] orders[{step}].status is now shipped"))
        assert_same_decision(model.logits(talk, session=session), model.logits(talk, cold=True))
        talk.append(model.generate(talk, max_tokens=3, session=session).message)
        model.check_integrity()
        assert model.cache_stats.bytes <= budget
    assert model.cache_stats.evicted > 0 and model.cache_stats.continued > 40
