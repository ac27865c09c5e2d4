"""A query engine's questions, each a conversation of its own: one session for all tells each what is true now."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core import Document, SummaryIndex

from llama_index.llms.pkv import StatefulLLM
from tests.llama_index.providers import openai_llm
from tests.llama_index.support import HEAD, a_session, codes

STATE = HEAD.removeprefix("You help.\n\n")


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize"])
def test_one_session_for_all_questions(mode: Any) -> None:
    inner, provider = openai_llm()
    session = a_session()
    llm = StatefulLLM(inner, session)
    engine = SummaryIndex.from_documents([Document(text="Tea is hot.")]).as_query_engine(llm=llm, response_mode=mode)
    for number in range(1, 6):
        session.update({"cart_total": number})
        engine.query(f"question {number}?")
        told = str(provider.bodies[-1]["messages"])
        assert told.rfind(f"cart_total: {number}") == told.rfind("cart_total: ")
    heads = [body["messages"][0]["content"] for body in provider.bodies]
    assert heads[0] == heads[1] and all(STATE in head for head in heads)
    assert set(codes(session.report().notices)) <= {"history_rewritten", "history_forked", "sliding_window"}
