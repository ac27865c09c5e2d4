"""The report over an agent's calls says what a session's says of the same turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.checkpoint.memory import InMemorySaver

from langchain_pkv import ModelCall, StateMiddleware, with_state
from pkv_agents import AgentSession, Notice, report_of
from tests.langchain.support import TAG, Scripted, Shop, a_shop

NEWS = ({}, {"orders[K417].status": "delivered"}, {}, {"mode": "auto", "cart_total": 5})


def answers() -> list[AIMessage]:
    details: Any = [{"cache_read": read} for read in (0, 900, 1000, 1050)]
    return [
        AIMessage(
            f"answer {at}",
            usage_metadata=UsageMetadata(
                input_tokens=1000 + 50 * at, output_tokens=7, total_tokens=1007 + 50 * at, input_token_details=detail
            ),
        )
        for at, detail in enumerate(details)
    ]


def of_an_agent() -> tuple[list[ModelCall], list[Notice]]:
    calls: list[ModelCall] = []
    notices: list[Notice] = []
    ours = StateMiddleware(Shop, tag=TAG, on_call=calls.append, on_notice=notices.append)
    agent: Any = create_agent(Scripted(script=answers()), [], middleware=[ours], checkpointer=InMemorySaver())
    for at, news in enumerate(NEWS):
        given = {"pkv_state": news or a_shop()} if news or not at else {}
        agent.invoke({"messages": [HumanMessage(f"question {at}")], **given}, {"configurable": {"thread_id": "t"}})
    return calls, notices


def test_it_is_that_of_a_session_with_the_same_turns() -> None:
    session = AgentSession(a_shop(), key="t", tag=TAG)
    llm = with_state(Scripted(script=answers()), session)
    messages: list[Any] = []
    for at, news in enumerate(NEWS):
        session.update(news)
        messages.append(HumanMessage(f"question {at}"))
        messages.append(llm.invoke(messages))
    calls, notices = of_an_agent()
    expected = session.report()
    assert replace(report_of(calls, key="t", notices=notices), notices=expected.notices) == expected
    assert [turn.changed for turn in expected.turns] == [(), ("orders[K417].status",), (), ("mode", "cart_total")]
    assert expected.cost is not None and expected.cost.saving


def test_notices_are_those_that_were_heard_or_those_of_the_plans() -> None:
    calls, _ = of_an_agent()
    heard = Notice("history_edited", path="m1", cost="c", mend="m", message="x")
    assert report_of(calls, notices=[heard]).notices == (heard,)
    twice = [replace(call, plan=replace(call.plan, notices=(heard,))) for call in calls]
    assert report_of(twice).notices == (heard,)


def test_nothing_yet() -> None:
    report = report_of([])
    assert (report.turns, report.total_turns, report.cost, report.notices) == ((), 0, None, ())
    assert "0 turns" in str(report) and "not reported" in str(report)
