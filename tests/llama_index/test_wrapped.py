"""What LlamaIndex sets on a model, before it is wrapped and afterwards: it holds for the calls, and once."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.prompts import PromptTemplate

from llama_index.llms.pkv import StatefulLLM
from tests.llama_index.providers import like_llm, openai_llm
from tests.llama_index.support import a_session, ask, user


def test_the_prompts_around_a_question_are_the_inner_models() -> None:
    around = PromptTemplate("[INST] {query_str} [/INST]")
    options: Any = {"is_chat_model": False, "is_function_calling_model": False, "query_wrapper_prompt": around}
    inner, provider = like_llm(system_prompt="Be brief.", **options)
    inner.predict(PromptTemplate("hello"))
    StatefulLLM(inner, a_session()).predict(PromptTemplate("hello"))
    bare, stated = (body["prompt"] for body in provider.bodies)
    assert bare == "[INST] Be brief.\n\nhello [/INST]"
    assert stated.endswith(f"</state>\n\n{bare}")


@pytest.mark.parametrize("way", ["settings", "model"])
def test_a_callback_manager_that_is_set_later_hears_of_each_call_once(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, _ = openai_llm()
    heard = LlamaDebugHandler(print_trace_on_end=False)
    llm: Any = StatefulLLM(inner, a_session())
    if way == "settings":
        monkeypatch.setattr(Settings, "_callback_manager", CallbackManager([heard]))
        monkeypatch.setattr(Settings, "_llm", llm)
        llm = Settings.llm
    else:
        llm.callback_manager = CallbackManager([heard])
    llm.chat([user("a")])
    assert len(heard.get_llm_inputs_outputs()) == 1


async def test_a_rate_limiter_is_asked_once_for_each_call() -> None:
    asked: list[str] = []

    class Limiter:
        def acquire(self) -> None:
            asked.append("sync")

        async def async_acquire(self) -> None:
            asked.append("async")

    given = StatefulLLM(openai_llm(rate_limiter=Limiter())[0], a_session())
    later = StatefulLLM(openai_llm()[0], a_session())
    later.rate_limiter = Limiter()
    for llm in (given, later):
        await ask(llm, "chat", [user("a")])
        await ask(llm, "achat", [user("a")])
    assert asked == ["sync", "async"] * 2
