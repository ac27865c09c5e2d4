"""One turn of a real session on a local model, of an exact number of tokens: an erratum and a question."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks._frame import BenchmarkError
from pkv_agents import AgentSession, Message, TrackedState, wire
from pkv_agents.local import LocalModel, Reply

FILLER = " and"
"""One token in most vocabularies, and in any other at least the same number each time."""
ROOM = 256
"""Tokens that an answer may have, as in a real conversation: so there is room for the next turn as well."""
_TRIES = 24


class Shop(TrackedState):
    """What the turn changes."""

    customer: str
    orders: dict[str, str]


AFTER = {"orders[K417]": "delivered", "orders[M802]": "returned", "orders[R115]": "handed to the carrier"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A conversation whose first turn is answered and in the cache, and whose second is about to be asked.

    Attributes:
        engine: The model.
        session: The first turn is recorded in it, and nothing after that.
        key: The conversation's name.
        before: What went out on the first turn.
        messages: The conversation with the second question, without errata.
    """

    engine: LocalModel
    session: AgentSession[Shop]
    key: str
    before: tuple[Message, ...]
    messages: tuple[Message, ...]

    def wire(self) -> tuple[Message, ...]:
        """The second request."""
        return wire(self.session.plan(self.messages, profile=self.engine.profile), self.messages)

    def ids(self) -> list[int]:
        """Its token ids."""
        return self.engine.render_ids(self.wire())

    def ask(self) -> tuple[float, Reply]:
        """Plans, renders, looks up, forwards; seconds until the first token."""
        started = time.perf_counter()
        sent = self.wire()
        planned = time.perf_counter() - started
        reply = self.engine.generate(sent, session=self.key, max_tokens=1)
        return planned + reply.ttft_s, reply

    def decode(self, tokens: int) -> float:
        """Seconds for one more token of an answer, the mean over some; sampled hot, so that it does not end at once.

        Raises:
            BenchmarkError: Every answer does.
        """
        sent = self.wire()
        for seed in range(_TRIES):
            reply = self.engine.generate(sent, session=self.key, max_tokens=tokens, temperature=8.0, seed=seed)
            if reply.output_tokens > tokens // 2:
                return (reply.total_s - reply.ttft_s) / (reply.output_tokens - 1)
        raise BenchmarkError("every sampled answer ended at once")


@dataclass(frozen=True, slots=True)
class Turn:
    """The same turn for many conversations, which differ in the first token of their first answer: a digit.

    Attributes:
        engine: The model.
        policy: How many times the filler stands in the head.
        question: And in the question.
    """

    engine: LocalModel
    policy: int = 0
    question: int = 0

    def asked(self, number: int, *, cached: bool = True) -> Asked:
        """A conversation with its first turn recorded, and in the cache."""
        session = AgentSession(
            Shop(customer="Mara Lindt", orders={"K417": "in transit", "M802": "paid", "R115": "packed"}),
            key=f"kv-{number}",
            instructions=f"Help the customer.{FILLER * self.policy}",
            profile=self.engine.profile,
            tag="kvkv",
        )
        first, answer = (Message("user", "Where is K417?"),), f"{number % 10} days away."
        plan = session.plan(first)
        before = tuple(wire(plan, first))
        if cached:
            self.engine.generate(before, session=session.key, max_tokens=ROOM, choices=(answer,))
        session.commit(plan, answer=Message("assistant", answer))
        session.update(AFTER)
        messages = (*first, Message("assistant", answer), Message("user", f"And now?{FILLER * self.question}"))
        return Asked(self.engine, session, session.key, before, messages)

    def erratum_tokens(self) -> int:
        """Of the erratum's text, without what the template puts round it."""
        asked = self.asked(0, cached=False)
        told = asked.session.plan(asked.messages).erratum
        assert told is not None
        return len(self.engine.template.encode(told.text))


def make_turn(engine: LocalModel, tokens: int, new: int) -> Turn:
    """A turn whose prompt has so many tokens, of which so many are new, as near as the filler allows.

    Raises:
        BenchmarkError: There is none: the numbers are too small for the head or for the erratum.
    """
    least, held = Turn(engine).asked(0), 0
    _, reply = least.ask()
    held = reply.cached_tokens - len(engine.render_ids(least.before))
    step = len(engine.template.encode(FILLER))
    turn = Turn(engine)
    for _ in range(_TRIES):
        asked = turn.asked(0, cached=False)
        size = len(asked.ids())
        fresh = size - len(engine.render_ids(asked.before)) - held
        longer, older = (new - fresh) // step, (tokens - new - size + fresh) // step
        if not longer and not older:
            return turn
        turn = Turn(engine, turn.policy + older, turn.question + longer)
        if min(turn.policy, turn.question) < 0:
            raise BenchmarkError(
                f"a prompt of {tokens} tokens with a turn of {new} is too short: the least has {reply.prompt_tokens} "
                f"tokens, of which {reply.prompt_tokens - reply.cached_tokens} are the turn's"
            )
    raise BenchmarkError(f"no prompt of {tokens} tokens with a turn of {new} was found")
