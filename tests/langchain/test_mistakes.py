"""Mistakes of a first afternoon: each has one clear error or notice, and none costs the state."""

from __future__ import annotations

import copy
import itertools
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt, wrap_model_call
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field, SecretStr, computed_field, field_serializer

from langchain_pkv import StateMiddleware, read_ledger, read_state, to_core, with_state
from pkv_agents import (
    OPENAI,
    AgentSession,
    MessageError,
    Notice,
    SchemaError,
    SessionError,
    StateError,
    StrictNoticeError,
    Tracked,
    TrackedState,
)
from tests.langchain.support import TAG, Scripted, Shop, a_shop, errata_in, texts, wire_of

THREAD: Any = {"configurable": {"thread_id": "t"}}


def an_agent(middleware: list[Any], model: Any = None) -> Any:
    return create_agent(model or Scripted(), [], middleware=middleware, checkpointer=InMemorySaver())


def say(agent: Any, text: str = "hello", **state: Any) -> Any:
    return agent.invoke({"messages": [HumanMessage(text)], **state}, THREAD)


@dynamic_prompt
def only_the_time(request: Any) -> str:
    return "It is noon."


@wrap_model_call
def other_model(request: Any, handler: Any) -> Any:
    return handler(request.override(model=Scripted(), system_message=SystemMessage("Another model, another prompt.")))


@wrap_model_call
async def other_model_async(request: Any, handler: Any) -> Any:
    return await handler(request.override(model=Scripted(), system_message=SystemMessage("Another prompt.")))


class TestOrder:
    """A middleware behind ours changes what we planned: the state is told all the same."""

    @pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream"])
    async def test_a_prompt_that_is_replaced_behind_ours(self, how: str) -> None:
        notices: list[Notice] = []
        seen: list[Any] = []
        model = Scripted()
        ours = StateMiddleware(
            Shop, instructions="Be brief.", tag=TAG, on_notice=notices.append, on_call=seen.append, strict=True
        )
        agent = an_agent([ours, only_the_time], model)
        for text, state in (("hello", {"pkv_state": a_shop()}), ("again", {"pkv_state": {"mode": "auto"}}), ("so", {})):
            given = {"messages": [HumanMessage(text)], **state}
            if how == "ainvoke":
                await agent.ainvoke(given, THREAD)
            elif how == "stream":
                list(agent.stream(given, THREAD))
            else:
                agent.invoke(given, THREAD)
        assert notices == []
        sent = [wire_of(request) for request in model.requests]
        assert all(two[: len(one)] == one for one, two in itertools.pairwise(sent))
        assert model.requests[0][0].text.startswith("It is noon.\n\nBe brief.\n\nCurrent state.")
        assert errata_in(model.requests[-1]) == ['mode: "auto"']
        assert [list(call.messages) for call in seen] == model.requests
        record = read_ledger(agent.get_state(THREAD).values)
        assert record is not None and record.calls == 3

    def test_messages_that_are_dropped_behind_ours(self) -> None:
        """What was told there is told again, and the prefix that moved is reported."""

        @wrap_model_call
        def only_the_newest(request: Any, handler: Any) -> Any:
            return handler(request.override(messages=copy.deepcopy(request.messages[-2:])))

        notices: list[Notice] = []
        model = Scripted()
        agent = an_agent([StateMiddleware(Shop, tag=TAG, on_notice=notices.append), only_the_newest], model)
        say(agent, pkv_state=a_shop())
        say(agent, "again", pkv_state={"mode": "auto"})
        assert errata_in(model.requests[-1]) == ['mode: "auto"']
        assert {notice.code for notice in notices} <= {"history_edited", "history_rewritten"} and notices
        say(agent, "more")
        last = texts(model.requests[-1]).replace('\\"', '"')
        assert 'mode: "auto"' in last and "again" not in last

    def test_another_model_and_another_prompt_behind_ours_are_noticed_and_nothing_is_recorded(self) -> None:
        notices: list[Notice] = []
        seen: list[Any] = []
        ours = StateMiddleware(Shop, tag=TAG, on_notice=notices.append, on_call=seen.append)
        agent = an_agent([ours, other_model])
        assert say(agent, pkv_state=a_shop())["messages"][-1].text == "ok"
        assert [notice.code for notice in notices] == ["not_sent"] and "last" in notices[0].mend
        assert read_ledger(agent.get_state(THREAD).values) is None and not seen

    def test_last_it_sees_what_is_sent(self) -> None:
        notices: list[Notice] = []
        agent = an_agent([only_the_time, StateMiddleware(Shop, on_notice=notices.append)])
        say(agent, pkv_state=a_shop())
        say(agent, "again", pkv_state={"mode": "auto"})
        assert notices == []

    async def test_async_too(self) -> None:
        notices: list[Notice] = []
        agent = an_agent([StateMiddleware(Shop, on_notice=notices.append), other_model_async])
        await agent.ainvoke({"messages": [HumanMessage("hello")], "pkv_state": a_shop()}, THREAD)
        assert [notice.code for notice in notices] == ["not_sent"]


