"""Edits and skills on the embedded model: a changed head costs little, and decides as a clean prefill does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pkv_agents import AgentSession, Message, Skill, SkillRegistry, Skills, TrackedState, wire
from pkv_agents.local import Conversation, LocalModel
from pkv_agents.local.battery import draw_shop, small_talk


@pytest.fixture(scope="module")
def model(embedded_model: Path) -> LocalModel:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(embedded_model, dtype=torch.float32).eval()
    return LocalModel(loaded, AutoTokenizer.from_pretrained(embedded_model))


@pytest.mark.embedded
@pytest.mark.filterwarnings("ignore")
def test_a_field_behind_the_policy_is_edited_as_if_it_had_been_prefilled(model: LocalModel) -> None:
    shop, talk = draw_shop(3), small_talk(1)
    question = Message("user", shop.question)
    old, new = shop.head(shop.old, "after"), shop.head(shop.new, "after")
    model.logits([old, *talk], session="s", edit_mode="in_place")
    have = model.logits([new, *talk, question], session="s", edit_mode="in_place").log_softmax(-1)
    clean = model.logits([new, *talk, question], cold=True).log_softmax(-1)
    stale = model.logits([old, *talk, question], cold=True).log_softmax(-1)
    near, far = (float((clean.exp() * (clean - other)).sum()) for other in (have, stale))
    assert near < 0.02
    assert int(have.argmax()) == int(clean.argmax())
    assert near < far or far < 1e-3
    exact = model.logits([new, *talk, question], session="s").log_softmax(-1)
    assert float((exact - clean).abs().max()) < 1e-2


@pytest.mark.embedded
@pytest.mark.filterwarnings("ignore")
def test_a_policy_in_place_is_near_a_clean_prefill(model: LocalModel) -> None:
    shop = draw_shop(4)
    asked = [shop.head(shop.old, "after"), Message("user", shop.question)]
    clean = model.logits(asked, cold=True).log_softmax(-1)
    spliced = model.logits(asked, skills=[shop.policy]).log_softmax(-1)
    absent = model.logits([Message("system", asked[0].text.removeprefix(shop.policy)), asked[1]], cold=True)
    near, far = (float((clean.exp() * (clean - other.log_softmax(-1))).sum()) for other in (spliced, absent))
    assert near < 0.05 and near < far


class _Desk(TrackedState):
    customer: str = "Mara"
    skills: Skills = Skills()


@pytest.mark.embedded
@pytest.mark.filterwarnings("ignore")
def test_a_skill_loaded_in_mid_session_is_put_in_place_and_is_near_a_clean_prefill(model: LocalModel) -> None:
    shop = draw_shop(4)
    registry = SkillRegistry([Skill("shop", "The rules of the shop.", shop.policy)])
    session = AgentSession(_Desk(skills=registry.start()), key="mid-session")
    talk = Conversation(model, session, skills=registry, later_skills=True, options={"max_tokens": 4})
    history = [Message("user", "Hello.")]
    first = talk.answer(history).reply
    session.update(registry.load("shop", session.state.skills))
    history += [first.message, Message("user", "A moment.")]
    turn = talk.answer(history)
    size = len(model.template.encode(registry.appended_text("shop")))
    assert first.grade == "exact" and turn.reply.grade == "composed"
    assert (
        turn.reply.prompt_tokens - turn.reply.cached_tokens < turn.reply.prompt_tokens - first.prompt_tokens - size + 32
    )

    history += [turn.reply.message, Message("user", shop.question)]
    asked = wire(session.plan(history, profile=model.profile), history)
    texts = [registry.appended_text("shop")]
    clean = model.logits(asked, cold=True).log_softmax(-1)
    spliced = model.logits(asked, session="mid-session", skills=texts).log_softmax(-1)
    absent = model.logits([asked[0], *history], cold=True).log_softmax(-1)
    near, far = (float((clean.exp() * (clean - other)).sum()) for other in (spliced, absent))
    assert near < 0.1 and near < far
