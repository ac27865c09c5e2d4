"""R07: an endpoint that refuses system turns in mid-conversation, as far as the core goes."""

from __future__ import annotations

import pytest

from pkv_agents import (
    AgentSession,
    Ledger,
    Message,
    SessionError,
    commit,
    refuses_system,
    wire,
    without_system,
)
from tests.core.strategies import LATE
from tests.core.talk import Talk, World


class HttpError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status


REFUSAL = HttpError(400, "messages.2.role: Input should be 'user' or 'assistant', not 'system'")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (REFUSAL, True),
        (HttpError(422, "System message must be at the beginning of the messages"), True),
        (HttpError(400, "unexpected role 'system' after the first turn"), True),
        (HttpError(500, "role system is refused"), False),
        (HttpError(400, "max_tokens is too large"), False),
        (HttpError(400, "your system prompt is too long"), False),
        (ValueError("role system"), False),
    ],
)
def test_only_an_error_about_the_role_counts(error: Exception, expected: bool) -> None:
    talk = Talk()
    talk.say()
    talk.state.mode = "auto"
    made = talk.say()
    assert refuses_system(error, made) is expected
    assert not refuses_system(error, Talk().plan())  # nothing of ours was in it


def test_the_session_remembers_it_and_keeps_what_was_sent() -> None:
    session = AgentSession(World(), key="a", profile=LATE, tag="k7f3")
    messages = [Message("user", "hi")]
    session.commit(session.plan(messages, model="proxy"))
    session.state.mode = "auto"
    messages += [Message("assistant", "hello"), Message("user", "next")]
    refused = session.plan(messages, model="proxy")
    assert refuses_system(REFUSAL, refused)
    again = session.without_system(refused)
    sent = wire(again, messages)
    assert [message.role for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[-1].text.endswith("</state-update>")
    session.commit(again)
    assert [notice.code for notice in session.report().notices] == ["system_refused"]
    messages += [Message("assistant", "ok"), Message("user", "more")]
    assert wire(session.plan(messages, model="proxy"), messages)[:4] == sent
    # The model that takes system turns is still sent the first form of what it was sent.
    session.state.mode = "plan"
    assert session.plan(messages, model="original").insertions[-1].carrier == "system"
    with pytest.raises(SessionError, match="not waiting"):
        session.without_system(refused)


def test_it_survives_a_save() -> None:
    ledger = Ledger.from_dict(without_system(None, "proxy").to_dict())
    assert ledger.refused == ("proxy",) and without_system(ledger, "proxy") is ledger
    talk = Talk()
    talk.ledger = ledger
    talk.say()
    assert talk.ledger is not None
    assert commit(talk.ledger, talk.plan()).refused == ("proxy",)
