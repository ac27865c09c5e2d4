"""Skills on a local model: put in place from disk, shared, edited, and never exact."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pkv_agents.errors import OptionsError
from pkv_agents.kv import Composed, DiskStore, Edited
from pkv_agents.local import LocalModel
from pkv_agents.local.skills import SEAM, Found, find_skills
from pkv_agents.messages import Message
from tests.local.tiny import tiny_llama, tiny_model, tiny_tokenizer

SKILL = "Answer the question, thanks.\nreturns.days: 14\nPlease cancel the order and send it to Bern.\n" * 2 + "order"
OTHER = "customer order user assistant tool\n" * 6 + "gold"
USER = Message("user", "Please cancel the order K417.")


def head(skill: str = SKILL, *more: str, tier: str = "gold") -> Message:
    return Message("system", "\n\n".join(["You are a shop agent.", skill, *more, f"customer.tier: {tier}"]))


def with_store(folder: Path) -> LocalModel:
    return LocalModel(tiny_llama(), tiny_tokenizer(), cache_bytes=64 << 20, skill_store=DiskStore(folder))


def test_a_skill_is_put_in_place_and_not_computed(tmp_path: Path) -> None:
    model = with_store(tmp_path)
    reply = model.generate([head(), USER], max_tokens=4, skills=[SKILL])
    assert reply.grade == "composed" and isinstance(reply.origin, Composed) and reply.origin.seam == SEAM
    assert reply.cached_tokens > 60
    assert len(list(tmp_path.iterdir())) == 1
    again = with_store(tmp_path)  # another process
    other = again.generate([head(), USER], max_tokens=4, skills=[SKILL])
    assert (other.ids, other.cached_tokens) == (reply.ids, reply.cached_tokens)
    model.check_integrity()


def test_users_share_what_stands_up_to_the_last_skill() -> None:
    model = tiny_model()
    first = model.generate([head(SKILL, OTHER), USER], max_tokens=2, skills=[SKILL, OTHER])
    second = model.generate([head(SKILL, OTHER, tier="silver"), USER], max_tokens=2, skills=[OTHER, SKILL])
    assert second.origin == first.origin
    assert second.cached_tokens > first.cached_tokens


def test_an_exact_request_never_sees_a_skill_in_place() -> None:
    model = tiny_model()
    asked = [head(), USER]
    model.generate(asked, max_tokens=2, skills=[SKILL])
    reply = model.generate(asked, max_tokens=2)
    assert reply.grade == "exact" and reply.cached_tokens == 0
    torch.testing.assert_close(model.logits(asked), model.logits(asked, cold=True), atol=1e-3, rtol=0)
    full = model.generate(asked, max_tokens=2, skills=[SKILL], edit_mode="full")
    assert full.grade == "exact"


def test_later_turns_inherit_the_composition() -> None:
    model = tiny_model()
    asked = [head(), USER]
    first = model.generate(asked, max_tokens=4, skills=[SKILL], session="s")
    more = [*asked, first.message, Message("user", "Thanks")]
    second = model.generate(more, max_tokens=4, skills=[SKILL], session="s")
    assert second.origin == first.origin and second.cached_tokens >= first.prompt_tokens


def test_a_field_inside_a_skill_is_edited_where_it_stands() -> None:
    model = tiny_model()
    first = model.generate([head(), USER], max_tokens=4, skills=[SKILL], session="s", edit_mode="in_place")
    changed = SKILL.replace("returns.days: 14", "returns.days: 30", 1)
    more = [head(changed), USER, first.message, Message("user", "Thanks")]
    reply = model.generate(more, max_tokens=4, skills=[changed], session="s", edit_mode="in_place")
    assert reply.edited == ("returns.days",)
    assert isinstance(reply.origin, Edited) and isinstance(reply.origin.base, Composed)


def test_a_skill_that_does_not_stand_in_the_head_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"skills\[1\]"):
        tiny_model().generate([head(), USER], skills=[SKILL, OTHER])
    with pytest.raises(OptionsError, match="overlap"):
        tiny_model().generate([head(), USER], skills=[SKILL, SKILL])
    for wrong in ("text", [""]):
        with pytest.raises(OptionsError, match="sequence of texts"):
            tiny_model().generate([head(), USER], skills=wrong)


def test_edges_that_merge_with_what_stands_beside_are_left_to_the_text() -> None:
    assert find_skills([1, 2, 3, 4, 5], [[2, 3, 4]]) == [Found(1, (2, 3, 4))]
    assert find_skills([1, 9, 3, 4, 8, 5], [[2, 3, 4, 7]]) == [Found(2, (2, 3, 4, 7), front=1, back=1)]
    with pytest.raises(OptionsError):
        find_skills([1, 9, 9, 9, 9], [[2, 3, 4]])


def test_what_was_compiled_for_just_this_head_is_exact(tmp_path: Path) -> None:
    model, asked = with_store(tmp_path), [head(SKILL, OTHER), USER]
    model.skills.compile([OTHER, SKILL], behind=asked)
    again = with_store(tmp_path)  # another process
    reply = again.generate(asked, max_tokens=4, skills=[SKILL, OTHER])
    assert reply.grade == "exact" and reply.cached_tokens > 100
    torch.testing.assert_close(again.logits(asked), again.logits(asked, cold=True), atol=1e-3, rtol=0)
    other = again.generate([head(SKILL, OTHER, tier="silver"), USER], max_tokens=2, skills=[SKILL, OTHER])
    assert other.grade == "exact"  # what differs stands behind them
    moved = [Message("system", f"Hello. {head(SKILL, OTHER).text}"), USER]
    assert again.generate(moved, max_tokens=2, skills=[SKILL, OTHER]).grade == "composed"
    again.check_integrity()


def test_exact_up_to_the_first_skill_that_is_not(tmp_path: Path) -> None:
    model, asked = with_store(tmp_path), [head(SKILL, OTHER), USER]
    model.skills.compile([SKILL], behind=asked)
    reply = with_store(tmp_path).generate(asked, max_tokens=4, skills=[SKILL, OTHER])
    assert isinstance(reply.origin, Composed) and len(reply.origin.parts) == 1
    files = sorted(tmp_path.iterdir())
    model.skills.compile([OTHER])  # is there already
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize("gone", [0, 1])
def test_behind_a_skill_whose_file_is_gone_the_others_are_put_in_place_too(tmp_path: Path, gone: int) -> None:
    asked = [head(SKILL, OTHER), USER]
    made = with_store(tmp_path / "whole").skills.compile([SKILL, OTHER], behind=asked)
    store = DiskStore(tmp_path / "rest")
    ids = with_store(tmp_path / "whole").render_ids(asked)
    segments = with_store(tmp_path / "whole").segments
    kept = made[1 - gone]
    store.save(segments, kept, preamble=ids[: kept.start])
    model = with_store(tmp_path / "rest")
    for least in (100, len(ids) - 1):
        reply = model.generate(asked, max_tokens=2, skills=[SKILL, OTHER])
        assert isinstance(reply.origin, Composed) and len(reply.origin.parts) == 2 - gone
        assert reply.cached_tokens >= least


def test_a_file_that_is_gone_makes_the_next_answer_composed(tmp_path: Path) -> None:
    model, asked = with_store(tmp_path), [head(), USER]
    model.skills.compile([SKILL], behind=asked)
    assert model.generate(asked, max_tokens=2, skills=[SKILL]).grade == "exact"
    model.clear_cache()
    for file in tmp_path.iterdir():
        file.unlink()
    assert model.generate(asked, max_tokens=2, skills=[SKILL]).grade == "composed"


def test_kept_skills_count_in_the_budget() -> None:
    model = tiny_model(cache_bytes=96 << 10)
    held: list[int] = []
    for text in (SKILL, OTHER, SKILL.upper()):
        held.append(model.skills.compile([text])[0].nbytes)
    model.generate([head(), USER], max_tokens=2)
    model.check_integrity()
    assert sum(held) > 48 << 10 and model.cache_stats.bytes <= 96 << 10
