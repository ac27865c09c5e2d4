"""What was really sent, where another model than ours was called: a middleware behind ours may fall back to one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.tracers.context import register_configure_hook

from pkv_agents import Notice, TurnPlan

NOT_SENT = Notice(
    code="not_sent",
    path="middleware",
    cost="the model was not told the state; nothing is recorded, so all of it is told again",
    mend="list StateMiddleware last, so that no other middleware replaces both the model and the prompt behind it",
    message="the request that reached the model lacks what StateMiddleware put there",
)


class SentMessages(BaseCallbackHandler):
    """Notes the messages of each chat model that starts.

    Attributes:
        requests: The messages of each, in order.
    """

    run_inline = True

    def __init__(self) -> None:
        self.requests: list[list[BaseMessage]] = []

    def on_chat_model_start(self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **kwargs: Any) -> None:
        """A request leaves."""
        self.requests.extend(messages)


_current: ContextVar[SentMessages | None] = ContextVar("pkv_sent_messages", default=None)
register_configure_hook(_current, inheritable=True)


@contextmanager
def watched() -> Generator[SentMessages]:
    """Note what chat models are sent in this context."""
    sent = SentMessages()
    token = _current.set(sent)
    try:
        yield sent
    finally:
        _current.reset(token)


def was_sent(plan: TurnPlan, sent: SentMessages) -> bool:
    """Whether the baseline and every erratum reached a model; True when no model could be watched."""
    blocks = [plan.epoch.baseline_text, *(insertion.text for insertion in plan.insertions)]
    return not sent.requests or any(_holds(request, blocks) for request in sent.requests)


def _holds(request: Sequence[BaseMessage], blocks: Sequence[str]) -> bool:
    texts = "\n".join(message.text for message in request)
    return all(block in texts for block in blocks)
