"""A session on a local model: what is told equals the state in every mode, and the answer says what it rests on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from pkv_agents import AgentSession, Message, TrackedState, Volatile, fold, snapshot, wire
from pkv_agents.errors import OptionsError
from pkv_agents.kv import Composed, Edited
from pkv_agents.local import Conversation, LocalModel
from tests.local.tiny import tiny_model

SKILL = "Answer the question, thanks.\nPlease cancel the order and send it to Bern.\n" * 3 + "order"
POLICY = f"You are a shop agent.\n\n{SKILL}\n\nThanks."
EDITING = ["in_place", "field_erratum", "selective@8"]


class Customer(BaseModel):
    tier: str = "gold"
    town: str = "Bern"


class Shop(TrackedState):
    customer: Customer = Customer()
    now: Annotated[datetime, Volatile(resolution=timedelta(minutes=10))] = datetime(2026, 1, 1, 12)


def talk(model: LocalModel, mode: str, *, store: Any = None, key: str = "s", **more: Any) -> Conversation:
    session = AgentSession(Shop(), key=key, instructions=POLICY, tag="abcd", store=store)
    return Conversation(model, session, edit_mode=mode, options={"max_tokens": 4}, **more)


def say(talk: Conversation, history: list[Message], text: str) -> Any:
    history.append(Message("user", text))
    turn = talk.answer(history)
    history.append(turn.reply.message)
    return turn


def told(talk: Conversation) -> dict[str, str]:
    """What the ledger's current epoch says that the model was told."""
    ledger = talk.session.ledger
    assert ledger is not None
    believed = ledger.epochs[-1].baseline
    for erratum in ledger.epochs[-1].errata:
        believed = fold(believed, erratum.changes)
    return dict(believed.leaves)


@pytest.mark.parametrize("mode", ["erratum", "full", "auto", *EDITING])
def test_what_was_told_equals_the_state_in_every_mode(mode: str) -> None:
    conversation, history = talk(tiny_model(), mode), list[Message]()
    for turn, tier in enumerate(["gold", "new", "new", "gold", "silver"]):
        conversation.session.update({"customer.tier": tier})
        done = say(conversation, history, f"question {turn}")
        assert told(conversation) == dict(snapshot(conversation.session.state).leaves)
        sent = "\n".join(message.text for message in wire(done.plan, history[:-1]))
        assert sent.rfind(f'customer.tier: "{tier}"') >= sent.rfind("customer.tier: ")


@pytest.mark.parametrize("mode", EDITING)
def test_an_edit_computes_little_and_is_labelled(mode: str) -> None:
    conversation, history = talk(tiny_model(), mode), list[Message]()
    assert say(conversation, history, "one").reply.grade == "exact"
    conversation.session.update({"customer.tier": "new"})
    turn = say(conversation, history, "two")
    assert turn.reply.edited == ("customer.tier",) and isinstance(turn.reply.origin, Edited)
    assert turn.plan.rebased == "edited in place: customer.tier"
    assert turn.reply.cached_tokens > 0.6 * turn.reply.prompt_tokens
    notices = {notice.code: notice for notice in conversation.session.report().notices}
    assert notices["kv_approximate"].path == "customer.tier"
    after = say(conversation, history, "three")
    assert after.reply.grade == "edited" and after.plan.rebased is None
    assert after.reply.cached_tokens >= turn.reply.prompt_tokens


def test_errata_are_exact_and_leave_the_head_alone() -> None:
    conversation, history = talk(tiny_model(), "erratum"), list[Message]()
    say(conversation, history, "one")
    conversation.session.update({"customer.tier": "new"})
    turn = say(conversation, history, "two")
    assert turn.plan.rebased is None and turn.plan.erratum is not None
    assert turn.reply.grade == "exact" and turn.reply.edited == ()


def test_field_erratum_rewrites_the_head_and_replays_its_erratum() -> None:
    conversation, history = talk(tiny_model(), "field_erratum"), list[Message]()
    say(conversation, history, "one")
    conversation.session.update({"customer.tier": "new"})
    second = say(conversation, history, "two")
    first = wire(second.plan, history[:-1])
    assert 'customer.tier: "new"' in first[0].text and 'customer.tier: "new"' in first[-1].text
    third = say(conversation, history, "three")
    assert wire(third.plan, history[:-1])[: len(first)] == first


def test_a_clock_alone_edits_nothing() -> None:
    conversation, history = talk(tiny_model(), "in_place"), list[Message]()
    say(conversation, history, "one")
    conversation.session.update({"now": "2026-01-01T13:00:00"})
    turn = say(conversation, history, "two")
    assert turn.plan.rebased is None and turn.reply.grade == "exact"


def test_auto_follows_verdicts() -> None:
    model = tiny_model()
    conversation, history = talk(model, "auto"), list[Message]()
    first = say(conversation, history, "one")
    skeleton = model.skeleton([Message("system", first.plan.system)])
    model.verdicts.add(skeleton, "customer.tier", agrees=True, cost_s=1.0)
    conversation.session.update({"customer.tier": "new"})
    assert say(conversation, history, "two").reply.edited == ("customer.tier",)
    conversation.session.update({"customer.town": "Basel"})
    turn = say(conversation, history, "three")
    assert turn.reply.edited == () and turn.plan.erratum is not None
    assert turn.reply.grade == "edited"  # it goes on behind the earlier edit


def test_another_process_prefills_and_says_so() -> None:
    from pkv_agents.stores import MemoryStore

    store = MemoryStore()
    conversation, history = talk(tiny_model(), "in_place", store=store), list[Message]()
    say(conversation, history, "one")
    conversation.session.update({"customer.tier": "new"})
    say(conversation, history, "two")
    again = talk(tiny_model(), "in_place", store=store)
    again.session.update({"customer.tier": "new"})
    turn = say(again, history, "three")
    assert turn.reply.grade == "exact" and turn.plan.rebased is None
    assert "kv_prefilled" in {notice.code for notice in again.session.report().notices}


def test_a_failed_call_tells_nothing() -> None:
    conversation, history = talk(tiny_model(), "in_place"), list[Message]()
    say(conversation, history, "one")
    conversation.session.update({"customer.tier": "new"})
    before = conversation.session.ledger
    with pytest.raises(OptionsError):
        conversation.answer([*history, Message("user", "two")], max_tokens=0)
    assert conversation.session.ledger == before
    assert say(conversation, history, "two").reply.edited == ("customer.tier",)
    assert told(conversation)["customer.tier"] == '"new"'


def test_skills_are_put_in_place_and_a_field_behind_them_is_edited() -> None:
    conversation, history = talk(tiny_model(), "in_place", skills=[SKILL]), list[Message]()
    assert isinstance(say(conversation, history, "one").reply.origin, Composed)
    conversation.session.update({"customer.tier": "new"})
    origin = say(conversation, history, "two").reply.origin
    assert isinstance(origin, Edited) and isinstance(origin.base, Composed)


def test_stale_is_refused() -> None:
    with pytest.raises(OptionsError, match="stale"):
        talk(tiny_model(), "stale")
