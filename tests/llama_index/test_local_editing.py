"""`LocalLLM` with edits and skills: options reach the engine, and the answer says what it rests on."""

from __future__ import annotations

from llama_index.core.llms import ChatMessage

from llama_index.llms.pkv import LocalLLM
from tests.llama_index.support import user
from tests.local.tiny import tiny_model

SKILL = "Answer the question, thanks.\nPlease cancel the order.\n" * 3 + "order"


def head(tier: str) -> ChatMessage:
    return ChatMessage(role="system", content=f"Help.\n\n{SKILL}\n\ncustomer.tier: {tier}\ncustomer.town: Bern")


def test_a_changed_head_is_edited_and_skills_are_put_in_place() -> None:
    llm = LocalLLM(local=tiny_model(), max_tokens=4, session="s", edit_mode="in_place", skills=(SKILL,))
    first = llm.chat([head("gold"), user("hello")])
    assert isinstance(first.raw, dict) and first.raw["kv"] == "composed" and first.raw["edited"] == []
    again = llm.chat([head("new"), user("hello"), first.message, user("and now?")])
    assert isinstance(again.raw, dict) and again.raw["kv"] == "edited" and again.raw["edited"] == ["customer.tier"]
    plain = llm.chat([head("gold"), user("hello")], edit_mode="full")
    assert isinstance(plain.raw, dict) and plain.raw["kv"] == "exact"
