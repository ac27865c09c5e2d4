"""Cache markers and keys on what leaves (R21 to R26), as the providers' own packages write it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain.tools import tool
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langchain_pkv import StateMiddleware, with_state
from pkv_agents import AgentSession, Notice
from tests.langchain.providers import Provider, anthropic_model, assert_append_only, bare, marked, openai_model
from tests.langchain.support import TAG, UPDATE, Shop, a_shop, call

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}
SHORT, LONG, POINT = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}, {"mode": "explicit"}
CLAUDE, GPT = "claude-sonnet-5", "gpt-5.6"


@tool
def look(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id} is on its way"


class Conversation:
    """An agent, or a bare model, and what it sent."""

    def __init__(
        self, made: tuple[Any, Provider], *, middleware: list[Any] | None = None, saver: Any = None, **options: Any
    ) -> None:
        self.model, self.provider = made
        self.notices: list[Notice] = []
        ours = StateMiddleware(Shop, tag=TAG, on_notice=self.notices.append, **options)
        around = [ours] if middleware is None else [ours if one is None else one for one in middleware]
        self.agent: Any = create_agent(
            self.model, [look], system_prompt="Be brief.", middleware=around, checkpointer=saver or InMemorySaver()
        )

    def say(self, content: Any, **rest: Any) -> dict[str, Any]:
        state = {} if self.provider.bodies else {"pkv_state": a_shop()}
        self.agent.invoke({"messages": [HumanMessage(content)], **state, **rest}, CONFIG)
        return self.provider.bodies[-1]


class TestWhereTheyStand:
    def test_anthropic(self) -> None:
        talk = Conversation(anthropic_model(CLAUDE))
        assert marked(talk.say("one")) == {"system[0]": SHORT, "messages[0].content[0]": SHORT}
        second = talk.say("two", pkv_state={"mode": "auto"})
        assert marked(second) == {
            "system[0]": SHORT,
            "messages[0].content[0]": SHORT,
            "messages[2].content[0]": SHORT,
        }
        assert UPDATE in second["messages"][2]["content"][0]["text"]
        assert_append_only(talk.provider.bodies)

    def test_anthropic_with_late_system_messages(self) -> None:
        talk = Conversation(anthropic_model("claude-opus-4-8"))
        talk.say("one")
        body = talk.say("two", pkv_state={"mode": "auto"})
        assert body["messages"][-1]["role"] == "system"
        assert list(marked(body)) == ["messages[0].content[0]", "messages[3].content[0]", "system[0]"]

    def test_openai_from_5_6_marks_its_end_by_itself(self) -> None:
        talk = Conversation(openai_model(GPT))
        assert marked(talk.say("one")) == {"messages[0].content[0]": POINT}
        assert marked(talk.say("two", pkv_state={"mode": "auto"})) == {
            "messages[0].content[0]": POINT,
            "messages[1].content[0]": POINT,
        }
        assert_append_only(talk.provider.bodies)

    def test_openai_in_explicit_mode(self) -> None:
        model, provider = openai_model(GPT)
        talk = Conversation((model.model_copy(update={"prompt_cache_options": {"mode": "explicit"}}), provider))
        assert marked(talk.say("one")) == {"messages[0].content[0]": POINT, "messages[1].content[0]": POINT}

    def test_none_before(self) -> None:
        talk = Conversation(openai_model("gpt-4.1"))
        assert marked(talk.say("one")) == marked(talk.say("two")) == {}

    @pytest.mark.parametrize("name", [CLAUDE, GPT])
    def test_turned_off(self, name: str) -> None:
        made = anthropic_model(name) if name == CLAUDE else openai_model(name)
        talk = Conversation(made, markers=False)
        found = marked(talk.say([{"type": "text", "text": "x", "cache_control": SHORT}]))
        assert list(found.values()) == [SHORT]

    def test_for_an_hour(self) -> None:
        talk = Conversation(anthropic_model(CLAUDE), marker_ttl="1h")
        assert set(map(str, marked(talk.say("one")).values())) == {str(LONG)}

    @pytest.mark.parametrize("streams", [False, True])
    def test_a_bare_model_too(self, streams: bool) -> None:
        model, provider = anthropic_model(CLAUDE)
        session = AgentSession(a_shop(), key="k", tag=TAG)
        llm = with_state(model, session)
        if streams:
            with pytest.raises(Exception):  # noqa: B017  # the mock transport answers no stream; the request left
                list(llm.stream("one"))
        else:
            llm.invoke("one")
        assert marked(provider.bodies[0]) == {"system[0]": SHORT, "messages[0].content[0]": SHORT}


class TestTheApplicationsOwn:
    def test_r21_messages_stay_as_they_are_and_four_is_the_most(self, saver: Any) -> None:
        script = [[call("look", f"c{at}", order_id="K417")] for at in range(8)]
        talk = Conversation(anthropic_model(CLAUDE, [*script, "done"]), saver=saver)
        given = HumanMessage([{"type": "text", "text": "go", "cache_control": SHORT}], id="m1")
        before = copy.deepcopy(given)
        talk.agent.invoke({"messages": [given], "pkv_state": a_shop()}, CONFIG)
        assert len(talk.provider.bodies) == 9
        assert max(len(marked(body)) for body in talk.provider.bodies) <= 4
        stored = talk.agent.get_state(CONFIG).values["messages"]
        assert given == before == stored[0] and "cache_control" not in str(stored[1:])
        assert_append_only(talk.provider.bodies)

    def test_r22_four_of_the_users(self, saver: Any) -> None:
        talk = Conversation(anthropic_model(CLAUDE), saver=saver)
        mine = [{"type": "text", "text": text, "cache_control": SHORT} for text in "abcd"]
        body = talk.say(mine)
        assert list(marked(body)) == [f"messages[0].content[{at}]" for at in range(4)]
        body = talk.say("more")
        assert len(marked(body)) == 4 and "messages[2].content[0]" in marked(body)
        assert "messages[0].content[3]" in marked(body)
        assert {notice.code for notice in talk.notices} == {"markers_dropped"}

    def test_r23_what_takes_none(self, saver: Any) -> None:
        talk = Conversation(anthropic_model(CLAUDE), saver=saver)
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
        body = talk.say([image, {"type": "text", "text": ""}])
        assert "messages[0].content[0]" in marked(body)
        thinking = AIMessage([{"type": "text", "text": "so"}, {"type": "thinking", "thinking": "hm", "signature": "s"}])
        history = [HumanMessage("a"), thinking, AIMessage("well")]
        model, provider = anthropic_model(CLAUDE)
        with_state(model, AgentSession(a_shop(), key="k")).invoke([*history, HumanMessage("b")])
        blocks = provider.bodies[0]["messages"][1]["content"]
        assert [block["type"] for block in blocks if "cache_control" in block] == ["text"]
        assert "thinking" in {block["type"] for block in blocks}

    def test_r24_an_hour_behind_five_minutes(self, saver: Any) -> None:
        talk = Conversation(anthropic_model(CLAUDE), saver=saver)
        talk.say([{"type": "text", "text": "a", "cache_control": SHORT}])
        body = talk.say([{"type": "text", "text": "b", "cache_control": LONG}])
        found = marked(body)
        lives = [found[place] for place in sorted(found, key=lambda place: (not place.startswith("system"), place))]
        assert lives == sorted(lives, key=lambda marker: "ttl" not in marker)
        assert "marker_ttl" in {notice.code for notice in talk.notices}

    def test_r25_a_step_that_is_longer_than_a_lookup(self, saver: Any) -> None:
        many = [call("look", f"c{at}", order_id=str(at)) for at in range(25)]
        talk = Conversation(anthropic_model(CLAUDE, ["one", many, "done"]), saver=saver)
        talk.say("one")
        talk.say("two", pkv_state={"mode": "auto"})
        before, after = talk.provider.bodies[-2:]
        newest = list(marked(before))[-2]  # the system's is the last one in the payload
        assert newest in marked(after), "the request before ended there, and a lookup from the end does not reach it"

    def test_another_providers_keys_do_not_go_out(self) -> None:
        talk = Conversation(openai_model("gpt-4.1"))
        body = talk.say([{"type": "text", "text": "a", "cache_control": SHORT}])
        assert "cache_control" not in str(body)


class TestFallback:
    """R26, in both orders of the two middlewares."""

    @pytest.mark.parametrize("ours_is_last", [True, False])
    @pytest.mark.parametrize("first", ["claude-opus-4-8", CLAUDE])
    def test_r26_from_anthropic_to_openai(self, ours_is_last: bool, first: str, saver: Any) -> None:
        other, provider = openai_model("gpt-4.1")
        around = [None, ModelFallbackMiddleware(other)]
        talk = Conversation(
            anthropic_model(first, ["one", 500]), middleware=around[::-1] if ours_is_last else around, saver=saver
        )
        talk.say("one")
        talk.say("two", pkv_state={"mode": "auto"})
        body = provider.bodies[-1]
        assert "cache_control" not in str(body)
        assert str(body).count(f"{UPDATE}\\nmode") == 1
        if ours_is_last:
            assert body["messages"][-1] == {"role": "system", "content": f'{UPDATE}\nmode: "auto"\n</state-update>'}

    @pytest.mark.parametrize("ours_is_last", [True, False])
    def test_to_one_that_takes_no_late_system_message(self, ours_is_last: bool) -> None:
        other, provider = anthropic_model("claude-haiku-4-5")
        around = [None, ModelFallbackMiddleware(other)]
        script = ["one", 500] if ours_is_last else ["one", 500, 500]
        talk = Conversation(openai_model("gpt-4.1", script), middleware=around[::-1] if ours_is_last else around)
        talk.say("one")
        talk.say("two", pkv_state={"mode": "auto"})
        body = bare(provider.bodies[-1])
        assert body["messages"][-1] == {"role": "user", "content": f'two\n\n{UPDATE}\nmode: "auto"\n</state-update>'}


class TestBesideAnthropicsOwnMiddleware:
    @pytest.mark.parametrize("ours_is_last", [True, False])
    @pytest.mark.parametrize("ttl", ["5m", "1h"])
    def test_its_markers_count(self, ours_is_last: bool, ttl: Any) -> None:
        around = [None, AnthropicPromptCachingMiddleware(ttl=ttl)]
        talk = Conversation(anthropic_model(CLAUDE), middleware=around[::-1] if ours_is_last else around)
        talk.say("one")
        found = marked(talk.say("two", pkv_state={"mode": "auto"}))
        assert len(found) <= 4 and {"", "tools[0]"} <= found.keys()
        assert {marker.get("ttl", "5m") for marker in found.values()} == {ttl}
        assert [(notice.code, notice.is_advice) for notice in talk.notices] == [("markers_beside", True)]

    def test_an_hour_for_the_whole_request_behind_five_minutes(self) -> None:
        model, provider = anthropic_model(CLAUDE)
        marked_block: Any = {"type": "text", "text": "a", "cache_control": SHORT}
        session = AgentSession(a_shop(), key="k", tag=TAG)
        with_state(model, session).invoke([HumanMessage([marked_block])], cache_control=LONG)
        assert marked(provider.bodies[0])[""] == SHORT

    def test_a_standing_one_counts_too(self) -> None:
        model, provider = anthropic_model(CLAUDE)
        standing = model.model_copy(update={"model_kwargs": {"cache_control": SHORT}})
        found = marked(Conversation((standing, provider)).say("one"))
        assert sorted(found) == ["", "system[0]"]

    def test_for_another_model_it_is_left_out(self) -> None:
        """A fallback behind it, and its setting would go to OpenAI."""
        other, provider = openai_model("gpt-4.1")
        around = [AnthropicPromptCachingMiddleware(), ModelFallbackMiddleware(other), None]
        talk = Conversation(anthropic_model(CLAUDE, [500]), middleware=around)
        talk.say("one")
        assert "cache_control" not in provider.bodies[-1]


class TestKeys:
    def key(self, name: str = "gpt-4.1", **options: Any) -> Any:
        talk = Conversation(openai_model(name) if name.startswith("gpt") else anthropic_model(name), **options)
        return talk.say("one").get("prompt_cache_key")

    def test_one_for_a_tenants_agent(self) -> None:
        def tenant(_: Any) -> str:
            return "acme"

        one, other = self.key(cache_key="acme"), self.key(cache_key="umbrella")
        assert one == self.key(cache_key="acme") == self.key(cache_key=tenant) != other
        assert "acme" not in one and len(one) <= 40
        assert self.key(cache_key="acme", instructions="Be kind.") != one
        assert self.key() is None and self.key(CLAUDE, cache_key="acme") is None

    def test_the_state_has_no_part_in_it(self) -> None:
        talk = Conversation(openai_model(), cache_key="acme")
        bodies = [talk.say("one"), talk.say("two", pkv_state={"mode": "auto"}), talk.say("x", pkv_state=a_shop())]
        assert len({body["prompt_cache_key"] for body in bodies}) == 1

    def test_the_applications_own_stays(self) -> None:
        model, provider = openai_model()
        own = model.model_copy(update={"model_kwargs": {"prompt_cache_key": "mine"}})
        assert Conversation((own, provider), cache_key="acme").say("one")["prompt_cache_key"] == "mine"
        llm = with_state(model, AgentSession(a_shop(), key="k"), cache_key="acme")
        llm.invoke("hi", prompt_cache_key="mine too")
        llm.invoke("hi")
        assert provider.bodies[-2]["prompt_cache_key"] == "mine too"
        assert provider.bodies[-1]["prompt_cache_key"].startswith("pkv-")


def test_the_model_is_left_alone() -> None:
    model, provider = anthropic_model(CLAUDE)
    Conversation((model, provider)).say("one")
    model.invoke([SystemMessage("s"), HumanMessage("two")])
    assert marked(provider.bodies[-1]) == {} and not {"_generate", "_stream"} & vars(model).keys()


class Looks(AnthropicPromptCachingMiddleware):
    """Behind ours: looks at the model and passes on another copy of it."""

    seen: Any = None

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.seen = request.model
        return handler(request.override(model=request.model.model_copy(update={"max_tokens": 77})))


def test_whoever_looks_at_the_model_sees_its_class() -> None:
    model, provider = anthropic_model(CLAUDE)
    looks = Looks()
    talk = Conversation((model, provider), middleware=[None, looks])
    talk.say("one")
    body = talk.say("two", pkv_state={"mode": "auto"})
    twin = looks.seen
    assert isinstance(twin, type(model)) and twin is not model and repr(twin) == repr(model)
    assert twin.model_dump() == model.model_dump() and twin.lc_id() == model.lc_id()
    assert body["max_tokens"] == 77 and len(marked(body)) == 3, "a copy of the copy is both: changed, and marked"
