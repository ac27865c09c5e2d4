"""A session: one conversation's state, ledger and usage, in the one place where they meet.

    session = AgentSession(shop, key="user-42", instructions=POLICY, store=SQLiteStore("sessions.db"))
    turn = session.plan(messages)            # changes nothing
    reply = call_the_model(wire(turn, messages))
    session.commit(turn, usage=reply.usage)  # only when the call succeeded

The state itself is not stored: the caller's value is the truth, and the ledger knows what the model was told of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Generic, Literal, TypeVar, cast

from ._board import NoticeBoard
from ._rebase import DEFAULT_POLICY, RebasePolicy
from ._report import SessionReport, TurnRecord
from ._saved import Saved
from ._stored import SessionStore
from ._walk import snapshot
from .errata import check_tag, new_tag
from .errors import (
    ConflictError,
    MissingSessionKeyError,
    SchemaError,
    SessionError,
    StoreError,
)
from .explain import transcript
from .ledger import Ledger
from .messages import Message
from .notices import Notice
from .patch import apply_patch
from .planning import plan
from .profiles import GENERIC, Profile
from .refusals import system_refused, without_system
from .snapshots import Snapshot
from .state import TrackedState
from .turnplan import TurnPlan
from .cost import cost_of, total_cost
from .prices import DEFAULT_PRICES
from .usage import Usage, normalise_usage
from .wire import wire

StateT = TypeVar("StateT", bound=TrackedState)

MAX_KEPT = 1000
"""How many turns a report remembers."""
MAX_OPEN = 32
"""How many plans may wait for their answers at a time; an older one can still be recorded, but not planned anew."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class AgentSession(Generic[StateT]):
    """One conversation.

    Args:
        state: The state, owned by the session from now on; or a function that reads the application's own state, which
            is called once for each plan.
        key: The conversation. Two conversations must never share one.
        instructions: The text above the baseline.
        store: Where ledger and usage live between processes; None keeps them in memory.
        profile: What the provider allows; when left out, a wrapper that knows its model passes that to `plan`.
        on_notice: Called with each notice, once for each cause.
        strict: Raise notices instead (for tests and CI), but for a rebase that was asked for.
        tag: The tag of the blocks; random when left out.
        rebase_policy: When errata are folded into a new baseline.
        clock: Tells the time, with a zone, for fields with a `ttl`.

    Raises:
        MissingSessionKeyError: The key is empty.
        SchemaError: The state is no TrackedState.
        LedgerError: The stored ledger is damaged or from a newer version; the store is not changed.
    """

    def __init__(
        self,
        state: StateT | Callable[[], StateT],
        *,
        key: str,
        instructions: str = "",
        store: SessionStore | None = None,
        profile: Profile | None = None,
        on_notice: Callable[[Notice], None] | None = None,
        strict: bool = False,
        tag: str | None = None,
        rebase_policy: RebasePolicy = DEFAULT_POLICY,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise MissingSessionKeyError("a session needs a key of its own, for instance key='user-42'")
        if isinstance(state, type) or not (isinstance(state, TrackedState) or callable(state)):
            kind = getattr(state, "__name__", type(state).__name__)
            raise SchemaError(f"the state is {kind}; pass a TrackedState instance, or a function that returns one")
        if store is not None and not callable(getattr(store, "load", None)):
            raise SessionError(f"store: a store, for instance SQLiteStore('sessions.db'), not a {type(store).__name__}")
        self.key = key
        self.instructions = instructions
        self.own_profile = profile
        self.profile = profile if profile is not None else GENERIC
        self.rebase_policy = rebase_policy
        self._clock = clock
        self._confirmed: dict[str, datetime] = {}
        self._owned: StateT | None = cast(StateT, state) if isinstance(state, TrackedState) else None
        self._read: Callable[[], StateT] | None = None if isinstance(state, TrackedState) else state
        self._board = NoticeBoard(key, on_notice, strict)
        self._lock = threading.RLock()
        self._turns: deque[TurnRecord] = deque(maxlen=MAX_KEPT)
        self._rebase: str | None = None
        self._cost = None
        self.prices = DEFAULT_PRICES
        self._last: TurnPlan | None = None
        # Plans that were made and not recorded yet, with what they were made from.
        self._open: OrderedDict[int, tuple[TurnPlan, tuple[Message, ...], Snapshot]] = OrderedDict()
        self._saved = Saved(key, store)
        self._saved.reload()
        self._tag = check_tag(tag) if tag is not None else new_tag()

    @property
    def state(self) -> StateT:
        """The state: the session's own, or the application's as it is now."""
        if self._read is None:
            return cast(StateT, self._owned)
        found = self._read()
        if not isinstance(found, TrackedState):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise SchemaError(f"the state function returned a {type(found).__name__}; return a TrackedState")
        return found

    @property
    def ledger(self) -> Ledger | None:
        """What was sent so far; None before the first turn."""
        return self._saved.ledger

    @property
    def usage(self) -> Usage:
        """The sum of what was reported."""
        return self._saved.usage

    def update(self, patch: Mapping[str, object]) -> StateT:
        """Change the state by paths, validated.

        Args:
            patch: Path to new value, for instance `{"orders[4471].status": "delivered"}`; `REMOVE` deletes an entry.

        Returns:
            The new state.

        Raises:
            StateError: A path or value that does not fit; nothing was changed.
            SessionError: The application owns the state.
        """
        with self._lock:
            if self._owned is None:
                raise SessionError("the application owns this state; change it there, the session reads it")
            self._owned = apply_patch(self._owned, patch)
            self._confirmed.update(dict.fromkeys(patch, self._clock()))
            return self._owned

    def plan(
        self,
        messages: Sequence[Message],
        *,
        profile: Profile | None = None,
        model: str = "",
        notices: Sequence[Notice] = (),
    ) -> TurnPlan:
        """Decide what a request says about the state; see `pkv_agents.plan`.

        A session that another process has taken further in the store is read again first.

        Args:
            messages: The request's messages.
            profile: What the provider of this request allows, when it is not the session's.
            model: Whose cache the request fills; the profile's name when left out.
            notices: What there is to say about that profile; reported with the plan's own.

        Returns:
            The plan. Nothing is recorded until `commit`.

        Raises:
            StrictNoticeError: There is a notice and the session is strict.
        """
        with self._lock:
            failed = self._saved.refresh()
            known = snapshot(self.state)
            made = self._plan(messages, known, profile if profile is not None else self.profile, model)
            self._open[id(made)] = (made, tuple(messages), known)
            while len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)
        for notice in (*failed, *notices, *made.notices):
            self._board.tell(notice, made.epoch.number)
        return made

    def commit(
        self,
        plan: TurnPlan,
        usage: object = None,
        *,
        answer: Message | None = None,
        on_conflict: Literal["raise", "report"] = "raise",
    ) -> None:
        """Record a request after its call succeeded; the same plan twice is recorded once.

        Args:
            plan: The plan that was sent.
            usage: What the provider reported, in any shape that `normalise_usage` reads.
            answer: What the model answered; see `pkv_agents.commit`.
            on_conflict: `report` for wrappers in the middle of a turn: the plan is left unrecorded, so its changes
                are told again on the next turn, with a notice.

        Raises:
            ConflictError: Another plan was recorded since this one was made, and the two do not agree. What the call
                used is counted all the same.
            StoreError: It could not be saved; nothing was recorded.
        """
        with self._lock:
            if self._last is plan:
                return
            reported = normalise_usage(usage)
            saved, notice = self._saved, None
            try:
                saved.advance(plan, reported, answer, self._plan_anew)
                self._record(plan, reported)
            except ConflictError as error:
                if on_conflict == "raise":
                    raise
                saved.usage = saved.usage + reported  # the call was made, whoever won
                notice = Notice("commit_conflict", cost="the changes are told again", message=str(error))
            except StoreError as error:
                if on_conflict == "raise":
                    raise
                saved.apply(plan, reported, answer)
                self._record(plan, reported)
                notice = Notice("store_failed", mend="save again with the next turn", message=str(error))
            self._open.pop(id(plan), None)
        if notice is not None:
            self._board.tell(notice, saved.turns)

    def _plan_anew(self, plan: TurnPlan) -> TurnPlan | None:
        """The plan of the same request from the ledger as it is now, if that would be the same request."""
        known = self._open.get(id(plan))
        if known is None:
            return None
        _, messages, state = known
        again = self._plan(messages, state, plan.profile, plan.sent.model)
        return again if wire(again, messages) == wire(plan, messages) else None

    def without_system(self, plan: TurnPlan) -> TurnPlan:
        """Plan a request anew after its model refused a system turn in it; remembered for the session.

        Args:
            plan: The plan of the refused request (`pkv_agents.refuses_system` tells whether it was).

        Returns:
            The same request with its errata on user and tool messages.

        Raises:
            SessionError: The plan is not one of this session that waits for its answer.
        """
        with self._lock:
            known = self._open.pop(id(plan), None)
            if known is None:
                raise SessionError("this plan is not waiting for an answer in this session; plan the request again")
            _, messages, state = known
            self._saved.ledger = without_system(self._saved.ledger, plan.sent.model)
            made = self._plan(messages, state, plan.profile, plan.sent.model)
            self._open[id(made)] = (made, messages, state)
        self._board.tell(system_refused(plan.sent.model), made.epoch.number)
        return made

    def rebase(self, reason: str = "requested") -> None:
        """Begin a new epoch with the next request that succeeds.

        Args:
            reason: Why; it is recorded and reported.
        """
        with self._lock:
            self._rebase = reason

    def report(self) -> SessionReport:
        """What changed, what was appended, what the cache served, and the notices."""
        with self._lock:
            saved = self._saved
            return SessionReport(self.key, tuple(self._turns), saved.turns, saved.usage, self._board.notices, self._cost)

    def transcript(self, messages: Sequence[Message]) -> str:
        """The exact wire form of a request with these messages, with errata marked. Records and reports nothing."""
        with self._lock:
            made = self._plan(messages, snapshot(self.state), self.profile, "")
        return transcript(made, messages)

    def _plan(self, messages: Sequence[Message], state: Snapshot, profile: Profile, model: str) -> TurnPlan:
        return plan(
            self._saved.ledger,
            state,
            messages,
            profile=profile,
            instructions=self.instructions,
            rebase=self._rebase,
            tag=self._tag,
            policy=self.rebase_policy,
            clock=self._clock(),
            confirmed=self._confirmed,
            model=model,
        )

    def _record(self, plan: TurnPlan, usage: Usage) -> None:
        self._last, self.profile = plan, plan.profile
        if plan.rebased is not None and plan.rebased == self._rebase:
            self._rebase = None
        changed = tuple(change.path for change in plan.changes) if plan.erratum is not None else ()
        model = plan.sent.model
        cost = cost_of(usage, self.prices.find(model))
        self._cost = cost if self._cost is None else total_cost((self._cost, cost))
        self._turns.append(
            TurnRecord(self._saved.turns, changed, plan.appended_tokens, plan.rebased, usage, cost, model)
        )
