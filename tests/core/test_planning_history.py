"""Planning: what is replayed, and what happens when the history is not what it was."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pkv_agents import (
    ConflictError,
    Ledger,
    Message,
    SessionError,
    ToolCall,
    apply_patch,
    commit,
    wire,
)
from tests.core.strategies import TAG
from tests.core.talk import NOON, Clocked, Talk, World, errata


class TestTruth:
    def test_r10_back_and_forth_across_turns_and_within_one(self) -> None:
        talk = Talk()
        talk.say()
        talk.state.mode = "auto"
        talk.say()
        talk.state.mode = "plan"
        assert talk.ledger is not None
        talk.ledger = Ledger.from_dict(talk.ledger.to_dict())
        talk.say()
        assert errata(talk.sent) == [
            f'<state-update id="{TAG}">\nmode: "{mode}"\n</state-update>' for mode in ("auto", "plan")
        ]
        talk.state.mode = "auto"
        talk.state.mode = "plan"
        assert talk.say().erratum is None

    def test_r12_the_order_of_finishing_does_not_matter(self) -> None:
        patches = [{"cart.total": 10}, {"cart.total": 12}, {"cart.items": ["x"]}]
        found: set[str] = set()
        for seed in range(50):
            finished = list(enumerate(patches))
            random.Random(seed).shuffle(finished)
            state = World()
            for _, patch in sorted(finished, key=lambda item: item[0]):  # by call
                state = apply_patch(state, patch)
            talk = Talk()
            talk.say()
            talk.state = state
            made = talk.say()
            assert made.erratum is not None
            found.add(made.erratum.text)
        assert len(found) == 1 and "cart.total: 12" in found.pop()

    def test_r14_the_erratum_names_the_path_of_an_older_result(self) -> None:
        talk = Talk()
        talk.say()
        talk.messages[-1] = Message("assistant", "", (ToolCall("look", {}, "a"),))
        talk.messages.append(Message("tool", 'todos[1].status: "pending"', tool_call_id="a"))
        talk.state.todos[0].status = "done"
        talk.say()
        assert errata(talk.sent)[-1].splitlines()[1] == 'todos[1].status: "done"'


class TestHistory:
    def test_a_trimmed_front_rebases_once_then_keeps_the_head(self) -> None:
        talk = Talk()
        codes: list[list[str]] = []
        heads: list[str] = []
        for step in range(6):
            talk.state.counter = step
            made = talk.say(str(step))
            codes.append([notice.code for notice in made.notices])
            heads.append(made.system)
            assert made.told["counter"] == str(step)
            if len(talk.messages) > 4:
                del talk.messages[:2]
        assert codes == [[], [], [], ["history_rewritten"], ["sliding_window"], []]
        assert len(set(heads[:3])) == 1 and len(set(heads[3:])) == 1

    def test_a_fork_before_an_erratum_tells_by_difference(self) -> None:
        talk = Talk()
        talk.say()
        base = list(talk.messages)
        talk.state.mode = "auto"
        talk.say("branch one")
        head = talk.sent[0]
        talk.messages = list(base)
        made = talk.say("branch two")
        assert [notice.code for notice in made.notices] == ["history_forked"]
        assert talk.sent[0] == head and len(errata(talk.sent)) == 1
        talk.messages = [*base, Message("user", "branch one"), Message("assistant", "answer to branch one")]
        assert talk.say().erratum is None  # the first branch still has its own

    def test_a_fork_from_before_a_rebase_sees_the_old_epoch(self) -> None:
        talk = Talk()
        talk.say()
        base = list(talk.messages)
        talk.state.mode = "auto"
        old = talk.say("a").system
        new = talk.say("b", rebase="tidy up")
        assert new.rebased == "tidy up" and new.system != old and new.insertions == ()
        assert new.notices[0].code == "rebase_requested"
        talk.messages = base
        assert talk.say("c").system == old

    @pytest.mark.parametrize("index", range(1, 6))
    def test_r30_trimming_anywhere_keeps_the_latest_values(self, index: int) -> None:
        talk = Talk()
        calls = (ToolCall("a", {}, "1"), ToolCall("b", {}, "2"))
        talk.say()
        talk.messages[-1:] = [
            Message("assistant", "", tool_calls=calls),
            Message("tool", "one", tool_call_id="1"),
            Message("tool", "two", tool_call_id="2"),
        ]
        talk.state.mode = "auto"
        made = talk.plan()
        talk.ledger = commit(talk.ledger, made)
        talk.messages += [Message("assistant", "done"), Message("user", "next")]
        talk.messages = talk.messages[index:]
        made = talk.plan()
        assert made.told["mode"] == '"auto"' and made.notices

    def test_pinned_and_instructions(self) -> None:
        talk = Talk()
        talk.say()
        talk.state.region = "us"
        made = talk.say()
        assert (made.rebased, made.notices[0].path) == ("pinned_changed", "region")
        talk.instructions = "Be brief."
        made = talk.say()
        assert made.rebased == "instructions_changed" and 'region: "us"' in made.system

    def test_leading_system_messages_are_part_of_the_head(self) -> None:
        talk = Talk()
        talk.messages.append(Message("system", "Mine."))
        made = talk.say()
        assert talk.sent[0].text.startswith("Be kind.\n\nMine.\n\nCurrent state.")
        assert [message.role for message in talk.sent] == ["system", "user"]
        talk.state.mode = "auto"
        made = talk.say()
        assert made.rebased is None and talk.sent[-1].text.startswith("<state-update")

    def test_epochs_are_bounded(self) -> None:
        talk = Talk()
        for _ in range(30):
            talk.say(rebase="again")
        assert talk.ledger is not None and len(talk.ledger.epochs) == 16


class TestCommit:
    def test_twice_is_once_and_stale_is_a_conflict(self) -> None:
        talk = Talk()
        talk.messages.append(Message("user", "x"))
        one = talk.plan()
        ledger = commit(None, one)
        assert commit(ledger, one) is ledger
        talk.ledger = ledger
        talk.state.mode = "auto"
        stale = talk.plan()
        talk.state.mode = "other"
        ledger = commit(ledger, talk.plan())
        with pytest.raises(ConflictError, match="plan again"):
            commit(ledger, stale)

    def test_without_news_only_the_request_is_recorded(self) -> None:
        talk = Talk()
        talk.say()
        talk.messages.append(Message("user", "x"))
        old, made = talk.ledger, talk.plan()
        assert old is not None
        ledger = commit(old, made)
        assert replace(ledger, sent=old.sent) == old and len(ledger.sent) == len(old.sent) + 1
        assert commit(ledger, made) == ledger

    def test_without_news_it_does_not_matter_what_was_recorded_in_between(self) -> None:
        talk = Talk()
        talk.say()
        talk.messages.append(Message("user", "x"))
        quiet = talk.plan()
        talk.state.mode = "auto"
        ledger = commit(talk.ledger, talk.plan())
        assert commit(ledger, quiet).epochs == ledger.epochs

    def test_wire_wants_the_messages_of_the_plan(self) -> None:
        talk = Talk(state=Clocked(now=NOON))
        talk.messages.append(Message("user", "x"))
        with pytest.raises(SessionError, match="not the messages"):
            wire(talk.plan(), [])
