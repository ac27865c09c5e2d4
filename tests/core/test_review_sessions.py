"""Faults of sessions that a reviewer found, each with the smallest example; the name says what is right."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    DEFAULT_PRICES,
    GENERIC,
    AgentSession,
    ConflictError,
    Ledger,
    MemoryStore,
    Message,
    ProfileError,
    SessionError,
    StateError,
    StoredSession,
    StoreError,
    TrackedState,
    Usage,
    commit,
    cost_of,
    merge_patches,
    plan,
    predict,
    profile_for,
    wire,
)
from tests.core.shop import HELLO, LATER, Shop
from tests.core.strategies import LATE, TAG

START = datetime(2026, 11, 1, tzinfo=UTC)


class Numbers(TrackedState):
    a: str = "x"
    b: int = 0


class Lying(MemoryStore):
    """Saves, and says that it did not."""

    lies = True

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        version = super().save(key, data, expected_version=expected_version)
        if self.lies:
            self.lies = False
            raise StoreError("timed out")
        return version


class Moody(MemoryStore):
    """Fails from the second save on."""

    saves = 0
    damaged = False

    def load(self, key: str) -> StoredSession | None:
        return StoredSession({"format": "other"}, 9) if self.damaged else super().load(key)

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        self.saves += 1
        if self.saves == 4:
            raise StoreError("down")
        return super().save(key, data, expected_version=expected_version)


class TestSessions:
    def test_a_save_that_succeeded_unseen_is_counted_once(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=LATE, store=Lying())
        made = session.plan(HELLO)
        with pytest.raises(StoreError):
            session.commit(made, Usage(fresh=100))
        session.commit(made, Usage(fresh=100))
        assert session.usage.fresh == 100 and session.report().total_turns == 1

    def test_every_plan_is_recorded_once(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=LATE)
        first = session.plan(HELLO)
        session.commit(first, Usage(fresh=1))
        second = session.plan(LATER)
        session.commit(second, Usage(fresh=1))
        session.commit(first, Usage(fresh=1))
        assert session.usage.fresh == 2

    def test_report_never_raises_in_the_middle_of_a_turn(self) -> None:
        store = Moody()
        one, two = (AgentSession(Numbers(), key="k", profile=LATE, store=store) for _ in range(2))
        one.commit(one.plan(HELLO))
        slow = two.plan(LATER)
        one.state.b = 1
        one.commit(one.plan(LATER))
        two.commit(slow, Usage(fresh=5), on_conflict="report")
        store.damaged = True
        late = two.plan(LATER)
        two.commit(late, Usage(fresh=5), on_conflict="report")
        assert two.usage.fresh == 10

    def test_a_session_that_was_deleted_begins_anew_and_says_so(self) -> None:
        store = MemoryStore()
        session = AgentSession(Numbers(), key="k", profile=LATE, store=store)
        session.commit(session.plan(HELLO))
        store.delete("k")
        session.state.b = 1
        made = session.plan(LATER)
        assert made.epoch.baseline["b"] == "1"
        assert [notice.code for notice in session.report().notices] == ["session_deleted"]
        session.commit(made)
        assert store.keys() == ("k",)

    def test_one_request_to_a_fallback_does_not_change_the_sessions_own_profile(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=LATE)
        session.commit(session.plan(HELLO, profile=ANTHROPIC_MID_SYSTEM))
        assert session.plan(LATER).profile == LATE

    def test_the_transcript_is_that_of_the_last_model(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=LATE, tag=TAG)
        session.commit(session.plan(HELLO, model="proxy"))
        session.state.b = 1
        again = session.without_system(session.plan(LATER, model="proxy"))
        session.commit(again)
        assert "[user, replayed erratum]" in session.transcript(LATER)
        session.reset()
        assert session.ledger is not None and session.ledger.refused == ("proxy",)

    def test_a_key_cannot_write_a_line_of_its_own_into_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        session = AgentSession(Numbers(), key="u\nCRITICAL root: paid", profile=LATE)
        session.commit(session.plan(HELLO))
        session.rebase("deploy")
        with caplog.at_level(logging.INFO):
            session.plan(LATER)
        assert "\n" not in caplog.records[-1].getMessage()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"profile": "openai"}, "profile: a Profile"),
            ({"style": "calm"}, "style: an ErrataStyle"),
            ({"prices": None}, "prices: a PriceTable"),
            ({"clock": START}, "clock: a function"),
            ({"clock": datetime.now}, "with a zone"),
            ({"tag": 5}, "tag 5"),
            ({"store": "sessions.db"}, "store: a store"),
        ],
    )
    def test_what_is_given_is_checked_at_once(self, options: dict[str, object], words: str) -> None:
        with pytest.raises((SessionError, ProfileError), match=words):
            AgentSession(Shop(), key="k", **options)  # pyright: ignore[reportArgumentType]

    def test_a_misspelt_choice_is_refused(self) -> None:
        session = AgentSession(Shop(), key="k", profile=LATE)
        with pytest.raises(SessionError, match="'raise' or 'report'"):
            session.commit(session.plan(HELLO), on_conflict="rais")  # pyright: ignore[reportArgumentType]

    def test_a_naive_time_is_refused(self) -> None:
        with pytest.raises(SessionError, match="with a zone"):
            plan(None, Numbers(), HELLO, profile=LATE, clock=datetime(2026, 1, 1))

    def test_other_messages_than_the_plans_are_refused(self) -> None:
        made = plan(None, Numbers(), HELLO, profile=LATE)
        with pytest.raises(SessionError, match="not the messages"):
            wire(made, LATER)
        with pytest.raises(ConflictError):
            commit(Ledger(last="elsewhere"), made)


class TestNewcomer:
    def test_a_plan_of_another_conversation_is_refused(self) -> None:
        one, two = (AgentSession(Numbers(), key=key, profile=LATE) for key in ("mara", "zed"))
        with pytest.raises(SessionError, match="got a plan of session 'mara'"):
            two.commit(one.plan(HELLO))
        with pytest.raises(SessionError, match="without a session"):
            two.commit(plan(None, Numbers(), HELLO, profile=LATE))
        with pytest.raises(SessionError, match="not a NoneType"):
            two.commit(None)  # pyright: ignore[reportArgumentType]

    def test_a_window_over_like_sounding_messages_is_a_window(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=LATE)
        full: list[Message] = []
        codes: list[list[str]] = []
        kept: list[bool | None] = []
        before: tuple[Message, ...] = ()
        for turn in range(12):
            session.state.b = turn
            full.append(Message("user", "And now?"))
            window = full[-7:]
            made = session.plan(window)
            codes.append([notice.code for notice in made.notices])
            sent = wire(made, window)
            kept.append(made.kept)
            assert made.kept is None or made.kept == (sent[: len(before)] == before)
            before = sent
            session.commit(made)
            full.append(Message("assistant", f"{turn} of them"))
        assert codes[:4] == [[]] * 4 and codes[4:6] == [["history_rewritten"], ["sliding_window"]]
        assert codes[6:] == [[]] * 6 and not any(kept[4:])

    def test_a_value_without_a_text_is_refused_by_the_update(self) -> None:
        class Gauge(TrackedState):
            level: float = 0.0

        session = AgentSession(Gauge(), key="k")
        for bad in (float("nan"), float("inf")):
            with pytest.raises(StateError, match="level"):
                session.update({"level": bad})
        assert session.state.level == 0.0

    def test_merged_patches_go_into_a_session(self) -> None:
        session = AgentSession(Numbers(), key="k")
        session.update(merge_patches([(2, {"b": 2}), (1, {"b": 1, "a": "y"})]))
        assert (session.state.a, session.state.b) == ("y", 2)

    def test_a_prediction_has_a_cost(self) -> None:
        session = AgentSession(Numbers(), key="k", profile=profile_for("openai", "gpt-5.1")[0])
        made = session.plan(HELLO)
        prediction = predict(made, HELLO)
        cost = cost_of(prediction.usage, DEFAULT_PRICES.find("gpt-5.1"))
        assert cost.status == "estimated" and cost.total is not None and cost.total > 0
        unknown = AgentSession(Numbers(), key="k", profile=GENERIC).plan(HELLO)
        assert "nothing can be predicted" in str(unknown.explain(HELLO))
