"""An application's monitor that fails costs neither the turn nor what the ledger knows."""

from __future__ import annotations

import pytest

from pkv_agents import GENERIC, AgentSession, call_back, wire
from tests.core.shop import HELLO, LATER, Shop

SECRET = "hunter2"


def broken(notice: object) -> None:
    raise ValueError(SECRET)


def test_the_warning_names_the_option_and_the_place_and_not_the_text() -> None:
    with pytest.warns(RuntimeWarning, match=r"^on_call raised ValueError in .*test_callbacks\.py:\d+; ") as caught:
        call_back(broken, 1, "on_call")
    assert SECRET not in str(caught[0].message)
    assert caught[0].filename == __file__


def test_what_an_application_stops_by_itself_still_stops() -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_back(stop, 1, "on_call")
    call_back(None, 1, "on_call")


def test_a_turn_goes_on_where_its_notice_could_not_be_told() -> None:
    session = AgentSession(Shop(), key="k", profile=GENERIC, on_notice=broken)
    session.commit(session.plan(HELLO))
    session.state.orders["4471"].status = "delivered"
    with pytest.warns(RuntimeWarning, match="on_notice raised ValueError"):
        session.plan(LATER[:2])  # there is no place for the erratum yet
    assert [notice.code for notice in session.report().notices] == ["erratum_waits"]
    assert 'orders[4471].status: "delivered"' in wire(session.plan(LATER), LATER)[-1].text
