"""Planning: where an erratum may stand, and how it is worded and explained."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    OPENAI,
    Ledger,
    Message,
    MessageError,
    Profile,
    RebasePolicy,
    ToolCall,
    apply_patch,
    commit,
    wire,
)
from tests.core.strategies import TAG
from tests.core.talk import NOON, PROFILES, Clocked, Talk, anchors_of, errata


@pytest.mark.parametrize("profile", PROFILES)
class TestSlots:
    def test_r01_an_erratum_waits_for_all_results_of_a_call(self, profile: Profile) -> None:
        talk = Talk(profile)
        talk.say()
        calls = (ToolCall("look", {}, "a"), ToolCall("look", {}, "b"))
        talk.messages[-1] = Message("assistant", "", tool_calls=calls)
        talk.messages.append(Message("tool", "one", tool_call_id="a"))
        talk.state.mode = "auto"
        waiting = talk.plan()
        assert waiting.erratum is None
        assert [notice.code for notice in waiting.notices] == ["erratum_waits"]
        talk.messages.append(Message("tool", "two", tool_call_id="b"))
        talk.state.counter = 1
        made = talk.plan()
        assert made.erratum is not None and made.erratum.text.count("\n") == 3
        assert [insertion.after for insertion in made.insertions if insertion.is_new] == [len(talk.messages)]

    def test_r02_never_first_never_two_system_turns_never_an_exception(self, profile: Profile) -> None:
        talk = Talk(profile)
        empty = talk.plan()
        assert [message.role for message in wire(empty, [])] == ["system"] and empty.notices == ()
        talk.ledger = commit(None, empty)
        talk.state.mode = "auto"
        assert talk.plan().erratum is None
        talk.say()
        talk.state.mode = "plan"
        after_answer = talk.plan()
        assert after_answer.erratum is not None or after_answer.notices[0].code == "erratum_waits"
        talk.messages.append(Message("user", "x"))
        for value in ("a", "b"):  # twice on one request: the first was recorded, the answer is asked for again
            talk.state.mode = value
            made = talk.plan()
            talk.ledger = commit(talk.ledger, made)
            roles = [message.role for message in wire(made, talk.messages)]
            assert ("system", "system") not in itertools.pairwise(roles)

    def test_r08_one_change_after_twenty_messages(self, profile: Profile) -> None:
        talk = Talk(profile)
        for _ in range(10):
            talk.say()
        before = talk.sent
        talk.state.todos[0].status = "done"
        talk.say()
        assert talk.sent[: len(before)] == before
        assert len(errata(talk.sent)) == 1 and 'todos[1].status: "done"' in errata(talk.sent)[0]

    def test_replay_is_byte_identical_also_in_a_fallback_and_back(self, profile: Profile) -> None:
        talk = Talk(profile)
        talk.state.mode = "auto"
        talk.say()
        talk.state.mode = "plan"
        talk.say()
        first = wire(talk.plan(), talk.messages)
        for other in PROFILES:
            talk.profile = other
            assert [insertion.text for insertion in talk.plan().insertions] == [
                f'<state-update id="{TAG}">\nmode: "plan"\n</state-update>'
            ]
        talk.profile = profile
        assert wire(talk.plan(), talk.messages) == first


def test_a_recorded_system_erratum_before_a_user_turn_rides_on_the_message_before_it() -> None:
    talk = Talk(ANTHROPIC_MID_SYSTEM)
    talk.say()
    talk.state.mode = "auto"
    talk.say("two")
    talk.messages[-1] = Message("user", "three")  # the answer was lost, the user went on
    sent = wire(talk.plan(), talk.messages)
    assert [message.role for message in sent] == ["system", "user", "assistant", "user", "user"]
    assert sent[3].text.endswith("</state-update>")


class TestVolatile:
    def test_r09_a_clock_is_told_beside_the_message_and_by_its_resolution(self) -> None:
        talk = Talk(state=Clocked(now=NOON))
        first = talk.say()
        assert first.erratum is not None and "now" in first.erratum.text and "now" not in first.system
        one = talk.sent
        for minutes in (1, 700):
            talk.state = Clocked(now=NOON + timedelta(minutes=minutes))
            assert talk.say().erratum is None
        assert talk.sent[: len(one)] == one
        talk.state = Clocked(now=NOON + timedelta(hours=13))  # resumed after midnight
        assert talk.ledger is not None
        talk.ledger = Ledger.from_dict(talk.ledger.to_dict())
        told = talk.say()
        assert [change.path for change in told.changes] == ["now"] and talk.sent[: len(one)] == one

    def test_r11_a_counter(self) -> None:
        talk = Talk(state=Clocked())
        talk.policy = RebasePolicy()
        told, rebases, sizes = 0, 0, []
        for step in range(200):
            talk.state = apply_patch(talk.state, {"steps": step, "counter": step})
            made = talk.say()
            told += any(change.path == "steps" for change in made.changes)
            assert made.told["counter"] == str(step) and abs(int(made.told["steps"]) - step) < 50
            rebases += made.rebased is not None
            assert made.rebased is None or made.notices[0].code in ("payback", "errata_limit")
            sizes.append(sum(len(text) for text in errata(talk.sent)))
        assert told <= 200 // 50 + rebases + 1
        assert 0 < rebases < 15 and max(sizes) < 3000

    def test_r11_ten_fields_make_one_erratum(self) -> None:
        talk = Talk()
        talk.say()
        talk.state = apply_patch(talk.state, {f"todos[{n}]": {"status": "new"} for n in range(10, 20)})
        made = talk.say()
        assert len(made.changes) == 10 and len(errata(talk.sent)) == 1


class TestAnchors:
    def test_content_counts_and_nothing_else(self) -> None:
        one = Message("assistant", "x", (ToolCall("f", {"city": "Tokyo", "unit": "c"}, "id1"),))
        two = Message("assistant", "x", (ToolCall("f", {"unit": "c", "city": "Tokyo"}, "id2"),))
        assert anchors_of([one]) == anchors_of([two])
        parts = ({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}, "id": "7"},)
        assert anchors_of([Message("user", parts)]) == anchors_of([Message("user", "x")])
        assert anchors_of([Message("tool", "x", tool_call_id="a")]) == anchors_of(
            [Message("tool", "x", tool_call_id="b")]
        )

    def test_the_same_words_twice_are_two_anchors(self) -> None:
        anchors = anchors_of([Message("user", "ok"), Message("user", "ok")])
        assert len(set(anchors)) == 3
        assert anchors_of([Message("user", "ok")]) != anchors_of([Message("assistant", "ok")])
        assert anchors_of([Message("user", "a"), Message("user", "b")])[-1] != anchors_of([Message("user", "ab")])[-1]

    def test_bad_messages(self) -> None:
        with pytest.raises(MessageError, match="'developer' is unknown"):
            Message("developer", "x")  # pyright: ignore[reportArgumentType]
        with pytest.raises(MessageError, match="content of a user message is a list"):
            Message("user", ["x"])  # pyright: ignore[reportArgumentType]
        with pytest.raises(MessageError, match="plain JSON"):
            anchors_of([Message("assistant", "", (ToolCall("f", {"x": object()}),))])


def test_a_limit_that_only_volatile_fields_reach_is_no_reason() -> None:
    talk = Talk(state=Clocked(now=NOON))
    talk.policy = RebasePolicy(floor_tokens=1, ratio=0)
    talk.say()
    assert talk.say().rebased is None


def test_explain_says_what_and_why() -> None:
    talk = Talk()
    talk.say()
    talk.state.mode = "auto"
    text = str(talk.say().explain())
    assert (
        'mode: "auto"' in text and "after message 3 as system" in text and "prefix of the last request is kept" in text
    )
    assert "new epoch begins with this request: tidy" in str(talk.say(rebase="tidy").explain())


def test_profiles_can_be_overridden() -> None:
    with pytest.raises(Exception, match="carrier"):
        replace(OPENAI, carrier="pigeon")  # pyright: ignore[reportArgumentType]
