"""`LocalChatModel` with edits and skills: options reach the engine, and the answer says what it rests on."""

from __future__ import annotations

from langchain_core.messages import HumanMessage, SystemMessage

from langchain_pkv import LocalChatModel, with_state
from pkv_agents import AgentSession, snapshot
from pkv_agents.local import REWRITE_HEAD
from tests.langchain.support import TAG, a_shop
from tests.langchain.tiny import tiny_model

SKILL = "Take back what came within fourteen days.\nPay it back.\n" * 3 + "Thanks."


def test_a_changed_field_is_edited_in_place_behind_with_state() -> None:
    shop = a_shop()
    session = AgentSession(shop, key="s", instructions="Help.", tag=TAG, rebase_policy=REWRITE_HEAD)
    llm = with_state(LocalChatModel(local=tiny_model(), max_tokens=4, session="s", edit_mode="in_place"), session)
    first = llm.invoke([HumanMessage("hello")])
    assert first.response_metadata["kv"] == "exact"
    path = next(path for path, text in snapshot(shop).leaves.items() if text.startswith('"') and "id" not in path)
    session.update({path: "another"})
    second = llm.invoke([HumanMessage("hello"), first, HumanMessage("and now?")])
    assert (second.response_metadata["kv"], second.response_metadata["edited"]) == ("edited", [path])
    assert session.ledger is not None and session.ledger.epochs[-1].baseline.leaves[path] == '"another"'
    assert session.ledger.epochs[-1].reason == "errata_limit"


def test_skills_are_put_in_place() -> None:
    llm = LocalChatModel(local=tiny_model(), max_tokens=4, skills=(SKILL,))
    head = SystemMessage(f"Help.\n\n{SKILL}\n\ncustomer.tier: gold")
    answer = llm.invoke([head, HumanMessage("hello")])
    assert answer.response_metadata["kv"] == "composed"
    assert llm.invoke([head, HumanMessage("hello")], skills=()).response_metadata["kv"] == "exact"
