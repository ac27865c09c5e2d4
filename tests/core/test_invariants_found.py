"""What the machines found, each as the smallest example that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkv_agents import ANTHROPIC_MID_SYSTEM, GENERIC, Message, Usage, commit, plan, wire, wire_new
from tests.core.shop import HELLO, LATER, make
from tests.core.strategies import LATE, TAG
from tests.core.talk import Talk, World, errata
from tests.core.test_machine_sessions import FailingStore


def test_a_branch_that_went_on_before_an_erratum_was_told_is_not_given_it() -> None:
    """Answers need not be recorded: a request from further down shows that this history is the older one."""
    talk = Talk()
    talk.say("one")
    talk.say("two")
    older, sent = talk.messages, talk.sent
    talk.state.mode = "auto"
    talk.messages = older[:1]  # the first question again, with news
    made = talk.plan()
    talk.record(made)
    assert len(errata(talk.sent)) == 1
    talk.messages = [*older, Message("user", "three")]
    made = talk.plan()
    talk.record(made)
    assert talk.sent[: len(sent)] == sent and made.notices == ()
    assert len(errata(talk.sent)) == 1 and talk.sent[-1].text.endswith('mode: "auto"\n</state-update>')


def test_a_second_user_message_behind_a_system_turn_is_reported_with_its_cost() -> None:
    talk = Talk(ANTHROPIC_MID_SYSTEM)
    talk.say("one")
    talk.state.mode = "auto"
    talk.messages.append(Message("user", "two"))
    talk.record(talk.plan())
    talk.messages.append(Message("user", "two, I mean"))  # the answer never came into the history
    made = talk.plan()
    (notice,) = made.notices
    assert (notice.code, notice.path) == ("carrier_changed", "messages[3]") and "tokens" in notice.cost
    talk.record(made)
    assert [message.role for message in talk.sent] == ["system", "user", "assistant", "user", "user"]
    talk.messages += [Message("assistant", "ok"), Message("user", "three")]
    assert talk.plan().notices == ()


def test_what_a_call_used_is_not_forgotten_for_a_conflict_or_a_store_that_was_down() -> None:
    store = FailingStore()
    one, two = make(store=store), make(store=store)
    one.commit(one.plan(HELLO), Usage(fresh=1))
    one.state.mode, two.state.mode = "a", "b"
    slow, fast = two.plan(LATER), one.plan(LATER)
    one.commit(fast, Usage(fresh=10))
    two.commit(slow, Usage(fresh=100), on_conflict="report")  # counted, and in no record yet
    one.commit(one.plan(LATER), Usage(fresh=1000))
    store.down = "save"
    two.commit(two.plan(LATER), Usage(fresh=10000), on_conflict="report")
    store.down = ""
    one.commit(one.plan(LATER), Usage(fresh=100000))
    two.commit(two.plan(LATER))
    assert (
        make(store=store).usage.fresh == 111111 and two.report().total_turns == make(store=store).report().total_turns
    )


@pytest.mark.parametrize("down", ["save", "load save"])
def test_two_calls_at_once_while_the_store_is_down_raise_nothing(down: str) -> None:
    store = FailingStore()
    session = make(store=store)
    session.commit(session.plan(HELLO))
    store.down = down
    session.state.mode = "a"
    first = session.plan(LATER)
    session.state.mode = "b"
    second = session.plan(LATER)
    session.commit(first, Usage(fresh=1), on_conflict="report")
    session.commit(second, Usage(fresh=2), on_conflict="report")
    assert session.usage.fresh == 3
    assert session.plan(LATER).changes[0].text == '"b"'  # memory keeps what was recorded first
    store.down = ""
    session.commit(session.plan(LATER))
    assert make(store=store).usage.fresh == 3


def test_a_call_that_told_nothing_is_recorded_though_another_process_told_something() -> None:
    store = FailingStore()
    one, two = make(store=store), make(store=store)
    one.commit(one.plan(HELLO))
    quiet = two.plan(HELLO)
    one.state.mode = "a"
    one.commit(one.plan(LATER))
    two.commit(quiet, Usage(fresh=1))  # no ConflictError: there is nothing in it that could be told twice
    assert make(store=store).usage.fresh == 1
    assert make(store=store, state=one.state).plan(LATER).changes == ()


def test_what_a_server_holds_is_not_sent_again_when_our_copy_was_trimmed() -> None:
    talk = Talk(replace(LATE, holds_history=True))
    talk.say("one")
    for mode in ("auto", "manual"):
        talk.state.mode = mode
        talk.say(mode)
    talk.messages = [*talk.messages[3:], Message("user", "four")]  # the place of "auto" is that of "manual" by now
    new = wire_new(talk.plan(), talk.messages)
    assert [message.text for message in new] == ["four"]


def test_a_slow_call_of_an_older_epoch_does_not_make_it_the_current_one() -> None:
    messages = [Message("user", "hi")]
    ledger = commit(None, plan(None, World(), messages, profile=LATE, tag=TAG))
    slow = plan(ledger, World(), messages, profile=LATE)
    ledger = commit(ledger, plan(ledger, World(), messages, profile=LATE, rebase="tidy"))
    assert commit(ledger, slow).epochs == ledger.epochs


def test_the_form_that_a_fallback_was_sent_is_no_change() -> None:
    messages = [Message("user", "hi"), Message("assistant", "hello"), Message("user", "and?")]
    ledger = commit(None, plan(None, World(), messages[:1], profile=LATE, tag=TAG))
    told = plan(ledger, World(mode="auto"), messages, profile=LATE)
    ledger = commit(ledger, told)
    ledger = commit(ledger, plan(ledger, World(mode="auto"), messages, profile=GENERIC))
    further = [*messages, Message("assistant", "so"), Message("user", "on")]
    assert plan(ledger, World(mode="auto"), further, profile=GENERIC).notices == ()


def test_a_request_without_messages_is_continued_by_its_answer() -> None:
    ledger = commit(None, plan(None, World(), [Message("user", "hi")], profile=LATE, tag=TAG))
    ledger = commit(
        ledger, plan(ledger, World(mode="auto"), [Message("user", "hi"), Message("user", "so?")], profile=LATE)
    )
    ledger = commit(ledger, plan(ledger, World(mode="auto"), [Message("assistant", "cut")], profile=LATE))
    ledger = commit(ledger, plan(ledger, World(mode="auto"), [], profile=LATE))
    answered = [Message("assistant", "hello"), Message("user", "on")]
    turn = plan(ledger, World(mode="auto"), answered, profile=LATE)
    assert (turn.rebased, turn.notices) == (None, ())
    further = plan(commit(ledger, turn), World(mode="auto"), [*answered, Message("user", "go on")], profile=LATE)
    assert (further.rebased, further.notices) == (None, ())


def test_errata_are_read_in_the_order_of_their_places_however_the_ledger_holds_them() -> None:
    """The records that prove in which order they were told are bounded in number; the places are not."""
    talk = Talk()
    talk.say("one")
    for mode in ("auto", "manual"):
        talk.state.mode = mode
        talk.say(mode)
    talk.messages.append(Message("user", "more"))
    assert talk.ledger is not None
    epoch = talk.ledger.epochs[-1]
    assert len(epoch.errata) == 2
    turned = replace(talk.ledger, epochs=(replace(epoch, errata=epoch.errata[::-1]),), sent=())
    again = plan(turned, talk.state, talk.messages, profile=talk.profile, instructions=talk.instructions)
    assert again.changes == () and wire(again, talk.messages) == wire(talk.plan(), talk.messages)
