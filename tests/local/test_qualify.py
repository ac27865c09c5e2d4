"""What a battery makes of models that follow, that guess, and that read their head only; and what a probe finds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import AgentSession, Message, ToolCall
from pkv_agents.errors import OptionsError, UnsupportedModelError
from pkv_agents.local import Check, Conversation, LocalModel, Qualification, Reply, probe, qualify
from pkv_agents.local.battery import PATH, draw_shop, tool_records
from tests.local.test_conversation import POLICY, Shop
from tests.local.tiny import tiny_model

QUESTION = [Message("user", "Please cancel the order K417.")]


def share(found: Qualification, name: str) -> float | None:
    check = found.check(name)
    assert check is not None
    return check.share


class Reader(LocalModel):
    """A tiny model whose answers come from a program that reads the prompt, so that each check has a known outcome."""

    reads_errata = True
    reads_edits = True
    guesses = False

    def generate(self, messages: Sequence[Message], **options: Any) -> Reply:
        short: Any = {**options, "max_tokens": 4, "tool_choice": "auto", "preface": 0}
        reply = super().generate(messages, **short)
        text = "\n".join(message.text for message in messages)
        shown = messages[0].text.split(f"{PATH}: ")[1].split("\n")[0]
        later = text.split(f"{PATH}: ")[-1].split("\n")[0]
        value = json.loads(later if self.reads_errata else shown)
        if reply.edited and not self.reads_edits:
            value = next(word for word in self._values(messages) if word != value)
        tool = "escalate_case" if self.guesses else self._tool(messages, value)
        return _with_call(reply, tool)

    def _values(self, messages: Sequence[Message]) -> list[str]:
        return [part.split('"')[1] for part in messages[0].text.split("order's status is ")[1:]]

    def _tool(self, messages: Sequence[Message], value: str) -> str:
        topic = messages[-1].text if messages[-1].role == "user" else messages[-2].text
        for line in messages[0].text.split("\n"):
            if line.startswith("- On a ") and line.split()[3] in topic and f'"{value}"' in line:
                return line.split("`")[1]
        return ""


def _with_call(reply: Reply, tool: str) -> Reply:
    from dataclasses import replace

    return replace(reply, text="", tool_calls=(ToolCall(tool, {"order_id": "K1"}, "c"),))


def reader(**traits: bool) -> Reader:
    from tests.local.tiny import PERMISSIVE, tiny_llama, tiny_tokenizer

    model = Reader(tiny_llama(), tiny_tokenizer(PERMISSIVE), cache_bytes=64 << 20)
    for name, value in traits.items():
        setattr(model, name, value)
    return model


def test_who_reads_everything_is_allowed_everything(tmp_path: Path) -> None:
    told: list[str] = []
    found = qualify(reader(), shops=3, amended=(1, 5), tell=told.append)
    assert [share(found, name) for name in ("errata followed", "back and forth", "buried", "5 fields amended")] == [
        1.0
    ] * 4
    assert found.reference == "erratum" and found.allows("erratum") and found.allows("in_place")
    assert not found.allows("selective@8") and not found.allows("stale")
    positions = found.check("positions")
    assert positions is not None and positions.value is not None and positions.value < 1e-3
    assert "shop 1 of 3" in told[0] and "reference: erratum" in str(found)
    found.save(tmp_path / "q.json")
    assert Qualification.load(tmp_path / "q.json") == found


def test_one_case_is_no_evidence() -> None:
    found = qualify(reader(), shops=1, amended=())
    assert share(found, "in place, field before") == 1.0 and not found.allows("in_place")
    assert "at least 3 must be judged" in str(found)
    with pytest.raises(UnsupportedModelError, match=r"in place, field before 1\.00 \(1 of 1; at least 3"):
        found.require("in_place")


def test_who_reads_only_the_head_has_another_reference() -> None:
    found = qualify(reader(reads_errata=False), shops=3, amended=(1,))
    assert share(found, "errata followed") == 0 and found.reference == "full"
    assert not found.allows("erratum") and found.allows("in_place") and found.allows("full")
    with pytest.raises(UnsupportedModelError, match="erratum"):
        found.require("erratum")


def test_who_does_not_take_edits_is_told() -> None:
    found = qualify(reader(reads_edits=False), shops=3, amended=(1,))
    assert found.allows("erratum") and not found.allows("in_place")


def test_who_guesses_is_not_judged() -> None:
    found = qualify(reader(guesses=True), shops=1, amended=(1,))
    assert share(found, "errata followed") is None and not found.allows("erratum") and not found.allows("in_place")
    assert "not judged" in str(found)


@given(seed=st.integers(0, 10_000), fields=st.sampled_from((6, 20, 50)))
def test_shops_are_what_they_say(seed: int, fields: int) -> None:
    shop = draw_shop(seed, fields=fields)
    assert shop == draw_shop(seed, fields=fields)
    assert len(shop.state) == fields and shop.old != shop.new
    assert shop.answers[shop.old] != shop.answers[shop.new]
    assert set(shop.answers.values()) <= {str(_function(tool)["name"]) for tool in tool_records()}
    told = shop.erratum(shop.old, shop.new, shop.fillers[:3]).text
    assert told.count("\norder.") == 4 and f'{PATH}: "{shop.new}"' in told
    before, after = shop.head(shop.old, "before").text, shop.head(shop.old, "after").text
    assert before.index("order.status:") < before.index("- On") and after.index("order.status:") > after.index("- On")


def _function(tool: Mapping[str, object]) -> Mapping[str, object]:
    function = tool["function"]
    assert isinstance(function, Mapping)
    return function


def test_a_damaged_report_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"format": "pkv-agents/qualification", "version": 9}'):
        (tmp_path / "q.json").write_text(text)
        with pytest.raises(UnsupportedModelError, match="run qualify again"):
            Qualification.load(tmp_path / "q.json")
    with pytest.raises(UnsupportedModelError, match="qualification"):
        Qualification.load(tmp_path / "none.json")


def test_a_report_of_another_model_is_refused() -> None:
    from tests.local.tiny import tiny_llama, tiny_tokenizer

    other = Qualification("another", "", "float32", ())
    with pytest.raises(UnsupportedModelError, match="another model"):
        LocalModel(tiny_llama(), tiny_tokenizer(), qualification=other)


def test_a_conversation_can_require_it() -> None:
    model = tiny_model()
    session = AgentSession(Shop(), key="s", instructions=POLICY)
    with pytest.raises(UnsupportedModelError, match="no qualification"):
        Conversation(model, session, qualified=True)
    model.qualification = Qualification(model.fingerprint, "", "float32", (Check("errata followed", 4, 4),))
    Conversation(model, session, qualified=True)
    for mode in ("in_place", "selective@8"):
        with pytest.raises(UnsupportedModelError, match=mode.partition("@")[0]):
            Conversation(model, session, qualified=True, edit_mode=mode)
    with pytest.raises(UnsupportedModelError, match="skills"):
        Conversation(model, session, qualified=True, skills=["x"])


def test_a_probe_asks_both_ways_and_keeps_the_verdict() -> None:
    model = tiny_model()
    session = AgentSession(Shop(), key="s", instructions=POLICY)
    for asked in (1, 2):
        found = probe(model, session, QUESTION, {"customer.tier": "new"}, options={"max_tokens": 4})
        assert found.mode == "full" and found.cheap.grade == "edited" and found.reference.grade == "exact"
        assert found.agrees is (found.cheap.text == found.reference.text)
        assert [verdict.path for verdict in found.verdicts] == ["customer.tier"]
        assert found.verdicts[0].asked == asked and found.verdicts[0].cost_s > 0
    assert "customer.tier" in str(found) and "s for each of" in str(found)
    assert session.state.customer.tier == "gold" and session.ledger is None
    model.qualification = Qualification(model.fingerprint, "", "float32", (Check("errata followed", 4, 4),))
    assert probe(model, session, QUESTION, {"customer.tier": "new"}, options={"max_tokens": 4}).mode == "erratum"


def test_a_probe_of_nothing_is_refused() -> None:
    session = AgentSession(Shop(), key="s", instructions=POLICY)
    with pytest.raises(OptionsError, match="question"):
        probe(tiny_model(), session, [], {"customer.tier": "new"})
    with pytest.raises(OptionsError, match="nothing was edited"):
        probe(tiny_model(), session, QUESTION, {"customer.tier": "gold"}, options={"max_tokens": 2})


def test_auto_uses_what_a_probe_found() -> None:
    model = tiny_model()
    session = AgentSession(Shop(), key="s", instructions=POLICY)
    found = probe(model, session, QUESTION, {"customer.tier": "new"}, options={"choices": ["yes"]})
    assert found.agrees  # there is one answer
    conversation = Conversation(model, session, edit_mode="auto", options={"max_tokens": 2})
    history = [*QUESTION]
    history += [conversation.answer(history).reply.message, Message("user", "and now?")]
    session.update({"customer.tier": "new"})
    assert conversation.answer(history).reply.edited == ("customer.tier",)
    assert model.verdicts.get(model.skeleton([Message("system", _system(session))]), "customer.tier") is not None


def _system(session: AgentSession[Any]) -> str:
    return session.plan([*QUESTION]).system
