"""Cache points stay where they serve; packages that do not work with their client are refused."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.llms.types import CacheControl, CachePoint, TextBlock
from llama_index.core.llms import ChatMessage

from llama_index.llms.pkv import StatefulLLM, _versions
from pkv_agents import AgentSession, Notice, SessionError
from tests.llama_index.more_providers import anthropic_llm, bedrock_llm
from tests.llama_index.support import (
    TAG,
    UPDATE,
    a_session,
    a_shop,
    assert_append_only,
    assistant,
    codes,
    user,
)

AUTO = f'{UPDATE}\nmode: "auto"\n</state-update>'


def point() -> CachePoint:
    return CachePoint(cache_control=CacheControl(type="ephemeral"))


class TestCachePoints:
    def test_one_behind_a_message_covers_its_erratum(self, monkeypatch: pytest.MonkeyPatch) -> None:
        inner, provider = anthropic_llm(monkeypatch)
        session = a_session()
        llm = StatefulLLM(inner, session)
        marked = ChatMessage(role="user", blocks=[TextBlock(text="b"), point()])
        llm.chat([user("a")])
        session.state.mode = "auto"
        llm.chat([user("a"), assistant("ok"), marked])
        (block,) = provider.bodies[1]["messages"][-1]["content"]
        assert block == {
            "type": "text",
            "text": f"b\n\n{AUTO}",
            "cache_control": {"type": "ephemeral", "ttl": "5m"},
        }

    def test_a_marker_that_moves_breaks_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        notices: list[Notice] = []
        inner, provider = anthropic_llm(monkeypatch, script=["one", "two", "three"])
        session = AgentSession(a_shop(), key="k", tag=TAG, on_notice=notices.append)
        llm = StatefulLLM(inner, session)
        history: list[ChatMessage] = []
        for text in ("a", "b", "c"):
            history = [*history, user(text)]
            sent = [*history[:-1], ChatMessage(role="user", blocks=[TextBlock(text=text), point()])]
            history = [*history, llm.chat(sent).message]
            session.state.cart_total += 1
        assert_append_only(provider.bodies)
        assert codes(notices) == []

    def test_one_behind_the_head_stays_there(self) -> None:
        inner, provider = bedrock_llm()
        own = ChatMessage(role="system", blocks=[TextBlock(text="Be brief."), point()])
        StatefulLLM(inner, a_session()).chat([own, user("a")])
        text, marker = provider.bodies[0]["system"]
        assert text["text"].startswith("You help.\n\nBe brief.\n\nCurrent state.")
        assert text["text"].endswith("</state>")
        assert marker == {"cachePoint": {"type": "default"}}
        assert own.blocks[1] == point(), "the package wrote into a copy"


class TestVersions:
    def test_a_package_that_cannot_use_its_client(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = _versions.BROKEN
        inner, _ = anthropic_llm(monkeypatch)
        monkeypatch.setattr(_versions, "BROKEN", broken)
        with pytest.raises(
            SessionError,
            match=r"llama-index-llms-anthropic 0\.12\.3 does not work with anthropic 2\.\d+.*anthropic<1\.0",
        ):
            StatefulLLM(inner, a_session())

    @pytest.mark.parametrize("versions", [("0.12.3", "0.125.0"), ("0.13.0", "2.14.0"), ("0.12.3", None)])
    def test_versions_that_go_together(self, versions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = _versions.BROKEN
        inner, _ = anthropic_llm(monkeypatch)
        monkeypatch.setattr(_versions, "BROKEN", broken)
        found = dict(zip(("llama-index-llms-anthropic", "anthropic"), versions, strict=True))
        monkeypatch.setattr(_versions, "_version", found.get)
        StatefulLLM(inner, a_session())
