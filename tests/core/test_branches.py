"""Answers asked for again, edits, trims: what a conversation that is no straight line does to its errata (I1, I7)."""

from __future__ import annotations

import pytest

from pkv_agents import Ledger, Message, ToolCall, TurnPlan, commit, wire
from tests.core.talk import Talk, errata


class Branching(Talk):
    """A talk whose answers are recorded, so that branches can be told apart."""

    def ask(self, answer: str) -> TurnPlan:
        """Send the messages as they are; the answer is recorded and not appended."""
        made = self.plan()
        self.ledger = commit(self.ledger, made, answer=Message("assistant", answer))
        self.ledger = Ledger.from_dict(self.ledger.to_dict())
        self.sent = wire(made, self.messages)
        return made

    def go_on(self, answer: str, question: str) -> None:
        self.messages += [Message("assistant", answer), Message("user", question)]


def started() -> Branching:
    talk = Branching()
    talk.messages.append(Message("user", "What is my mode?"))
    return talk


class TestRegenerating:
    def test_going_on_from_the_first_answer_extends_the_first_request(self) -> None:
        talk = started()
        talk.ask("plan")
        first = talk.sent
        talk.state.mode = "auto"
        assert talk.ask("auto").erratum is not None
        talk.go_on("plan", "And now?")
        made = talk.ask("auto by now")
        assert talk.sent[: len(first)] == first
        assert len(errata(talk.sent)) == 1 and made.told["mode"] == '"auto"'
        assert made.notices == ()  # no prefix was broken
        talk.go_on("auto by now", "Sure?")
        assert talk.ask("yes").notices == ()

    def test_going_on_from_the_last_answer_extends_the_last_request(self) -> None:
        talk = started()
        talk.ask("plan")
        talk.state.mode = "auto"
        talk.ask("auto")
        second = talk.sent
        talk.go_on("auto", "And now?")
        made = talk.ask("still")
        assert talk.sent[: len(second)] == second and made.erratum is None and made.notices == ()

    def test_three_answers_and_the_middle_one_goes_on(self) -> None:
        talk = started()
        talk.ask("one")
        talk.state.mode = "b"
        talk.ask("two")
        middle = talk.sent
        talk.state.mode = "c"
        talk.ask("three")
        talk.go_on("two", "And now?")
        made = talk.ask("c")
        assert talk.sent[: len(middle)] == middle
        assert [change.text for change in made.changes] == ['"c"']

    def test_an_answer_that_nobody_recorded_keeps_all_errata(self) -> None:
        talk = started()
        talk.ask("plan")
        talk.state.mode = "auto"
        talk.ask("auto")
        second = talk.sent
        talk.go_on("an answer that was edited", "And now?")
        assert talk.ask("yes").erratum is None and talk.sent[: len(second)] == second


class TestEdits:
    def test_an_edit_that_loses_no_erratum_is_reported_with_its_cost(self) -> None:
        talk = Talk()
        for _ in range(4):
            talk.say()
        talk.messages[3] = Message("assistant", "something else")
        made = talk.say()
        assert [notice.code for notice in made.notices] == ["history_edited"]
        assert made.notices[0].path == "messages[3]" and "6 messages" in made.notices[0].cost
        assert talk.say().notices == ()

    def test_a_fork_to_an_earlier_question_costs_nothing_and_says_nothing(self) -> None:
        talk = Talk()
        for _ in range(4):
            talk.say()
        del talk.messages[3:]
        talk.messages[2] = Message("user", "another question")
        assert talk.plan().notices == ()
        assert talk.say().notices == ()

    def test_a_new_last_message_is_no_edit(self) -> None:
        talk = Talk()
        talk.say()
        talk.messages.append(Message("user", "typo"))
        talk.ledger = commit(talk.ledger, talk.plan())
        talk.messages[-1] = Message("user", "no typo")
        made = talk.plan()
        assert made.notices == ()


class TestOrphans:
    CALLS = (ToolCall("look", {}, "a"), ToolCall("look", {}, "b"))

    def history(self) -> list[Message]:
        return [
            Message("user", "Where is it?"),
            Message("assistant", "", tool_calls=self.CALLS),
            Message("tool", "one", tool_call_id="a"),
            Message("tool", "two", tool_call_id="b"),
            Message("assistant", "There."),
            Message("user", "Thanks"),
        ]

    @pytest.mark.parametrize("index", range(6))
    def test_r30_no_orphan_is_sent_wherever_the_history_was_trimmed(self, index: int) -> None:
        talk = Talk()
        talk.messages = self.history()[:4]
        talk.ledger = commit(None, talk.plan())
        talk.state.mode = "auto"
        made = talk.plan()
        talk.ledger = commit(talk.ledger, made)
        talk.messages = self.history()[index:]
        made = talk.plan()
        sent = wire(made, talk.messages)
        assert made.told["mode"] == '"auto"' and 'mode: "auto"' in "\n".join(message.text for message in sent)
        roles = [message.role for message in sent]
        if index in (2, 3):
            assert "tool" not in roles
            assert "orphan_tool_result" in [notice.code for notice in made.notices]
        else:
            assert roles.count("tool") == len([m for m in talk.messages if m.role == "tool"])
        assert index == 0 or made.notices

    def test_a_result_of_another_call_is_an_orphan(self) -> None:
        talk = Talk()
        talk.messages = [*self.history()[:3], Message("tool", "whose?", tool_call_id="z")]
        made = talk.plan()
        assert made.dropped == (3,)

    def test_an_erratum_never_rides_on_an_orphan(self) -> None:
        talk = Talk()
        talk.ledger = commit(None, talk.plan())
        talk.messages = [Message("tool", "whose?", tool_call_id="z")]
        talk.state.mode = "auto"
        made = talk.plan()
        assert made.erratum is None
        assert [message.role for message in wire(made, talk.messages)] == ["system"]
