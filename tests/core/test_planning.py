"""Planning: where an erratum may stand, what is replayed, and what happens when the history is not what it was."""

# ruff: noqa: RUF012 (pydantic copies the defaults of a model)
from __future__ import annotations

import itertools
import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated

import pytest
from pydantic import BaseModel

from pkv_agents import (
    ANTHROPIC_MID_SYSTEM,
    GENERIC,
    OPENAI,
    ConflictError,
    Ledger,
    Message,
    MessageError,
    Pinned,
    Profile,
    RebasePolicy,
    SessionError,
    ToolCall,
    Tracked,
    TrackedState,
    TurnPlan,
    Volatile,
    apply_patch,
    chain,
    commit,
    plan,
    wire,
)
from tests.core.strategies import TAG

PROFILES = [OPENAI, GENERIC, ANTHROPIC_MID_SYSTEM]
NOON = datetime(2026, 1, 1, 12)


class Todo(BaseModel):
    id: int
    status: str


class Cart(BaseModel):
    total: int = 0
    items: list[str] = []


class World(TrackedState):
    mode: str = "plan"
    todos: Annotated[list[Todo], Tracked(key="id")] = [Todo(id=1, status="pending")]
    cart: Cart = Cart()
    counter: int = 0
    region: Annotated[str, Pinned()] = "eu"


class Clocked(World):
    now: Annotated[datetime | None, Volatile(resolution=timedelta(hours=12))] = None
    steps: Annotated[int, Volatile(resolution=50)] = 0


class Talk:
    """A conversation that is planned, sent and recorded."""

    def __init__(self, profile: Profile = OPENAI, state: World | None = None) -> None:
        self.state = state if state is not None else World()
        self.profile = profile
        self.ledger: Ledger | None = None
        self.messages: list[Message] = []
        self.policy = RebasePolicy(floor_tokens=10**6)
        self.instructions = "Be kind."

    def plan(self, rebase: str | None = None) -> TurnPlan:
        return plan(
            self.ledger,
            self.state,
            self.messages,
            profile=self.profile,
            instructions=self.instructions,
            tag=TAG,
            policy=self.policy,
            rebase=rebase,
        )

    def say(self, text: str = "go on", rebase: str | None = None) -> TurnPlan:
        """A user message, a request, an answer."""
        self.messages.append(Message("user", text))
        made = self.plan(rebase)
        self.ledger = commit(self.ledger, made)
        self.sent = wire(made, self.messages)
        self.messages.append(Message("assistant", f"answer to {text}"))
        return made


def errata(sent: tuple[Message, ...]) -> list[str]:
    return [message.text for message in sent[1:] if "<state-update" in message.text]


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
            rebases += made.rebased is not None
            assert made.rebased is None or made.notices[0].code == "errata_limit"
            sizes.append(sum(len(text) for text in errata(talk.sent)))
        assert told <= 200 // 50 + rebases + 1
        assert 0 < rebases < 15 and max(sizes) < 3000

    def test_r11_ten_fields_make_one_erratum(self) -> None:
        talk = Talk()
        talk.say()
        talk.state = apply_patch(talk.state, {f"todos[{n}]": {"status": "new"} for n in range(10, 20)})
        made = talk.say()
        assert len(made.changes) == 10 and len(errata(talk.sent)) == 1


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
        talk.messages.append(Message("tool", 'todos[1].status: "pending"'))
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

    def test_nothing_to_record_changes_nothing(self) -> None:
        talk = Talk()
        talk.say()
        talk.messages.append(Message("user", "x"))
        assert talk.ledger is not None and commit(talk.ledger, talk.plan()) is talk.ledger

    def test_wire_wants_the_messages_of_the_plan(self) -> None:
        talk = Talk(state=Clocked(now=NOON))
        talk.messages.append(Message("user", "x"))
        with pytest.raises(SessionError, match="not the messages"):
            wire(talk.plan(), [])


class TestChain:
    def test_content_counts_and_nothing_else(self) -> None:
        one = Message("assistant", "x", (ToolCall("f", {"city": "Tokyo", "unit": "c"}, "id1"),))
        two = Message("assistant", "x", (ToolCall("f", {"unit": "c", "city": "Tokyo"}, "id2"),))
        assert chain([one]) == chain([two])
        parts = ({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}, "id": "7"},)
        assert chain([Message("user", parts)]) == chain([Message("user", "x")])
        assert chain([Message("tool", "x", tool_call_id="a")]) == chain([Message("tool", "x", tool_call_id="b")])

    def test_the_same_words_twice_are_two_anchors(self) -> None:
        anchors = chain([Message("user", "ok"), Message("user", "ok")])
        assert len(set(anchors)) == 3
        assert chain([Message("user", "ok")]) != chain([Message("assistant", "ok")])
        assert chain([Message("user", "a"), Message("user", "b")])[-1] != chain([Message("user", "ab")])[-1]

    def test_bad_messages(self) -> None:
        with pytest.raises(MessageError, match="'developer' is unknown"):
            Message("developer", "x")  # pyright: ignore[reportArgumentType]
        with pytest.raises(MessageError, match="content of a user message is a list"):
            Message("user", ["x"])  # pyright: ignore[reportArgumentType]
        with pytest.raises(MessageError, match="plain JSON"):
            chain([Message("assistant", "", (ToolCall("f", {"x": object()}),))])


def test_a_limit_that_only_volatile_fields_reach_is_no_reason() -> None:
    talk = Talk(state=Clocked(now=NOON))
    talk.policy = RebasePolicy(floor_tokens=1, ratio=0)
    talk.say()
    assert talk.say().rebased is None


def test_explain_says_what_and_why() -> None:
    talk = Talk()
    talk.say()
    talk.state.mode = "auto"
    text = talk.say().explain()
    assert (
        'mode: "auto"' in text and "after message 3 as system" in text and "prefix of the last request is kept" in text
    )
    assert "new epoch begins with this request: tidy" in talk.say(rebase="tidy").explain()


def test_profiles_can_be_overridden() -> None:
    with pytest.raises(Exception, match="carrier"):
        replace(OPENAI, carrier="pigeon")  # pyright: ignore[reportArgumentType]