class Inner(BaseModel):
    status: Literal["up", "down"] = "up"


class Service(TrackedState):
    inner: Inner = Inner()
    count: int = 2

    @computed_field
    @property
    def doubled(self) -> int:
        return 2 * self.count


class TestTheChannel:
    def test_computed_fields(self) -> None:
        model = Scripted()
        agent = an_agent([StateMiddleware(Service, tag=TAG)], model)
        say(agent, pkv_state=Service())
        say(agent, "again", pkv_state={"count": 5})
        assert "doubled: 4" in model.requests[0][0].text
        assert "doubled: 10" in model.requests[1][-1].text

    def test_an_instance_that_was_changed_in_place_is_refused_and_the_thread_goes_on(self) -> None:
        agent = an_agent([StateMiddleware(Service)])
        say(agent, pkv_state=Service())
        wrong: Any = read_state(Service, agent.get_state(THREAD).values)
        wrong.inner.status = "BROKEN"
        with pytest.raises(StateError, match=r"inner\.status"):
            say(agent, pkv_state=wrong)
        assert say(agent, pkv_state={"inner.status": "down"})["pkv_state"]["inner"]["status"] == "down"

    def test_a_patch_before_any_state(self) -> None:
        agent = an_agent([StateMiddleware(Shop)])
        with pytest.raises(StateError, match=r"no state in this thread yet.*whole Shop\(.*checkpointer.*thread_id"):
            say(agent, pkv_state={"customer.tier": "gold"})

    def test_a_schema_that_changed_under_a_saved_thread(self) -> None:
        class Newer(Shop):
            region: str

        saver = InMemorySaver()
        old = create_agent(Scripted(), [], middleware=[StateMiddleware(Shop)], checkpointer=saver)
        say(old, pkv_state=a_shop())
        new: Any = create_agent(Scripted(), [], middleware=[StateMiddleware(Newer)], checkpointer=saver)
        updates: list[dict[str, Any]] = [{}, {"pkv_state": {"region": "eu"}}]
        for update in updates:
            with pytest.raises(
                StateError, match=r"saved state of this thread does not fit Newer.*whole Newer\(.*region"
            ):
                say(new, **update)
        whole = Newer(**a_shop().model_dump(), region="eu")
        assert say(new, pkv_state=whole)["pkv_state"]["region"] == "eu"

    def test_what_is_no_path_is_refused(self) -> None:
        agent = an_agent([StateMiddleware(Service)])
        say(agent, pkv_state=Service())
        with pytest.raises(StateError, match="a path is a str, not a int"):
            say(agent, pkv_state={1: "x"})
        say(agent, pkv_state={})


class Part(BaseModel):
    note: Annotated[str, Field(exclude=True)] = ""
    masked: str = ""

    @field_serializer("masked")
    def _mask(self, value: str) -> str:
        return value[:1] + "***"


class Card(Part):
    blocked: bool = False


class Odd(TrackedState):
    part: Part = Part()
    anything: Any = None
    secrets: set[SecretStr] = Field(default_factory=set[SecretStr])


