"""A skill that is loaded in mid-session is put in place where its erratum stands, and never called exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pkv_agents import AgentSession, Message, Skill, SkillRegistry, Skills, TrackedState, wire
from pkv_agents.kv import Composed, DiskStore, compile_segment, splice
from pkv_agents.local import SKILL_PREAMBLE, SKILL_SEAM, Conversation, LocalModel, find_skills
from tests.local.tiny import LATE_RAISES, PERMISSIVE, tiny_llama, tiny_tokenizer

RULES = Skill("rules", "Rules.", "# Rules\n\nPlease cancel the order and send it to Bern, thanks.\n" * 3)
TONE = Skill("tone", "Tone.", "# Tone\n\nAnswer the question, thanks.\n" * 3)
REGISTRY = SkillRegistry([RULES, TONE])


class Desk(TrackedState):
    customer: str = "Mara"
    skills: Skills = Skills()


class Talk:
    """A conversation, its history, and a model of its own."""

    def __init__(
        self, skills: Any = REGISTRY, *, folder: Path | None = None, template: str = PERMISSIVE, later: bool = True
    ) -> None:
        store = DiskStore(folder) if folder is not None else None
        self.model = LocalModel(tiny_llama(), tiny_tokenizer(template), cache_bytes=64 << 20, skill_store=store)
        self.session = AgentSession(Desk(skills=REGISTRY.start("tone")), key="s", tag="abcd", strict=True)
        self.talk = Conversation(self.model, self.session, skills=skills, later_skills=later, options={"max_tokens": 4})
        self.history: list[Message] = []

    def say(self, text: str) -> Any:
        self.history.append(Message("user", text))
        turn = self.talk.answer(self.history)
        self.history.append(turn.reply.message)
        return turn

    def load(self) -> None:
        self.session.update(REGISTRY.load("rules", self.session.state.skills))


@pytest.mark.parametrize("template", [PERMISSIVE, LATE_RAISES])
def test_it_is_put_in_place_and_later_turns_go_on_from_it(template: str) -> None:
    talk = Talk(template=template)
    first = talk.say("one").reply
    assert isinstance(first.origin, Composed) and len(first.origin.parts) == 1
    talk.load()
    turn = talk.say("two")
    assert "# Rules" in turn.plan.erratum.text
    second = turn.reply
    assert isinstance(second.origin, Composed) and second.origin.parts[:1] == first.origin.parts
    assert len(second.origin.parts) == 2
    skill = len(talk.model.template.encode(REGISTRY.appended_text("rules")))
    assert second.prompt_tokens - second.cached_tokens < second.prompt_tokens - first.prompt_tokens - skill + 16
    third = talk.say("three").reply
    assert third.origin == second.origin and third.cached_tokens >= second.prompt_tokens
    assert [notice.code for notice in talk.session.report().notices] == ["kv_approximate"]
    talk.model.check_integrity()


def test_keys_and_values_are_those_that_a_splice_gives() -> None:
    talk = Talk()
    talk.say("one")
    talk.load()
    plan = talk.session.plan(history := [*talk.history, Message("user", "two")], profile=talk.model.profile)
    sent = wire(plan, history)
    model, template = talk.model, talk.model.template
    ids = model.render_ids(sent)
    texts = [REGISTRY.head_text("tone"), REGISTRY.appended_text("rules")]
    have = model.logits(sent, session="s", skills=texts)
    assert model.render_ids(sent) == ids  # the tokens are those of a plain request

    tone, rules = find_skills(ids, [template.encode(text) for text in texts])
    segments, preamble = model.segments, template.preamble(SKILL_PREAMBLE)
    made = None
    at = 0
    for one in (tone, rules):
        front = segments.prefill(ids[at : one.start]) if made is None else segments.forward(made, ids[at : one.start])
        compiled = one.cut(compile_segment(segments, one.whole, preamble=preamble))
        made, at = splice(segments, front.segment, [compiled], seam=SKILL_SEAM).segment, one.stop
    assert made is not None
    want = segments.forward(made, ids[at:]).logits
    assert want is not None
    torch.testing.assert_close(have, want, atol=1e-4, rtol=1e-4)


def test_what_was_compiled_ahead_is_taken_from_disk(tmp_path: Path) -> None:
    talk = Talk(folder=tmp_path)
    talk.model.skills.compile([REGISTRY.head_text("tone"), REGISTRY.appended_text("rules")])
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    again = Talk(folder=tmp_path)
    again.say("one")
    again.load()
    assert again.say("two").reply.grade == "composed"
    assert sorted(tmp_path.iterdir()) == files


def test_behind_an_exact_head_only_the_later_skill_is_approximate(tmp_path: Path) -> None:
    talk = Talk(folder=tmp_path)
    asked = [Message("user", "one")]
    plan = talk.session.plan(asked, profile=talk.model.profile)
    talk.model.skills.compile([REGISTRY.head_text("tone")], behind=wire(plan, asked))
    assert talk.say("one").reply.grade == "exact"
    talk.load()
    reply = talk.say("two").reply
    assert isinstance(reply.origin, Composed) and len(reply.origin.parts) == 1


def test_without_the_callers_word_it_is_prefilled() -> None:
    talk = Talk(skills=())
    talk.say("one")
    talk.load()
    reply = talk.say("two").reply
    assert reply.grade == "exact" and not talk.session.report().notices
    heads_only = Talk(later=False)
    first = heads_only.say("one").reply
    heads_only.load()
    second = heads_only.say("two").reply
    assert second.origin == first.origin and isinstance(second.origin, Composed)


def test_a_call_that_fails_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()
    first = talk.say("one").reply
    talk.load()
    before = talk.session.ledger

    def broken(*_: object) -> None:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr("pkv_agents.local.decode.Decoder.choose", broken)
        with pytest.raises(RuntimeError, match="no memory"):
            talk.say("two")
    assert talk.session.ledger == before
    talk.model.check_integrity()
    talk.history.pop()
    talk.session.update(REGISTRY.retire("rules", talk.session.state.skills))
    again = talk.say("two").reply
    assert again.origin == first.origin and again.cached_tokens >= first.prompt_tokens
    talk.load()
    assert len(talk.say("three").reply.origin.parts) == 2


def test_untrusted_skills_are_never_compiled() -> None:
    outside = SkillRegistry([Skill("outside", "x", "Text of others.\n" * 4, trusted=False)])
    model = LocalModel(tiny_llama(), tiny_tokenizer())
    session = AgentSession(Desk(skills=outside.start("outside")), key="s")
    talk = Conversation(model, session, skills=outside, options={"max_tokens": 2})
    assert talk.answer([Message("user", "one")]).reply.grade == "exact"
