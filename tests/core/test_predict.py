"""What a plan says of the cache before anything is sent, and of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkv_agents import (
    ANTHROPIC,
    GENERIC,
    OPENAI,
    Ledger,
    Message,
    Profile,
    commit,
    plan,
    predict,
)
from tests.core.talk import Talk, errata
from tests.core.test_rebase import Timed


class TestPrediction:
    WARM = replace(ANTHROPIC, min_cacheable_tokens=1)

    def test_nothing_is_served_of_a_first_request(self) -> None:
        talk = Talk(self.WARM)
        talk.messages.append(Message("user", "hi"))
        assert predict(talk.plan(), talk.messages).read == 0

    def test_the_last_request_is_served_and_the_news_is_not(self) -> None:
        talk = Talk(self.WARM)
        talk.instructions = "Be kind. " * 50
        talk.say("hi")
        before = predict(talk.plan(), talk.messages)
        talk.state.mode = "auto"
        talk.messages.append(Message("user", "next"))
        made = talk.plan()
        known = predict(made, talk.messages)
        assert known.read > 0 and known.read >= before.read
        assert known.written + known.fresh < 40
        assert "cache should serve" in str(made.explain(talk.messages))

    @pytest.mark.parametrize(("profile", "marked"), [(ANTHROPIC, True), (OPENAI, False)])
    def test_markers_are_spoken_of_where_the_provider_takes_them(self, profile: Profile, *, marked: bool) -> None:
        talk = Talk(profile)
        talk.messages.append(Message("user", "hi"))
        made = talk.plan()
        assert predict(made, talk.messages).marked is marked
        assert ("if markers stand" in str(made.explain(talk.messages))) is marked

    def test_a_rebase_keeps_nothing_behind_the_instructions(self) -> None:
        talk = Talk(replace(OPENAI, min_cacheable_tokens=1, block_tokens=1))
        talk.instructions = "Be kind. " * 50
        talk.say()
        talk.messages.append(Message("user", "next"))
        kept = predict(talk.plan(), talk.messages)
        assert predict(talk.plan(rebase="tidy"), talk.messages) == kept  # the same baseline is the same prefix
        talk.state.mode = "auto"
        assert predict(talk.plan(rebase="tidy"), talk.messages).read < kept.read

    def test_another_model_has_another_cache(self) -> None:
        talk = Talk(self.WARM)
        talk.say()
        talk.messages.append(Message("user", "next"))
        other = plan(talk.ledger, talk.state, talk.messages, profile=self.WARM, instructions="Be kind.", model="other")
        assert predict(other, talk.messages).read == 0

    def test_an_expired_cache_serves_nothing(self) -> None:
        talk = Timed()
        talk.profile = self.WARM
        talk.say()
        talk.messages.append(Message("user", "next"))
        talk.wait(seconds=200)
        assert predict(talk.plan(), talk.messages).read > 0
        talk.wait(seconds=200)
        assert predict(talk.plan(), talk.messages).read == 0


def test_an_explanation_is_data() -> None:
    talk = Talk(GENERIC)
    talk.say()
    talk.state.mode = "auto"
    talk.say()
    talk.state.mode = "plan"
    talk.state.todos = []
    made = talk.say()
    found = made.explain()
    assert [(line.path, line.text, line.why) for line in found.told] == [
        ("mode", '"plan"', "changed"),
        ("todos", "[]", "new"),
    ]
    data = found.to_dict()
    assert data["epoch"] == 0 and data["new_carrier"] == "user_suffix" and data["prediction"] is None
    assert len(found.replayed) == 1 and found.quote is not None and found.quote.errata_tokens > found.new_tokens
    assert Ledger.from_dict(commit(talk.ledger, made).to_dict()) == commit(talk.ledger, made)
    assert errata(talk.sent)
