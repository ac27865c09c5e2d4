"""One session in several processes or threads: nothing is lost, nothing is told that was not sent, usage is counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest

from pkv_agents import (
    AgentSession,
    ConflictError,
    MemoryStore,
    Message,
    SessionError,
    StoredSession,
    StoreError,
    Usage,
    wire,
)
from tests.core.shop import HELLO, LATER, Shop
from tests.core.strategies import LATE, TAG


def at(store: object, state: Shop | None = None, **options: object) -> AgentSession[Shop]:
    given = {"key": "user-42", "instructions": "Be kind.", "profile": LATE, "tag": TAG, **options}
    return AgentSession(state or Shop(), store=store, **given)  # pyright: ignore[reportArgumentType]


def test_two_processes_take_turns_and_extend_each_others_requests() -> None:
    store, shop = MemoryStore(), Shop()
    one, two = at(store, shop), at(store, shop)
    messages = list(HELLO)
    last: tuple[Message, ...] = ()
    for turn, session in enumerate([one, two, one, two, two, one]):
        shop.mode = f"m{turn}"
        made = session.plan(messages)
        sent = wire(made, messages)
        assert sent[: len(last)] == last and made.notices == ()
        last = sent
        session.commit(made, Usage(fresh=1))
        messages += [Message("assistant", f"a{turn}"), Message("user", f"u{turn}")]
    assert one.plan(messages).told == two.plan(messages).told
    assert at(store, shop).usage.fresh == 6


def test_of_two_that_sent_the_same_both_are_recorded() -> None:
    store, shop = MemoryStore(), Shop()
    one, two = at(store, shop), at(store, shop)
    slow, fast = two.plan(HELLO), one.plan(HELLO)
    one.commit(fast, Usage(fresh=1))
    two.commit(slow, Usage(fresh=1))
    assert two.usage.fresh == 2 and two.report().notices == ()


def test_of_two_that_told_different_things_one_tells_again_and_both_are_counted() -> None:
    store = MemoryStore()
    one, two = at(store), at(store)
    one.commit(one.plan(HELLO))
    one.state.mode, two.state.mode = "a", "b"
    slow, fast = two.plan(LATER), one.plan(LATER)
    one.commit(fast, Usage(fresh=1))
    with pytest.raises(ConflictError):
        two.commit(slow, Usage(fresh=1))
    two.commit(slow, Usage(fresh=1), on_conflict="report")
    assert two.usage.fresh == 2
    assert [notice.code for notice in two.report().notices] == ["commit_conflict"]
    again = two.plan(LATER)
    assert [change.text for change in again.changes] == ['"b"']
    two.commit(again)
    assert at(store).plan(LATER).told["mode"] == at(store).plan(LATER).epoch.baseline["mode"]


def test_threads_on_one_session_lose_nothing() -> None:
    session = at(MemoryStore())
    session.commit(session.plan(HELLO))
    errors: list[BaseException] = []

    def turn(number: int) -> None:
        try:
            session.update({f"orders[K{number}]": {"status": str(number)}})
            session.commit(session.plan(LATER), Usage(fresh=1), on_conflict="report")
        except BaseException as error:  # noqa: BLE001 (a thread's error must reach the test)
            errors.append(error)

    threads = [threading.Thread(target=turn, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and session.usage.fresh == 16
    told = session.plan(LATER).told
    assert {told[f"orders[K{number}].status"] for number in range(16)} == {f'"{number}"' for number in range(16)}


class Flaky(MemoryStore):
    """A store that fails as a remote one does."""

    fails: Callable[[], Exception] | None = None

    def load(self, key: str) -> StoredSession | None:
        if self.fails is not None:
            raise self.fails()
        return super().load(key)

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        if self.fails is not None:
            raise self.fails()
        return super().save(key, data, expected_version=expected_version)


@pytest.mark.parametrize("fault", [StoreError, OSError, RuntimeError])
def test_a_store_that_fails_in_the_middle_of_a_conversation_is_reported_and_nothing_is_lost(
    fault: type[Exception],
) -> None:
    store, shop = Flaky(), Shop()
    session = at(store, shop)
    session.commit(session.plan(HELLO))
    store.fails = lambda: fault("down")
    shop.mode = "auto"
    made = session.plan(LATER)
    assert [change.path for change in made.changes] == ["mode"]
    with pytest.raises(StoreError):
        session.commit(made)
    session.commit(made, on_conflict="report")
    assert {notice.code for notice in session.report().notices} == {"store_failed"}
    assert session.plan(LATER).changes == ()  # memory goes on
    store.fails = None
    messages = [*LATER, Message("assistant", "ok"), Message("user", "next")]
    shop.mode = "plan"
    session.commit(session.plan(messages))
    assert at(store, shop).plan(messages).changes == ()
    assert wire(at(store, shop).plan(messages), messages) == wire(session.plan(messages), messages)


def test_a_plan_of_another_session_is_refused() -> None:
    one, two = at(None), at(None, key="user-43")
    one.commit(one.plan(HELLO))
    foreign = one.plan(LATER)
    with pytest.raises(SessionError, match="plan and commit in one session"):
        two.commit(foreign)
    assert two.ledger is None


def test_a_plan_of_an_earlier_life_of_the_session_is_refused() -> None:
    one, other = at(None), at(None, tag="aaaa")
    one.commit(one.plan(HELLO))
    quiet = one.plan(LATER)  # nothing to record but the request itself
    other.commit(other.plan(HELLO))
    with pytest.raises(ConflictError, match="plan again"):
        other.commit(quiet)
