"""A head with compiled skills in it: the oracle is a prefill, and nothing that is reused is computed."""

from __future__ import annotations

import pytest
import torch

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv import SegmentModel, compile_segment, splice
from pkv_agents.kv.compose import Placed, compiled_digest, compose, placed_origin
from pkv_agents.kv.origin import EXACT, Composed
from tests.kv.zoo import MECHANISMS, some_ids, tiny

FRONT, SKILL, BETWEEN, OTHER, REST = (some_ids(size, seed) for seed, size in enumerate((6, 9, 4, 7, 5), start=1))
IDS = [*FRONT, *SKILL, *BETWEEN, *OTHER, *REST]
STARTS = (6, 19)
PREAMBLE = [3, 4]


def placed(model: SegmentModel, preamble: list[int]) -> list[Placed]:
    parts = (compile_segment(model, ids, preamble=preamble) for ids in (SKILL, OTHER))
    return [Placed(start, part) for start, part in zip(STARTS, parts, strict=True)]


@pytest.mark.parametrize("name", MECHANISMS)
def test_with_seams_that_cover_the_skills_it_is_a_prefill(name: str) -> None:
    model = SegmentModel(tiny(name))
    done, clean = compose(model, IDS, placed(model, []), seam=99), model.prefill(IDS)
    assert done.computed == len(IDS)
    assert done.logits is not None and clean.logits is not None
    torch.testing.assert_close(done.logits, clean.logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("seam", [0, 1, 4])
def test_it_is_what_splicing_one_after_the_other_gives(seam: int) -> None:
    model = SegmentModel(tiny("llama"))
    first, second = placed(model, PREAMBLE)
    done = compose(model, IDS, [first, second], seam=seam)
    step = splice(model, model.prefill(FRONT).segment, [first.segment], query=BETWEEN, seam=seam).segment
    step = splice(model, step, [second.segment], query=REST, seam=seam)
    assert done.computed == len(IDS) - len(SKILL) - len(OTHER) + 2 * seam
    assert done.logits is not None and step.logits is not None
    torch.testing.assert_close(done.logits, step.logits, atol=1e-4, rtol=1e-4)


def test_its_origin_is_known_before_anything_is_compiled() -> None:
    model = SegmentModel(tiny("llama"))
    before = placed_origin(STARTS, [compiled_digest(ids, PREAMBLE) for ids in (SKILL, OTHER)], seam=2)
    done = compose(model, IDS, placed(model, PREAMBLE), seam=2).segment
    assert done.origin == before
    assert isinstance(before, Composed) and before.seam == 2
    assert model.forward(done, [7]).segment.origin == before
    assert before != placed_origin((6, 20), [compiled_digest(ids, PREAMBLE) for ids in (SKILL, OTHER)], seam=2)
    assert before != placed_origin(STARTS, [compiled_digest(ids, []) for ids in (SKILL, OTHER)], seam=2)


def test_segments_stay_as_they_are() -> None:
    model = SegmentModel(tiny("llama"))
    parts = placed(model, PREAMBLE)
    sums = [part.segment.checksum() for part in parts]
    compose(model, IDS, parts, seam=3)
    assert [part.segment.checksum() for part in parts] == sums


def test_what_does_not_fit_is_refused() -> None:
    model = SegmentModel(tiny("llama"))
    first, second = placed(model, [])
    for wrong in ([], [second, first], [Placed(5, first.segment)], [Placed(30, second.segment)]):
        with pytest.raises(SegmentError):
            compose(model, IDS, wrong)
    with pytest.raises(SegmentError, match="seam"):
        compose(model, IDS, [first], seam=-1)
    with pytest.raises(ContextLengthError):
        compose(model, [*IDS, *[7] * 2000], [first])
    with pytest.raises(SegmentError, match="another model"):
        compose(SegmentModel(tiny("mistral")), IDS, [first])


def test_what_was_compiled_behind_the_same_tokens_is_exact_without_a_seam() -> None:
    model = SegmentModel(tiny("llama"))
    parts = [
        Placed(start, compile_segment(model, ids, preamble=IDS[:start]))
        for start, ids in zip(STARTS, (SKILL, OTHER), strict=True)
    ]
    done, clean = compose(model, IDS, parts, seam=4), model.prefill(IDS)
    assert done.segment.origin == EXACT and done.computed == len(IDS) - len(SKILL) - len(OTHER)
    for have, want in zip(done.segment.keys, clean.segment.keys, strict=True):
        torch.testing.assert_close(have, want, atol=1e-5, rtol=1e-5)
    loose = Placed(STARTS[0], compile_segment(model, SKILL, preamble=PREAMBLE))
    mixed = compose(model, IDS, [loose, parts[1]], seam=4).segment.origin
    assert mixed == placed_origin(STARTS, [loose.segment.digest, parts[1].segment.digest], seam=4)
    other = [*IDS[:3], 7, *IDS[4:]]
    assert isinstance(compose(model, other, parts, seam=4).segment.origin, Composed)
    turned = model.prefill(IDS[:6], start=3).segment
    assert isinstance(compose(model, IDS, [Placed(0, turned)], seam=0).segment.origin, Composed)


@pytest.mark.parametrize("seam", [0, 2])
def test_behind_a_base_it_is_the_same_sequence(seam: int) -> None:
    model = SegmentModel(tiny("llama"))
    first, second = placed(model, PREAMBLE)
    whole = compose(model, IDS, [first, second], seam=seam)
    base = compose(model, IDS[:17], [first], seam=seam).segment
    done = compose(model, IDS, [second], seam=seam, base=base)
    assert done.segment.origin == whole.segment.origin
    assert done.logits is not None and whole.logits is not None
    torch.testing.assert_close(done.logits, whole.logits, atol=1e-4, rtol=1e-4)
    with pytest.raises(SegmentError, match="base"):
        compose(model, IDS, [second], seam=seam + 1, base=base)
    with pytest.raises(SegmentError, match="base"):
        compose(model, IDS[1:], [Placed(18, second.segment)], seam=seam, base=base)
