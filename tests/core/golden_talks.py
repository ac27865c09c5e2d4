"""Fixed conversations over `desk`: tools, edits, critical and stale fields, rebases and forks, in each form.

Run as a program it prints the exact bytes of all requests (messages at the front that are byte for byte those of the
request before are counted instead of repeated); that is how the golden file is made again:

    python -m tests.core.golden_talks > tests/core/golden/talks.txt
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pkv_agents import REMOVE, Ledger, Message, ToolCall, append, apply_patch, commit, wire
from tests.core.conversation import Conversation
from tests.core.desk import PARCELS

CASES = (
    ("gpt-late", "default"),
    ("claude", "default"),
    ("other", "default"),
    ("small", "plain"),
    ("compatible", "calm"),
    ("gpt-late", "plain"),
)
"""Each carrier and slot, each style, the endpoint that refuses system turns."""

CALLS = (ToolCall("look", {"unit": "c", "city": "Tōkyō </state>"}, "a"), ToolCall("look", {"city": "Bern"}, "b"))


def shown(message: Message) -> str:
    """One message of a request, whole."""
    calls = [json.dumps([call.name, call.arguments, call.id], ensure_ascii=False) for call in message.tool_calls]
    name = f" {message.tool_call_id}" if message.tool_call_id else ""
    content = message.content if isinstance(message.content, str) else json.dumps(message.content, ensure_ascii=False)
    return "\n".join([f"[{message.role}{name}]", content, *calls])


def _send(talk: Conversation, before: list[str], why: str, answer: Message | None = None) -> str:
    """One request; the ledger goes through its stored form."""
    turn = talk.request()
    sent = [shown(message) for message in wire(turn, talk.messages)]
    same = next((at for at, pair in enumerate(zip(sent, before, strict=False)) if pair[0] != pair[1]), len(before))
    before[:] = sent
    talk.ledger = Ledger.from_dict(json.loads(json.dumps(commit(talk.ledger, turn, answer=answer).to_dict())))
    talk.rebase = None
    if answer is not None:
        talk.messages.append(answer)
    said = ", ".join(notice.code for notice in turn.notices) or "nothing"
    return "\n".join([f"== {why}; said: {said}", f"({min(same, len(sent))} messages as before)", *sent[same:]])


def requests(model: str, style: str) -> Iterator[str]:
    """The requests of one conversation."""
    talk = Conversation(model, "eager" if model == "small" else "wide")
    talk.style = style
    last: list[str] = []

    def patch(changes: dict[str, Any]) -> None:
        talk.set(apply_patch(talk.state, changes))

    talk.messages = [Message("user", "Where is it? <state-update> [[state k7f3]]")]
    yield _send(talk, last, "the first request", Message("assistant", "I look.", tool_calls=CALLS))
    patch({"mode": "auto", 'orders["</state>"]': {"status": "<|im_end|>"}, "said": {"\u2028": "[INST]"}})
    talk.messages.append(Message("tool", "one", tool_call_id="a"))
    yield _send(talk, last, "a result is missing")
    talk.messages.append(Message("tool", "two \uff1c/state\uff1e", tool_call_id="b"))
    yield _send(talk, last, "the erratum behind both results", Message("assistant", "There."))
    patch({"notes": " ".join(PARCELS).replace("Parcel 4 left the hall on Monday", "Parcel 4 came"), "steps": 7})
    patch({"todos": append("buy milk"), "lines": talk.state.lines[1:], "orders[M220]": REMOVE})
    talk.messages.append(Message("user", ({"type": "text", "text": "Thanks"}, {"type": "image", "url": "u"})))
    yield _send(talk, last, "minimal edits", Message("assistant", "Done."))
    talk.wait(timedelta(minutes=31))
    talk.messages.append(Message("user", "And the gate?"))
    before = list(talk.messages)
    yield _send(talk, last, "a stale value", Message("assistant", "A1, I think."))
    patch({"gate": "B2", "mode": "</state-update>"})
    talk.messages = list(before)
    yield _send(talk, last, "the question again, with news", Message("assistant", "B2."))
    talk.messages = [*before, Message("assistant", "A1, I think."), Message("user", "Sure?")]
    yield _send(talk, last, "on from the first answer", Message("assistant", "Yes."))
    talk.rebase = "asked"
    talk.messages.append(Message("user", "Then go."))
    yield _send(talk, last, "a rebase", Message("assistant", "I go."))
    patch({"mode": "plan"})
    talk.messages.append(Message("user", "Wait."))
    yield _send(talk, last, "news in the new epoch", Message("assistant", "I wait."))
    talk.messages = [*before, Message("assistant", "B2."), Message("user", "Back at B2?")]
    yield _send(talk, last, "a fork from before the rebase", Message("assistant", "At B2."))
    talk.messages = [*talk.messages[3:], Message("user", "Who?")]
    yield _send(talk, last, "trimmed into a tool's results")


def talks() -> bytes:
    """The golden file."""
    parts = [f"#### {model}, {style}\n\n" + "\n\n".join(requests(model, style)) for model, style in CASES]
    return ("\n\n\n".join(parts) + "\n").encode()


if __name__ == "__main__":
    import sys

    sys.stdout.buffer.write(talks())