class TestWhatIsSaved:
    """The graph's state is the application's, whatever its schema does when it is serialised."""

    def test_it_is_what_was_given(self) -> None:
        model = Scripted()
        agent = an_agent([StateMiddleware(Odd, tag=TAG)], model)
        state = Odd(part=Part(note="kept", masked="Mara"), anything={"b", "a", "c"}, secrets={SecretStr("s3cret")})
        say(agent, pkv_state=state)
        say(agent, "again", pkv_state={"part.note": "changed"})
        assert 'part.masked: "Mara"\nanything: ["a", "b", "c"]' in model.requests[0][0].text
        assert 'part.note: "changed"' in model.requests[1][-1].text
        back = read_state(Odd, agent.get_state(THREAD).values)
        assert {secret.get_secret_value() for secret in back.secrets} == {"s3cret"}
        assert "s3cret" not in "".join(message.text for message in model.requests[1])

    def test_what_would_be_lost_is_refused(self) -> None:
        agent = an_agent([StateMiddleware(Odd)])
        with pytest.raises(StateError, match=r"part\.blocked would not be the same.*subclass loses"):
            say(agent, pkv_state=Odd(part=Card(blocked=True)))


class Parcel(TrackedState):
    eta: Annotated[str, Tracked(ttl=timedelta(microseconds=1))] = "14:00"


def test_a_ttl_runs_in_the_graph_too_and_is_told_once() -> None:
    model = Scripted()
    agent = an_agent([StateMiddleware(Parcel, tag=TAG)], model)
    say(agent, pkv_state=Parcel())
    for _ in range(2):
        say(agent, "still?")
        assert texts(model.requests[-1]).count("(stale since ") == 1


class TestArguments:
    @pytest.mark.parametrize("state", [{"mode": "plan"}, Shop, Inner(), 7])
    def test_what_is_no_state(self, state: Any) -> None:
        with pytest.raises(SchemaError, match=r"state takes Shop\(\.\.\.\), or a function"):
            StateMiddleware(Shop, state=state)

    def test_what_is_no_schema_no_tag_no_store(self) -> None:
        with pytest.raises(SchemaError, match="not an instance of Shop") as caught:
            StateMiddleware(a_shop())  # pyright: ignore[reportArgumentType]
        assert "Mara" not in str(caught.value)
        with pytest.raises(SessionError, match="four characters"):
            StateMiddleware(Shop, tag="K!")
        with pytest.raises(SessionError, match="SQLiteStore"):
            AgentSession(a_shop(), key="k", store="s.db")  # pyright: ignore[reportArgumentType]
        with pytest.raises(SchemaError, match="schema first"):
            read_state({}, Shop)  # pyright: ignore[reportArgumentType]

    def test_strict_is_strict_each_time(self) -> None:
        class Unknown(Scripted):
            def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
                return {"ls_provider": "acme", "ls_model_name": "m-1"}

        agent = an_agent([StateMiddleware(Shop, strict=True)], Unknown())
        for _ in range(2):
            with pytest.raises(StrictNoticeError, match="unknown_model"):
                say(agent, pkv_state=a_shop())

    def test_bound_models_and_names(self) -> None:
        session = AgentSession(a_shop(), key="k")
        for wrong in (Scripted().bind_tools([]), Scripted().with_retry(), "openai:gpt-5"):
            with pytest.raises(SessionError, match="wrap first and bind afterwards"):
                with_state(wrong, session)  # pyright: ignore[reportArgumentType]


class TestSessions:
    def test_the_sessions_own_profile_counts(self) -> None:
        class Unknown(Scripted):
            def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
                return {"ls_provider": "acme", "ls_model_name": "m-1"}

        notices: list[Notice] = []
        for profile, carriers in ((OPENAI, ["system"]), (None, [])):
            model = Unknown()
            session = AgentSession(a_shop(), key="k", profile=profile, on_notice=notices.append)
            llm = with_state(model, session)
            llm.invoke([HumanMessage("one")])
            session.update({"mode": "auto"})
            llm.invoke([HumanMessage("one"), HumanMessage("two")])
            assert [message.type for message in model.requests[-1][1:] if message.type == "system"] == carriers
        assert [notice.code for notice in notices] == ["unknown_model"]

    def test_langchain_messages_go_through_to_core(self) -> None:
        session = AgentSession(a_shop(), key="k")
        messages = [HumanMessage("where is it?")]
        with pytest.raises(MessageError, match=r"HumanMessage.*langchain_pkv\.to_core"):
            session.transcript(messages)  # pyright: ignore[reportArgumentType]
        assert "[user]\nwhere is it?" in session.transcript(to_core(messages))
